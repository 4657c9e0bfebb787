//! One replica of the operator: what it remembers, what it decides, and what it has asked for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::podset::{PodRef, Seen, Step, Taken, Wanted, next_step};

use crate::flaw::{self, Flaw};
use crate::pods::{Change, Controller, Name, Pod, Uid};
use crate::server::{Answer, Request, Server, Version};
use crate::wish::Wish;

/// The memory of an operator. A crash loses all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// What the watch has told of the pods: how they all were at one time.
    pub watched: Vec<Pod>,
    /// How they were later, each time that something changed, which is still to be told. Empty where
    /// [`crate::rules::Lag::Jumps`].
    pub unheard: Vec<Vec<Pod>>,
    /// What the answers to its own writes have told.
    pub own: Vec<Own>,
    /// Which version of the set it knows.
    pub wish: u8,
    /// The names that creates have found taken.
    pub taken: BTreeMap<u16, Taken>,
    /// How many pods it creates at a time.
    pub pace: u8,
    /// What it waits for.
    pub flights: Vec<Flight>,
}

/// A pod as the answer to a write told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Own {
    pub pod: Pod,
    /// How much the watch has still to tell until it has told this.
    pub ahead: u8,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flight {
    /// The version of the set that it was decided by.
    pub wish: u8,
    pub request: Request,
}

impl Operator {
    /// Starts: it lists first.
    pub fn start(server: &Server) -> Self {
        Self {
            watched: server.watched(),
            unheard: Vec::new(),
            own: Vec::new(),
            wish: server.wish,
            taken: BTreeMap::new(),
            pace: 1,
            flights: Vec::new(),
        }
    }

    /// Returns the pods that it knows: what the watch has told, and of that it may be ahead by its own writes.
    pub fn view(&self) -> Vec<Pod> {
        let mut view = self.watched.clone();
        for own in &self.own {
            match view.iter_mut().find(|pod| pod.name == own.pod.name) {
                Some(pod) => *pod = own.pod,
                None => view.push(own.pod),
            }
        }
        view.retain(Pod::is_watched);
        view.sort();
        view
    }

    /// Hears what the watch tells next.
    pub fn hears(&mut self, server: &Server) {
        if self.unheard.is_empty() {
            self.watched = server.watched();
            self.own.clear();
        } else {
            self.watched = self.unheard.remove(0);
        }
        for own in &mut self.own {
            own.ahead = own.ahead.saturating_sub(1);
        }
        self.own.retain(|own| own.ahead > 0);
    }

    /// Whether it knows the pods as they are.
    pub fn is_up_to_date(&self, server: &Server) -> bool {
        self.unheard.is_empty() && self.own.is_empty() && self.watched == server.watched()
    }

    /// Decides, by the very function that is to be checked.
    pub fn decides(&self, wish: &Wish, now: i64, flaws: &[Flaw]) -> Step {
        if wish.gone {
            return Step::Settled; // There is nothing to be reconciled.
        }
        let view = self.view();
        let mut pods: Vec<_> = view.iter().map(Pod::seen).collect();
        let wanted = self.wanted(wish, &view, flaws);
        flaw::told(flaws, &wanted, &mut pods);
        let seen = Seen {
            pods: &pods,
            taken: &self.taken,
            pace: self.pace.into(),
            early_ends: 0,
            now,
        };
        flaw::bent(flaws, &pods, next_step(&wanted, seen))
    }

    /// Returns what the set asks for, with the UIDs of the pods to replace.
    fn wanted<'a>(&self, wish: &'a Wish, view: &[Pod], flaws: &[Flaw]) -> Cow<'a, Wanted> {
        if wish.replace.is_empty() {
            return Cow::Borrowed(&wish.wanted);
        }
        let is_named = |pod: &Pod| wish.replace.iter().any(|slot| pod.name == Name::Slot(*slot));
        let by_name = flaws.contains(&Flaw::ChosenByName);
        let is_chosen = |pod: &&Pod| pod.is_chosen(self.wish) || by_name && is_named(pod);
        let chosen = view.iter().filter(is_chosen);
        Cow::Owned(Wanted {
            replace: chosen.map(|pod| pod.uid.to_string()).collect(),
            ..wish.wanted.clone()
        })
    }

    /// Asks for what a step says: each write is a request of its own, and they are done in any order.
    pub fn asks_for(&mut self, step: &Step) {
        let view = self.view();
        let pod = |of: &PodRef| {
            let uid = Uid::read(&of.uid);
            let pod = view.iter().find(|pod| pod.uid == uid);
            *pod.expect("a step is about pods that were seen")
        };
        let requests: Vec<Request> = match step {
            Step::Create(creations) => creations
                .iter()
                .map(|creation| Request::Create {
                    name: Name::Slot(u8::try_from(creation.slot).expect("few slots")),
                    replaces: flaw::replaced(creation),
                })
                .collect(),
            Step::Delete(removals) => {
                let each = removals.iter().map(|removal| (pod(&removal.pod), removal.why));
                each.map(|(Pod { name, uid, .. }, why)| Request::Delete { name, uid, why })
                    .collect()
            }
            Step::Update(updates) => {
                let pods = updates.iter().map(|update| (pod(&update.pod), update));
                pods.map(|(pod, update)| Request::Update {
                    name: pod.name,
                    uid: pod.uid,
                    version: Version::of(&pod),
                    change: Change::read(&update.change),
                })
                .collect()
            }
            Step::Adopt(pods) => pods
                .iter()
                .map(pod)
                .map(
                    |Pod {
                         name, uid, made_from, ..
                     }| Request::Adopt {
                        name,
                        uid,
                        says_template: made_from.is_some(),
                    },
                )
                .collect(),
            Step::Release(pods) => pods
                .iter()
                .map(pod)
                .map(|Pod { name, uid, .. }| Request::Release { name, uid })
                .collect(),
            Step::Settled => Vec::new(),
        };
        let wish = self.wish;
        self.flights = requests.into_iter().map(|request| Flight { wish, request }).collect();
    }

    /// Hears the answer to a request. `ahead` is how much the watch has still to tell until it has told this.
    pub fn is_answered(&mut self, flight: Flight, wish: &Wish, answer: Answer, ahead: u8, flaws: &[Flaw]) {
        let fastest = u8::try_from(wish.wanted.replicas.max(1)).unwrap_or(u8::MAX);
        match answer {
            Answer::Done(pod) => {
                if matches!(flight.request, Request::Create { .. }) {
                    // It goes on doubling; beyond what is wanted that makes no difference.
                    self.pace = (self.pace * 2).min(fastest);
                }
                if !flaws.contains(&Flaw::Deaf) {
                    self.learns(pod, ahead);
                }
            }
            Answer::Taken(pod) if pod.controller == Controller::Set(wish.set) => self.learns(pod, ahead),
            Answer::Taken(pod) => {
                if let Name::Slot(slot) = pod.name {
                    self.taken.insert(slot.into(), Taken::by(&pod.seen(), &wish.wanted));
                }
            }
            Answer::Changed(pod) => self.learns(pod, ahead),
            // It is forgotten; the watch may still bring it back, for a while.
            Answer::Gone(name) => {
                self.watched.retain(|pod| pod.name != name);
                self.own.retain(|own| own.pod.name != name);
            }
            Answer::Refused => {}
        }
    }

    fn learns(&mut self, pod: Pod, ahead: u8) {
        self.own.retain(|own| own.pod.name != pod.name);
        if ahead > 0 {
            self.own.push(Own { pod, ahead });
            self.own.sort();
        } else {
            // The watch tells everything at once, and until then this stays.
            self.watched.retain(|known| known.name != pod.name);
            self.watched.extend(Some(pod).filter(Pod::is_watched));
            self.watched.sort();
        }
    }

    /// Whether what it remembers of taken names is still so. It asks again from time to time.
    pub fn has_heard_of_names(&self, server: &Server, wish: &Wish) -> bool {
        self.taken.iter().all(|(slot, taken)| {
            let slot = u8::try_from(*slot).unwrap_or(u8::MAX);
            server
                .pod(Name::Slot(slot))
                .is_some_and(|pod| pod.is_watched() || Taken::by(&pod.seen(), &wish.wanted) == *taken)
        })
    }
}
