//! An app or a pod set, and its state in one line.

use crd::status::condition;
use crd::{AppDeploy, Cause, Kind, PodFields, PodSet};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::ObjectMeta;
use model::NextCommand;
use model::reason::Reason;

use crate::cluster::kind_info;
use crate::resource::parts::Parts;
use crate::resource::summary::Summary;
use crate::terminal::ui::Style;

/// An app or a pod set.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// An app.
    App(AppDeploy),
    /// A pod set.
    PodSet(PodSet),
}

/// The part of the status that both kinds have.
#[derive(Clone, Copy, Debug, Default)]
pub struct State<'a> {
    /// The observed generation.
    pub observed: Option<i64>,
    /// The observed restart.
    pub restarted: Option<&'a str>,
    /// The number of existing pods.
    pub replicas: i32,
    /// The number of pods that are ready.
    pub ready: i32,
    /// The number of pods that are up to date.
    pub updated: i32,
    /// The problem.
    pub cause: Option<&'a Cause>,
    /// The conditions.
    pub conditions: &'a [Condition],
}

impl Workload {
    /// Returns the workload in an object. Unreadable fields count as unset.
    pub fn read(kind: Kind, object: &impl Parts) -> Self {
        let metadata = object.metadata();
        match kind {
            Kind::AppDeploy => Self::App(AppDeploy {
                metadata,
                spec: object.spec().unwrap_or_default(),
                status: object.status(),
            }),
            Kind::PodSet => Self::PodSet(PodSet {
                metadata,
                spec: object.spec().unwrap_or_default(),
                status: object.status(),
            }),
        }
    }

    /// Returns what it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::App(_) => Kind::AppDeploy,
            Self::PodSet(_) => Kind::PodSet,
        }
    }

    /// Returns its metadata.
    pub const fn meta(&self) -> &ObjectMeta {
        match self {
            Self::App(app) => &app.metadata,
            Self::PodSet(set) => &set.metadata,
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// Returns its namespace.
    pub fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    /// Returns its name as kubectl prints it.
    pub fn title(&self) -> String {
        kind_info::title(self.kind(), self.name())
    }

    /// Returns what runs in each pod.
    pub fn pod(&self) -> &PodFields {
        match self {
            Self::App(app) => &app.spec.pod,
            Self::PodSet(set) => set.spec.pod(),
        }
    }

    /// Returns the number of pods that are wanted.
    pub const fn wanted(&self) -> i32 {
        match self {
            Self::App(app) => app.spec.replicas,
            Self::PodSet(set) => set.spec.replicas,
        }
    }

    /// Returns the part of the status that both kinds have.
    pub fn state(&self) -> State<'_> {
        let count = |n: Option<i32>| n.unwrap_or(0);
        let state = match self {
            Self::App(app) => app.status.as_ref().map(|status| State {
                observed: status.observed_generation,
                restarted: status.restarted_at.as_deref(),
                replicas: count(status.replicas),
                ready: count(status.ready_replicas),
                updated: count(status.updated_replicas),
                cause: status.cause.as_ref(),
                conditions: &status.conditions,
            }),
            Self::PodSet(set) => set.status.as_ref().map(|status| State {
                observed: status.observed_generation,
                restarted: status.restarted_at.as_deref(),
                replicas: count(status.replicas),
                ready: count(status.ready_replicas),
                updated: count(status.updated_replicas),
                cause: status.cause.as_ref(),
                conditions: &status.conditions,
            }),
        };
        state.unwrap_or_default()
    }

    /// Returns what the status says, as for any kind.
    pub fn summary(&self) -> Summary<'_> {
        let state = self.state();
        let is_paused = match self {
            Self::App(app) => app.spec.paused,
            Self::PodSet(set) => set.spec.paused,
        };
        let ready = state.conditions.iter().find(|one| one.type_ == condition::READY);
        // Scaling does not wait for a `resume`.
        let is_waiting = ready.is_some_and(|ready| ready.reason == Reason::Paused.as_str());
        Summary {
            kind: kind_info::of(self.kind()),
            meta: self.meta(),
            observed: state.observed,
            restarted: state.restarted,
            is_held: is_paused && is_waiting && state.updated < state.replicas,
            cause: state.cause,
            conditions: state.conditions,
        }
    }

    /// Returns a condition by its type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.summary().condition(kind)
    }

    /// Returns the reason of a condition.
    pub fn condition_reason(&self, kind: &str) -> Option<&str> {
        self.condition(kind).map(|c| c.reason.as_str())
    }

    /// Whether a condition is true.
    pub fn is_true(&self, kind: &str) -> bool {
        self.summary().is_true(kind)
    }

    /// Whether it is being deleted.
    pub const fn is_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    /// Whether the status is about the current spec.
    pub fn is_observed(&self) -> bool {
        self.summary().is_observed()
    }

    /// Whether a running operator should have observed the object.
    pub fn is_overlooked(&self, now: Timestamp) -> bool {
        self.summary().is_overlooked(now)
    }

    /// Returns the numbers of ready and wanted pods: `2/3`.
    pub fn ready(&self) -> String {
        format!("{}/{}", self.state().ready, self.wanted())
    }

    /// Returns the one word for how it is.
    pub fn reason(&self) -> String {
        self.summary().reason()
    }

    /// Returns the style for its state.
    pub fn mood(&self) -> Style {
        self.summary().mood()
    }

    /// Returns a sentence on an object that is not in the desired state, and the command to run next.
    pub fn explanation(&self) -> Option<(String, Option<NextCommand>)> {
        self.summary().explanation()
    }

    /// Returns why it is not reachable from outside although it is ready and should be.
    pub fn hidden(&self) -> Option<&str> {
        let exposed = self.condition(condition::EXPOSED).filter(|c| c.status == "False")?;
        self.is_true(condition::READY).then_some(exposed.message.as_str())
    }

    /// Returns its URL.
    pub fn address(&self) -> Option<&str> {
        match self {
            Self::App(app) => app.status.as_ref()?.url.as_deref(),
            Self::PodSet(_) => None,
        }
    }
}

/// Returns the URL of an app, or why it has none.
pub fn url(app: &AppDeploy) -> String {
    match app.status.as_ref().and_then(|status| status.url.clone()) {
        Some(url) => url,
        None if app.spec.pod.container.port.is_none() => "<none>".to_owned(),
        None => "<pending>".to_owned(),
    }
}
