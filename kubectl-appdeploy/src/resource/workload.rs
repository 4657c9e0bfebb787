//! An app or a pod set, and its state in one line.

use crd::status::condition;
use crd::{AppDeploy, AppDeploySpec, AppDeployStatus, Cause, Kind, PodFields, PodSet, PodSetSpec, PodSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use model::NextCommand;
use serde::de::DeserializeOwned;

use crate::cluster::kind_info::title;
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
    /// The number of pods that are there.
    pub replicas: i32,
    /// The number of pods that are ready.
    pub ready: i32,
    /// The number of pods that are up to date.
    pub updated: i32,
    /// What is wrong.
    pub cause: Option<&'a Cause>,
    /// The conditions.
    pub conditions: &'a [Condition],
}

impl Workload {
    /// Returns the workload in an object. What cannot be read counts as not said.
    pub fn read(kind: Kind, object: &DynamicObject) -> Self {
        fn part<T: DeserializeOwned>(object: &DynamicObject, name: &str) -> Option<T> {
            let value = object.data.get(name).cloned().unwrap_or_default();
            serde_json::from_value(value).ok()
        }
        let metadata = ObjectMeta {
            managed_fields: None,
            ..object.metadata.clone()
        };
        match kind {
            Kind::AppDeploy => Self::App(AppDeploy {
                metadata,
                spec: part::<AppDeploySpec>(object, "spec").unwrap_or_default(),
                status: part::<AppDeployStatus>(object, "status"),
            }),
            Kind::PodSet => Self::PodSet(PodSet {
                metadata,
                spec: part::<PodSetSpec>(object, "spec").unwrap_or_default(),
                status: part::<PodSetStatus>(object, "status"),
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
        title(self.kind(), self.name())
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

    /// Returns what both kinds say in their status.
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

    /// Returns a condition by its type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.state().conditions.iter().find(|c| c.type_ == kind)
    }

    /// Returns the reason of a condition.
    pub fn condition_reason(&self, kind: &str) -> Option<&str> {
        self.condition(kind).map(|c| c.reason.as_str())
    }

    /// Whether a condition is true.
    pub fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|c| c.status == "True")
    }

    /// Whether it is being deleted.
    pub const fn is_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    /// Whether the status is about the current spec.
    pub fn is_observed(&self) -> bool {
        let observed = self.state().observed;
        observed.is_some_and(|seen| self.meta().generation.is_none_or(|now| seen >= now))
    }

    /// Whether the status is about the current spec and the last restart, which does not change the spec.
    pub fn is_accounted_for(&self) -> bool {
        let annotations = self.meta().annotations.as_ref();
        let asked = annotations.and_then(|all| all.get(crd::annotation::RESTARTED_AT));
        self.is_observed() && asked.map(String::as_str) == self.state().restarted
    }

    /// Whether an operator that watches should have seen it by now.
    pub fn is_overlooked(&self, now: Timestamp) -> bool {
        /// An operator needs milliseconds; this forgives one that has just been restarted.
        const GRACE: i64 = 15;
        let created = self.meta().creation_timestamp.as_ref();
        let age = created.map_or(i64::MAX, |t| now.as_second() - t.0.as_second());
        self.state().observed.is_none() && age > GRACE
    }

    /// Returns the status of the Ready condition: `Unknown` also while it is about an earlier spec.
    pub fn ready_status(&self) -> &str {
        let ready = self.condition(condition::READY).filter(|_| self.is_observed());
        ready.map_or("Unknown", |ready| ready.status.as_str())
    }

    /// Returns the numbers of ready and wanted pods: `2/3`.
    pub fn ready(&self) -> String {
        format!("{}/{}", self.state().ready, self.wanted())
    }

    /// Returns the one word for how it is.
    pub fn reason(&self) -> String {
        if self.is_deleted() {
            return "Deleting".to_owned();
        }
        if !self.is_observed() {
            return "Pending".to_owned();
        }
        self.condition(condition::READY)
            .map_or_else(|| "<unknown>".to_owned(), |c| c.reason.clone())
    }

    /// Returns the style for its state.
    pub fn mood(&self) -> Style {
        if self.is_deleted() || !self.is_observed() {
            Style::Busy
        } else if self.is_true(condition::READY) {
            Style::Good
        } else if self.is_true(condition::STALLED) || self.state().cause.is_some() {
            Style::Bad
        } else {
            Style::Busy
        }
    }

    /// Returns one sentence on one that is not as its author wants it, and the command to run next.
    pub fn explanation(&self) -> Option<(String, Option<NextCommand>)> {
        if self.is_deleted() {
            // Those of the garbage collector are how a deletion works, not what holds it up.
            let own = |guard: &&String| !["foregroundDeletion", "orphan"].contains(&guard.as_str());
            let guards = self.meta().finalizers.iter().flatten().filter(own);
            let guards: Vec<&str> = guards.map(String::as_str).collect();
            let text = if guards.is_empty() {
                "it is being deleted".to_owned()
            } else {
                format!("it is being deleted and waits for: {}", guards.join(", "))
            };
            return Some((text, None));
        }
        if !self.is_observed() {
            let text = if self.state().observed.is_some() {
                "the operator has not seen the last change yet"
            } else {
                "no operator has seen it yet"
            };
            return Some((text.to_owned(), None));
        }
        if let Some(cause) = self.state().cause {
            let next = cause.next.as_deref().and_then(NextCommand::read);
            return Some((cause.message.clone(), next));
        }
        if self.is_true(condition::READY) {
            return None;
        }
        let ready = self.condition(condition::READY)?;
        Some((ready.message.clone(), None)).filter(|(text, _)| !text.is_empty())
    }

    /// Returns why it is not reachable from outside although it is ready and should be.
    pub fn hidden(&self) -> Option<&str> {
        let exposed = self.condition(condition::EXPOSED).filter(|c| c.status == "False")?;
        self.is_true(condition::READY).then_some(exposed.message.as_str())
    }

    /// Returns where it answers.
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
