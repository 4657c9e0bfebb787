//! The API server: the pods, the set, and what each write does to them.

use model::podset::{Phase, Why};

use crate::flaw::Flaw;
use crate::pods::{Change, Controller, Name, Pod, Uid};
use crate::wish::Wish;

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// All pods, by name.
    pub pods: Vec<Pod>,
    /// Which version of the set is stored.
    pub wish: u8,
    /// The time.
    pub now: i16,
    /// The next pod's UID.
    pub next_uid: Uid,
    /// The next container's number.
    pub next_container: u8,
    /// How many pods have been let go.
    pub let_go: u8,
    /// How many pods got stuck.
    pub stuck: u8,
    /// Whether the clock runs, so that it matters when a container was started.
    pub is_timed: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            pods: Vec::new(),
            wish: 0,
            now: 0,
            next_uid: Uid(0),
            next_container: 1,
            let_go: 0,
            stuck: 0,
            is_timed: false,
        }
    }
}

/// A write that an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    Create {
        name: Name,
        replaces: Option<Uid>,
    },
    Delete {
        name: Name,
        uid: Uid,
        why: Why,
    },
    /// Carries the version that it was decided on. Of what a version covers, this is what matters.
    Update {
        name: Name,
        uid: Uid,
        version: Version,
        change: Change,
    },
    /// Asks for the set first, and writes only if it is there. That a set goes between the two is left out: its pods
    /// go with it then, as a ReplicaSet's do.
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

/// The version of a pod: what it ran and was to run, as its watcher saw it.
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

/// What the server says to it.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// Done, and this is the pod now.
    Done(Pod),
    /// The name is taken: by this pod, says the GET that follows.
    Taken(Pod),
    /// It has changed since: this is the pod now, says the GET that follows.
    Changed(Pod),
    /// There is no such pod, or it is another one.
    Gone(Name),
    /// No.
    Refused,
}

/// Something that an operator must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breach {
    /// It changed a pod that was not its own.
    TouchedAStranger,
    /// It took a pod in for a set that was not there any more.
    AdoptedForTheDead,
    /// It left fewer pods available than it may.
    CausedAnOutage,
}

impl Server {
    /// Does a write. `wishes` are all versions of the set, `wish` is the one that the operator had in mind.
    pub fn perform(
        &mut self,
        request: Request,
        wish: &Wish,
        wishes: &[Wish],
        flaws: &[Flaw],
    ) -> (Answer, Option<Breach>) {
        let (name, uid) = match request {
            Request::Create { name, replaces } => return (self.create(name, replaces, wish, flaws), None),
            Request::Delete { name, uid, .. }
            | Request::Update { name, uid, .. }
            | Request::Adopt { name, uid, .. }
            | Request::Release { name, uid } => (name, uid),
        };
        let by_name_alone = flaws.contains(&Flaw::NoPrecondition) && matches!(request, Request::Delete { .. });
        let is_it = |pod: &&mut Pod| pod.name == name && (pod.uid == uid || by_name_alone);
        let stored = &wishes[usize::from(self.wish)];
        let is_alive = stored.set == wish.set && stored.is_there();
        let now = self.now;
        let Some(pod) = self.pods.iter_mut().find(is_it) else {
            return (Answer::Gone(name), None);
        };
        let before = *pod;
        let mut breach = None;
        match request {
            Request::Create { .. } => {}
            Request::Delete { .. } => pod.deleting = true,
            Request::Update { version, change, .. } => {
                if Version::of(pod) != version && !flaws.contains(&Flaw::NoVersion) {
                    return (Answer::Changed(*pod), None);
                }
                pod.observed &= pod.image == wish.template.image;
                pod.image = wish.template.image;
                pod.made_from.get_or_insert(wish.template).image = wish.template.image;
                pod.change = Some(change);
            }
            Request::Adopt { says_template, .. } => {
                let ours = Controller::Set(wish.set);
                let is_free = matches!(pod.controller, Controller::Nobody) || pod.controller == ours;
                // A second controller is invalid.
                if !is_free || !(is_alive || flaws.contains(&Flaw::NoUncachedRead)) {
                    return (Answer::Refused, None);
                }
                if !is_alive {
                    breach = Some(Breach::AdoptedForTheDead);
                }
                pod.controller = ours;
                if !says_template {
                    pod.made_from = Some(wish.template);
                }
            }
            Request::Release { .. } => {
                if pod.controller == Controller::Set(wish.set) {
                    pod.controller = Controller::Nobody;
                    self.let_go += 1;
                }
                pod.released_from = Some(wish.set);
                pod.by_operator = false;
            }
        }
        let after = *pod;
        if after != before && !may_touch(request, &before, wish) {
            breach = Some(Breach::TouchedAStranger);
        }
        debug_assert!(now >= before.created, "nothing is older than it is");
        (Answer::Done(after), breach)
    }

    fn create(&mut self, name: Name, replaces: Option<Uid>, wish: &Wish, flaws: &[Flaw]) -> Answer {
        let name = if flaws.contains(&Flaw::GeneratedNames) {
            self.unused_name()
        } else {
            name
        };
        if let Some(held) = self.pod(name) {
            return Answer::Taken(*held);
        }
        let uid = self.fresh_uid();
        let pod = Pod {
            replaces,
            ..Pod::created(name, uid, wish.set, wish.template, self.now)
        };
        self.insert(pod);
        Answer::Done(pod)
    }

    /// Returns the pod of a name.
    pub fn pod(&self, name: Name) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.name == name)
    }

    /// Returns what watches show.
    pub fn watched(&self) -> Vec<Pod> {
        self.pods.iter().copied().filter(Pod::is_watched).collect()
    }

    /// Puts a pod there.
    pub fn insert(&mut self, pod: Pod) {
        let at = self.pods.partition_point(|other| other.name < pod.name);
        self.pods.insert(at, pod);
    }

    /// Returns a UID that no pod has had.
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

    /// Returns the pods that count, of the set of a wish.
    pub fn active(&self, wish: &Wish) -> impl Iterator<Item = &Pod> {
        let ours = Controller::Set(wish.set);
        self.pods
            .iter()
            .filter(move |pod| pod.is_active() && pod.controller == ours)
    }

    /// Returns how many pods serve at a time.
    pub fn serving(&self, wish: &Wish, now: i64) -> usize {
        self.active(wish)
            .filter(|pod| pod.label && pod.serves(wish, now))
            .count()
    }
}

/// Whether a write may change a pod: only if it is the set's own at that time.
///
/// With one exception, which no precondition on the UID closes: a pod that loses its label keeps its UID when it is
/// let go. Who decided to delete or update it while it was ours, and is slow, still does it. The pod was ours by
/// anybody's knowledge when that was decided.
fn may_touch(request: Request, pod: &Pod, wish: &Wish) -> bool {
    let is_ours = pod.controller == Controller::Set(wish.set);
    let is_adoption = matches!(request, Request::Adopt { .. }) && pod.controller == Controller::Nobody;
    let was_ours = pod.released_from == Some(wish.set);
    is_ours || is_adoption || was_ours
}

/// What happens to a pod by itself.
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

    /// The kubelet receives the current spec, and reports what runs then.
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

    /// A container exits for good: it is started again, and exits again.
    pub fn exit(&mut self, name: Name) -> bool {
        self.change(name, |pod| pod.ready_since = None)
    }

    /// A pod gets stuck: its node is lost, or it gets a finalizer that is never removed. It is deleted, and stays.
    pub fn strand(&mut self, name: Name) -> bool {
        self.stuck += 1;
        self.change(name, |pod| {
            pod.deleting = true;
            pod.stuck = true;
        })
    }

    /// A pod ends for good.
    pub fn fail(&mut self, name: Name) -> bool {
        self.change(name, |pod| {
            pod.phase = Phase::Finished;
            pod.ready_since = None;
        })
    }
}
