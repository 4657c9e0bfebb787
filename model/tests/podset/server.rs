//! The API server: the pods, the set, and the effects of writes.

use model::podset::{DeletionReason, Phase};

use crate::flaw::Flaw;
use crate::pods::{Change, Controller, Name, Pod, Uid};
use crate::spec::Spec;

/// The stored state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// All pods, by name.
    pub pods: Vec<Pod>,
    /// The stored version of the spec.
    pub spec: u8,
    /// The time.
    pub now: i16,
    /// The next pod's UID.
    pub next_uid: Uid,
    /// The next container's number.
    pub next_container: u8,
    /// The number of released pods.
    pub released: u8,
    /// The number of pods whose deletion did not finish.
    pub stuck: u8,
    /// Whether the clock runs, so that start times of containers matter.
    pub is_timed: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            pods: Vec::new(),
            spec: 0,
            now: 0,
            next_uid: Uid(0),
            next_container: 1,
            released: 0,
            stuck: 0,
            is_timed: false,
        }
    }
}

/// A write of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    Create {
        name: Name,
        replaces: Option<Uid>,
    },
    Delete {
        name: Name,
        uid: Uid,
        reason: DeletionReason,
    },
    /// With the version of the pod as a precondition.
    Update {
        name: Name,
        uid: Uid,
        version: Version,
        change: Change,
    },
    /// Reads the set first, and writes only if it exists. A deletion between the two is not simulated: the pods are then
    /// deleted with the set, as for a ReplicaSet.
    Adopt {
        name: Name,
        uid: Uid,
        says_template: bool,
    },
    Release {
        name: Name,
        uid: Uid,
    },
}

/// The version of a pod: the parts of its state that matter for a change of its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub container: u8,
    pub image: u8,
    pub observed: bool,
}

impl Version {
    /// Returns the version of a pod.
    pub const fn of(pod: &Pod) -> Self {
        Self {
            container: pod.container,
            image: pod.image,
            observed: pod.observed,
        }
    }
}

/// The response to a write.
#[derive(Clone, Copy, Debug)]
pub enum Response {
    /// The write was made. This is the result.
    Done(Pod),
    /// The name is taken by this pod.
    Taken(Pod),
    /// The pod has changed since the decision. This is its current state.
    Changed(Pod),
    /// The pod does not exist, or has another UID.
    Gone(Name),
    /// The write was rejected.
    Refused,
}

/// A violation by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breach {
    /// It changed a third-party pod.
    ThirdPartyChange,
    /// It adopted a pod for a deleted set.
    LateAdoption,
    /// It left too few pods available.
    Outage,
}

impl Server {
    /// Processes a write. `specs` are all versions of the spec, `spec` is the one of the decision.
    pub fn perform(
        &mut self,
        request: Request,
        spec: &Spec,
        specs: &[Spec],
        flaws: &[Flaw],
    ) -> (Response, Option<Breach>) {
        let (name, uid) = match request {
            Request::Create { name, replaces } => return (self.create(name, replaces, spec, flaws), None),
            Request::Delete { name, uid, .. }
            | Request::Update { name, uid, .. }
            | Request::Adopt { name, uid, .. }
            | Request::Release { name, uid } => (name, uid),
        };
        let by_name_only = flaws.contains(&Flaw::NoPrecondition) && matches!(request, Request::Delete { .. });
        let is_it = |pod: &&mut Pod| pod.name == name && (pod.uid == uid || by_name_only);
        let stored = &specs[usize::from(self.spec)];
        let is_alive = stored.set == spec.set && stored.exists();
        let now = self.now;
        let Some(pod) = self.pods.iter_mut().find(is_it) else {
            return (Response::Gone(name), None);
        };
        let before = *pod;
        let mut breach = None;
        match request {
            Request::Create { .. } => {}
            Request::Delete { .. } => pod.deleting = true,
            Request::Update { version, change, .. } => {
                if Version::of(pod) != version && !flaws.contains(&Flaw::NoVersion) {
                    return (Response::Changed(*pod), None);
                }
                pod.observed &= pod.image == spec.template.image;
                pod.image = spec.template.image;
                pod.made_from.get_or_insert(spec.template).image = spec.template.image;
                pod.change = Some(change);
            }
            Request::Adopt { says_template, .. } => {
                let ours = Controller::Set(spec.set);
                let is_free = matches!(pod.controller, Controller::None) || pod.controller == ours;
                // A second controller is invalid.
                if !is_free || !(is_alive || flaws.contains(&Flaw::NoUncachedRead)) {
                    return (Response::Refused, None);
                }
                if !is_alive {
                    breach = Some(Breach::LateAdoption);
                }
                pod.controller = ours;
                if !says_template {
                    pod.made_from = Some(spec.template);
                }
            }
            Request::Release { .. } => {
                if pod.controller == Controller::Set(spec.set) {
                    pod.controller = Controller::None;
                    self.released += 1;
                }
                pod.released_from = Some(spec.set);
                pod.by_operator = false;
            }
        }
        let after = *pod;
        if after != before && !may_touch(request, &before, spec) {
            breach = Some(Breach::ThirdPartyChange);
        }
        debug_assert!(now >= before.created, "nothing is older than it is");
        (Response::Done(after), breach)
    }

    fn create(&mut self, name: Name, replaces: Option<Uid>, spec: &Spec, flaws: &[Flaw]) -> Response {
        let name = if flaws.contains(&Flaw::GeneratedNames) {
            self.unused_name()
        } else {
            name
        };
        if let Some(held) = self.pod(name) {
            return Response::Taken(*held);
        }
        let uid = self.fresh_uid();
        let pod = Pod {
            replaces,
            ..Pod::created(name, uid, spec.set, spec.template, self.now)
        };
        self.insert(pod);
        Response::Done(pod)
    }

    /// Returns the pod of a name.
    pub fn pod(&self, name: Name) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.name == name)
    }

    /// Returns the watched pods.
    pub fn watched(&self) -> Vec<Pod> {
        self.pods.iter().copied().filter(Pod::is_watched).collect()
    }

    /// Adds a pod.
    pub fn insert(&mut self, pod: Pod) {
        let at = self.pods.partition_point(|other| other.name < pod.name);
        self.pods.insert(at, pod);
    }

    /// Returns a new UID.
    pub fn fresh_uid(&mut self) -> Uid {
        let uid = self.next_uid;
        self.next_uid = Uid(uid.0 + 1);
        uid
    }

    fn unused_name(&self) -> Name {
        const FIRST_GENERATED: u8 = 100;
        let names = (FIRST_GENERATED..=u8::MAX).map(Name::Other);
        names
            .into_iter()
            .find(|name| self.pod(*name).is_none())
            .unwrap_or(Name::Other(u8::MAX))
    }

    /// Returns the active pods of the set.
    pub fn active(&self, spec: &Spec) -> impl Iterator<Item = &Pod> {
        let ours = Controller::Set(spec.set);
        self.pods
            .iter()
            .filter(move |pod| pod.is_active() && pod.controller == ours)
    }

    /// Returns the number of pods that serve.
    pub fn serving(&self, spec: &Spec, now: i64) -> usize {
        self.active(spec)
            .filter(|pod| pod.label && pod.serves(spec, now))
            .count()
    }
}

/// Whether a write may change a pod: only if the pod is part of the set at that time.
///
/// There is one exception, which a precondition on the UID does not prevent: a pod keeps its UID when it is released. A
/// late request to delete or update it, which was decided before the release, still succeeds.
fn may_touch(request: Request, pod: &Pod, spec: &Spec) -> bool {
    let is_ours = pod.controller == Controller::Set(spec.set);
    let is_adoption = matches!(request, Request::Adopt { .. }) && pod.controller == Controller::None;
    let was_ours = pod.released_from == Some(spec.set);
    is_ours || is_adoption || was_ours
}

/// Changes of pods by kubelets and users.
impl Server {
    /// Changes the pod of a name; returns whether there is one.
    pub fn change(&mut self, name: Name, change: impl FnOnce(&mut Pod)) -> bool {
        let found = self.pods.iter_mut().find(|pod| pod.name == name);
        found.map(change).is_some()
    }

    /// The kubelet starts a container: the first one, another one for another image, or again after a crash. It takes the
    /// image of the spec that it has received. `Ready` does not change: without a readiness probe, a restart does not clear
    /// it (kubernetes#91667).
    pub fn start(&mut self, name: Name) -> bool {
        let container = self.next_container;
        let started = self.is_timed.then_some(self.now);
        self.next_container += 1;
        self.change(name, |pod| {
            pod.phase = Phase::Running;
            pod.container = container;
            pod.started = started;
            pod.runs = pod.heard;
        })
    }

    /// The kubelet receives the current spec and reports a status.
    pub fn observe(&mut self, name: Name) -> bool {
        self.change(name, |pod| {
            pod.heard = pod.image;
            pod.observed = true;
        })
    }

    /// A pod becomes ready, once it has a container.
    pub fn becomes_ready(&mut self, name: Name) -> bool {
        if self.pod(name).is_some_and(|pod| pod.container == 0) {
            self.start(name);
        }
        let now = self.now;
        self.change(name, |pod| {
            pod.phase = Phase::Running;
            pod.ready_since = Some(now);
        })
    }

    /// A container exits, and exits again after each restart.
    pub fn exit(&mut self, name: Name) -> bool {
        self.change(name, |pod| pod.ready_since = None)
    }

    /// A pod is deleted, and its deletion does not finish: its node is lost, or a finalizer is never removed.
    pub fn strand(&mut self, name: Name) -> bool {
        self.stuck += 1;
        self.change(name, |pod| {
            pod.deleting = true;
            pod.stuck = true;
        })
    }

    /// A pod fails.
    pub fn fail(&mut self, name: Name) -> bool {
        self.change(name, |pod| {
            pod.phase = Phase::Finished;
            pod.ready_since = None;
        })
    }
}
