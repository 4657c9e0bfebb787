//! Simulated pods. They are small, because there are millions of states, and are converted for each decision.

use std::fmt;

use model::podset::{self, ImageChange, Phase, Reported, SetPod};

use crate::spec::Spec;

/// The name of the set.
pub const SET: &str = "web";

/// The name of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// The name of a slot.
    Slot(u8),
    /// Any other name.
    Other(u8),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "{SET}-{slot}"),
            Self::Other(number) => write!(f, "other-{number}"),
        }
    }
}

/// The UID of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub u8);

impl Uid {
    /// Parses the output of [`fmt::Display`].
    pub fn read(text: &str) -> Self {
        Self(text.trim_start_matches('p').parse().expect("a UID of the simulation"))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// The controller of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// No controller.
    None,
    /// A set of the same name, by the number of its UID.
    Set(u8),
    /// Another object.
    Other,
}

/// The template of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Template {
    /// The image, which can be changed in place.
    pub image: u8,
    /// The part that can't be changed in place.
    pub shape: u8,
}

impl Template {
    /// Returns the hash of the template.
    pub fn hash(self) -> String {
        format!("template-{}-{}", self.image, self.shape)
    }

    /// Returns the hash of the part that can't be changed in place.
    pub fn shape_hash(self) -> String {
        format!("shape-{}", self.shape)
    }
}

/// Another name of the first image: pinned by digest or with its full name.
pub const RESPELLED: u8 = 2;

/// An image whose container exits some seconds after it has started.
pub const CRASHING: u8 = 3;

/// When a container of [`CRASHING`] exits, in seconds after its start.
pub const EXITS_AFTER: i16 = 2;

/// How long a container without a readiness probe must run to serve, in seconds.
const SHORTEST_RUN: i64 = 3;

/// Returns the content of an image, which is what a runtime reports.
pub const fn content(image: u8) -> u8 {
    match image {
        RESPELLED => 0,
        image => image,
    }
}

/// The record of a change of the image in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    pub container: u8,
    pub image: u8,
    pub at: i16,
}

impl Change {
    /// Reads the record from the decision.
    pub fn read(change: &ImageChange) -> Self {
        let number = |text: &str, prefix: &str| text.trim_start_matches(prefix).parse().unwrap_or(0);
        Self {
            container: number(&change.container, "containerd://"),
            image: number(&change.image, "image-"),
            at: i16::try_from(change.at).expect("a time of the simulation"),
        }
    }
}

/// Returns the image as in the spec.
pub fn image_name(image: u8) -> String {
    format!("image-{image}")
}

fn container_id(number: u8) -> String {
    match number {
        0 => String::new(),
        number => format!("containerd://{number}"),
    }
}

/// A pod on the API server, or in a cache.
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod {
    pub name: Name,
    pub uid: Uid,
    pub controller: Controller,
    /// Whether it has the label of the set.
    pub label: bool,
    pub deleting: bool,
    pub phase: Phase,
    pub created: i16,
    pub ready_since: Option<i16>,
    pub deletion_cost: i8,
    /// The template recorded in its annotations.
    pub made_from: Option<Template>,
    /// The image in its spec.
    pub image: u8,
    /// The image in the spec with which its container was started. Kubelets compare strings and do not report it.
    pub runs: u8,
    /// The last image in the spec that the kubelet has received.
    pub heard: u8,
    /// Whether the kubelet has reported a status for the current spec.
    pub observed: bool,
    /// The unique number of its container; 0 before the first.
    pub container: u8,
    /// When that container was started, if the clock runs.
    pub started: Option<i16>,
    /// The record of the last change of its image.
    pub change: Option<Change>,
    pub replaces: Option<Uid>,
    /// The versions of the spec that ask to replace it, one bit each. Not stored on the server; it follows from the UID.
    pub chosen: u8,
    /// The set that has released it.
    pub released_from: Option<u8>,
    /// Whether an operator has created it, and it was not adopted.
    pub by_operator: bool,
    /// Whether its node is lost or a finalizer blocks its deletion.
    pub stuck: bool,
}

impl Pod {
    /// Returns a third-party pod.
    pub fn foreign(name: Name, uid: Uid, created: i16) -> Self {
        Self {
            name,
            uid,
            controller: Controller::Other,
            label: false,
            deleting: false,
            phase: Phase::Pending,
            created,
            ready_since: None,
            deletion_cost: 0,
            made_from: None,
            image: 0,
            runs: 0,
            heard: 0,
            observed: true,
            container: 0,
            started: None,
            change: None,
            replaces: None,
            chosen: 0,
            released_from: None,
            by_operator: false,
            stuck: false,
        }
    }

    /// Returns a pod that a set has created.
    pub fn created(name: Name, uid: Uid, set: u8, template: Template, now: i16) -> Self {
        Self {
            controller: Controller::Set(set),
            label: true,
            made_from: Some(template),
            image: template.image,
            runs: template.image,
            heard: template.image,
            by_operator: true,
            ..Self::foreign(name, uid, now)
        }
    }

    /// Whether a version of the spec asks to replace it.
    pub const fn is_chosen(&self, spec: u8) -> bool {
        (self.chosen >> spec) & 1 == 1
    }

    /// Whether it is neither finished nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.deleting && self.phase != Phase::Finished
    }

    /// Whether its container was started with the image in its spec, and the kubelet is not about to restart it.
    pub fn runs_its_image(&self) -> bool {
        self.container > 0 && self.runs == self.image && self.heard == self.image
    }

    /// Whether its container may crash and be restarted. Not while the kubelet has not received another image with the same
    /// content, because its reports would not show which of the two was started (docs/adr/0009).
    pub fn may_crash(&self) -> bool {
        let is_certain = self.observed || content(self.runs) != content(self.image);
        self.container > 0 && self.runs == self.heard && is_certain
    }

    /// Whether it serves, and keeps serving without another change. Unlike the decision, it uses facts that kubelets do not
    /// report.
    pub fn serves(&self, spec: &Spec, now: i64) -> bool {
        let shortest = spec.valid.min_ready.max(SHORTEST_RUN);
        let since = self.ready_since.max(self.started).map_or(i64::MIN, i64::from);
        let steady = now >= since.saturating_add(shortest);
        self.is_active() && self.ready_since.is_some() && self.runs_its_image() && self.runs != CRASHING && steady
    }

    /// Whether operators watch it.
    pub fn is_watched(&self) -> bool {
        self.label || matches!(self.controller, Controller::Set(_))
    }

    /// Converts it to the input of the decision.
    pub fn as_set_pod(&self) -> SetPod {
        let controller = |name: &str, uid: String| podset::Controller { name: name.into(), uid };
        SetPod {
            name: self.name.to_string(),
            uid: self.uid.to_string(),
            controller: match self.controller {
                Controller::None => None,
                Controller::Set(set) => Some(controller("PodSet web", set_uid(set))),
                Controller::Other => Some(controller("Job web", "job".into())),
            },
            label: self.label.then(|| SET.into()),
            deleting: self.deleting,
            ends_by: (self.deleting && self.stuck).then_some(0),
            phase: self.phase,
            node: Some("node".into()),
            created: self.created.into(),
            ready_since: self.ready_since.map(i64::from),
            deletion_cost: self.deletion_cost.into(),
            restarts: 0,
            sidecar_restarts: 0,
            template: self.made_from.map(Template::hash),
            shape: self.made_from.map(Template::shape_hash),
            container: Some(container_id(self.container)),
            image: Some(image_name(self.image)),
            is_running: self.container > 0,
            started: self.started.map(i64::from),
            observed: Some(self.observed),
            reported: self
                .change
                .map_or(Reported::Unclear, |change| self.reported(change.image)),
            change: self.change.map(|change| ImageChange {
                container: container_id(change.container),
                image: image_name(change.image),
                at: change.at.into(),
            }),
            always_pulls: false,
            replaces: self.replaces.map(|uid| uid.to_string()),
            released_from: self.released_from.map(set_uid),
            ..SetPod::default()
        }
    }

    /// Returns which image the runtime reports, by its content.
    fn reported(&self, old: u8) -> Reported {
        let is = |image: u8| self.container > 0 && content(self.runs) == content(image);
        match (is(old), is(self.image)) {
            (true, false) => Reported::Old,
            (false, true) => Reported::New,
            _ => Reported::Unclear,
        }
    }
}

/// Prints one line, because a counterexample has many pods.
impl fmt::Debug for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} of {:?} {:?}",
            self.name, self.uid, self.controller, self.phase
        )?;
        let marks = [
            (self.deleting, "deleting"),
            (!self.label, "without the label"),
            (self.ready_since.is_some(), "ready"),
            (self.by_operator, "by an operator"),
            (self.stuck, "stuck"),
            (!self.observed, "not observed"),
        ];
        for (_, mark) in marks.iter().filter(|(is_set, _)| *is_set) {
            write!(f, ", {mark}")?;
        }
        let Template { image, shape } = self.made_from.unwrap_or(Template { image: 255, shape: 255 });
        write!(
            f,
            ", says {image}/{shape}, image {}, heard {}, runs {} in {} since {:?}",
            self.image, self.heard, self.runs, self.container, self.started
        )?;
        write!(
            f,
            ", created {}, ready {:?}, cost {}",
            self.created, self.ready_since, self.deletion_cost
        )?;
        let notes = (self.change, self.replaces, self.chosen, self.released_from);
        write!(f, ", updated, replaces, chosen, released {notes:?}")
    }
}

/// Returns the UID of a set by its number.
pub fn set_uid(set: u8) -> String {
    format!("set-{set}")
}
