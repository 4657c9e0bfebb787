//! Pods as the simulation keeps them: small, so that there may be millions of states of them, and turned into what
//! the decision takes when it is asked.

use std::fmt;

use model::podset::{self, Phase, SetPod};

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

fn container_id(number: u8) -> String {
    match number {
        0 => String::new(),
        number => format!("containerd://{number}"),
    }
}

/// A pod on the API server, or in a cache.
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
    /// What its container runs.
    pub runs: u8,
    /// The number of its container, which no other has; 0 before the first.
    pub container: u8,
    /// The container that ran when its image was changed.
    pub updated_from: Option<u8>,
    pub replaces: Option<Uid>,
    /// The set that has let it go.
    pub released_from: Option<u8>,
    /// An operator has created it, and nobody has adopted it.
    pub by_operator: bool,
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
            container: 0,
            updated_from: None,
            replaces: None,
            released_from: None,
            by_operator: false,
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
            by_operator: true,
            ..Self::foreign(name, uid, now)
        }
    }

    /// Whether it counts: it has not ended and is not about to.
    pub fn is_active(&self) -> bool {
        !self.deleting && self.phase != Phase::Finished
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
            phase: self.phase,
            node: (self.phase != Phase::Pending).then(|| "node".into()),
            created: self.created.into(),
            ready_since: self.ready_since.map(i64::from),
            deletion_cost: self.deletion_cost.into(),
            restarts: 0,
            template: self.made_from.map(Template::hash),
            shape: self.made_from.map(Template::shape_hash),
            container: Some(container_id(self.container)),
            runs_its_image: self.container > 0 && self.runs == self.image,
            updated_from: self.updated_from.map(container_id),
            always_pulls: false,
            replaces: self.replaces.map(|uid| uid.to_string()),
            released_from: self.released_from.map(set_uid),
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
        ];
        for (_, mark) in marks.iter().filter(|(is_set, _)| *is_set) {
            write!(f, ", {mark}")?;
        }
        let Template { image, shape } = self.made_from.unwrap_or(Template { image: 255, shape: 255 });
        write!(
            f,
            ", says {image}/{shape}, image {}, runs {} in {}",
            self.image, self.runs, self.container
        )?;
        write!(
            f,
            ", created {}, ready {:?}, cost {}",
            self.created, self.ready_since, self.deletion_cost
        )?;
        let notes = (self.updated_from, self.replaces, self.released_from);
        write!(f, ", updated, replaces, released {notes:?}")
    }
}

/// Returns the UID of a set by its number.
pub fn set_uid(set: u8) -> String {
    format!("set-{set}")
}
