//! Pods as the simulation keeps them: small, so that there may be millions of states of them, and turned into what
//! the decision takes when it is asked.

use std::fmt;

use model::podset::{self, ImageChange, Phase, Reported, SetPod};

use crate::wish::Wish;

/// The name of the set.
pub const SET: &str = "web";

/// The name of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A name that the set gives.
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

/// The identity of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub u8);

impl Uid {
    /// Reads what [`fmt::Display`] has written.
    pub fn read(text: &str) -> Self {
        Self(text.trim_start_matches('p').parse().expect("a UID of the simulation"))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// Who controls a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Nobody.
    Nobody,
    /// A set of our name, by the number of its UID.
    Set(u8),
    /// Something else.
    Other,
}

/// What a pod is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Template {
    /// What can be changed in place.
    pub image: u8,
    /// What can't.
    pub shape: u8,
}

impl Template {
    /// Returns the hash of the whole.
    pub fn hash(self) -> String {
        format!("template-{}-{}", self.image, self.shape)
    }

    /// Returns the hash of what can't be changed in place.
    pub fn shape_hash(self) -> String {
        format!("shape-{}", self.shape)
    }
}

/// An image that is the first one by another name: the same content, pinned by digest or spelled out.
pub const RESPELLED: u8 = 2;

/// An image whose container exits some seconds after it has started.
pub const CRASHING: u8 = 3;

/// When a container of [`CRASHING`] exits, in seconds after its start.
pub const EXITS_AFTER: i16 = 2;

/// How long a container without a readiness probe must run to be worth anything, in seconds.
const SHORTEST_RUN: i64 = 3;

/// Returns what is in an image, which is all that a runtime reports.
pub const fn content(image: u8) -> u8 {
    match image {
        RESPELLED => 0,
        image => image,
    }
}

/// What is recorded when the image of a pod is changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    pub container: u8,
    pub image: u8,
    pub at: i16,
}

impl Change {
    /// Reads what the decision says.
    pub fn read(change: &ImageChange) -> Self {
        let number = |text: &str, prefix: &str| text.trim_start_matches(prefix).parse().unwrap_or(0);
        Self {
            container: number(&change.container, "containerd://"),
            image: number(&change.image, "image-"),
            at: i16::try_from(change.at).expect("a time of the simulation"),
        }
    }
}

/// Returns the image of the set's template, as it stands in the spec.
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
    /// It carries the label of the set.
    pub label: bool,
    pub deleting: bool,
    pub phase: Phase,
    pub created: i16,
    pub ready_since: Option<i16>,
    pub deletion_cost: i8,
    /// What its annotations say that it was made from.
    pub made_from: Option<Template>,
    /// What its spec says.
    pub image: u8,
    /// The image of the spec that its container was started for. Kubelets compare strings and do not report this one.
    pub runs: u8,
    /// The image of the spec that the kubelet acts on: the last one that it has received.
    pub heard: u8,
    /// The kubelet has reported a status for the current spec.
    pub observed: bool,
    /// The number of its container, which no other has; 0 before the first.
    pub container: u8,
    /// When that container was started, where the clock runs.
    pub started: Option<i16>,
    /// What was recorded when its image was changed.
    pub change: Option<Change>,
    pub replaces: Option<Uid>,
    /// The versions of the set that ask for it to be replaced, one bit each. Not on the server, but a fact about its UID.
    pub chosen: u8,
    /// The set that has let it go.
    pub released_from: Option<u8>,
    /// An operator has created it, and nobody has adopted it.
    pub by_operator: bool,
    /// Its node is lost or a finalizer holds it: when it is deleted, it stays.
    pub stuck: bool,
}

impl Pod {
    /// Returns a pod that a person has made, and that is not one of ours.
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

    /// Whether a version of the set asks for it to be replaced.
    pub const fn is_chosen(&self, wish: u8) -> bool {
        (self.chosen >> wish) & 1 == 1
    }

    /// Whether it counts: it has not ended and is not about to.
    pub fn is_active(&self) -> bool {
        !self.deleting && self.phase != Phase::Finished
    }

    /// Whether its container was started for the image of its spec, and the kubelet is not about to restart it.
    pub fn runs_its_image(&self) -> bool {
        self.container > 0 && self.runs == self.image && self.heard == self.image
    }

    /// Whether its container may crash and be restarted. Not while the kubelet does not know yet of another image of the same
    /// content: nothing that it reports would show which of the two was started (docs/adr/0009).
    pub fn may_crash(&self) -> bool {
        let is_certain = self.observed || content(self.runs) != content(self.image);
        self.container > 0 && self.runs == self.heard && is_certain
    }

    /// Whether it serves, and will go on serving without another change. Unlike the decision, this knows what kubelets do not
    /// report.
    pub fn serves(&self, wish: &Wish, now: i64) -> bool {
        let shortest = wish.wanted.min_ready.max(SHORTEST_RUN);
        let since = self.ready_since.max(self.started).map_or(i64::MIN, i64::from);
        let steady = now >= since.saturating_add(shortest);
        self.is_active() && self.ready_since.is_some() && self.runs_its_image() && self.runs != CRASHING && steady
    }

    /// Whether an operator hears of it at all.
    pub fn is_watched(&self) -> bool {
        self.label || matches!(self.controller, Controller::Set(_))
    }

    /// Turns it into what the decision takes.
    pub fn seen(&self) -> SetPod {
        let controller = |name: &str, uid: String| podset::Controller { name: name.into(), uid };
        SetPod {
            name: self.name.to_string(),
            uid: self.uid.to_string(),
            controller: match self.controller {
                Controller::Nobody => None,
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

/// In one line, because a counterexample shows many of them.
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
