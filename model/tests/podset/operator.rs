//! A replica of the operator: its memory, its decisions and its requests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::podset::{NameHolder, PodRef, Step, StepInput, ValidPodSet, next_step};

use crate::flaw::{self, Flaw};
use crate::pods::{Change, Controller, Name, Pod, Uid};
use crate::server::{Request, Response, Server, Version};
use crate::spec::Spec;

/// The memory of an operator. A crash loses all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// The pods as the watch has shown them.
    pub watched: Vec<Pod>,
    /// The later states of the pods, which the watch has not shown yet. Empty with [`crate::rules::Lag::Jumps`].
    pub unheard: Vec<Vec<Pod>>,
    /// The pods from responses to its own writes.
    pub own: Vec<Own>,
    /// The version of the spec in its cache.
    pub spec: u8,
    /// The names that creates have found taken.
    pub taken: BTreeMap<u16, NameHolder>,
    /// How many pods it creates at a time.
    pub pace: u8,
    /// The requests in flight.
    pub flights: Vec<Flight>,
}

/// A pod from the response to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Own {
    pub pod: Pod,
    /// After how many changes the watch shows it.
    pub ahead: u8,
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flight {
    /// The version of the spec of the decision.
    pub spec: u8,
    pub request: Request,
}

impl Operator {
    /// Returns an operator that has just listed all pods.
    pub fn start(server: &Server) -> Self {
        Self {
            watched: server.watched(),
            unheard: Vec::new(),
            own: Vec::new(),
            spec: server.spec,
            taken: BTreeMap::new(),
            pace: 1,
            flights: Vec::new(),
        }
    }

    /// Returns the cached pods: those from the watch, and newer ones from its own writes.
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

    /// Receives the next change from the watch.
    pub fn receive(&mut self, server: &Server) {
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

    /// Whether its cache is current.
    pub fn is_up_to_date(&self, server: &Server) -> bool {
        self.unheard.is_empty() && self.own.is_empty() && self.watched == server.watched()
    }

    /// Returns its next step, from the function under test.
    pub fn decide(&self, spec: &Spec, now: i64, flaws: &[Flaw]) -> Step {
        if spec.deleted {
            return Step::Settled; // The set does not exist.
        }
        let view = self.view();
        let mut pods: Vec<_> = view.iter().map(Pod::as_set_pod).collect();
        let valid = self.valid(spec, &view, flaws);
        flaw::change_input(flaws, &valid, &mut pods);
        let input = StepInput {
            pods: &pods,
            taken: &self.taken,
            pace: self.pace.into(),
            early_ends: 0,
            now,
        };
        flaw::change_step(flaws, &pods, next_step(&valid, input))
    }

    /// Returns the spec with the UIDs of the pods to replace.
    fn valid<'a>(&self, spec: &'a Spec, view: &[Pod], flaws: &[Flaw]) -> Cow<'a, ValidPodSet> {
        if spec.replace.is_empty() {
            return Cow::Borrowed(&spec.valid);
        }
        let is_named = |pod: &Pod| spec.replace.iter().any(|slot| pod.name == Name::Slot(*slot));
        let by_name = flaws.contains(&Flaw::ChosenByName);
        let is_chosen = |pod: &&Pod| pod.is_chosen(self.spec) || by_name && is_named(pod);
        let chosen = view.iter().filter(is_chosen);
        Cow::Owned(ValidPodSet {
            replace: chosen.map(|pod| pod.uid.to_string()).collect(),
            ..spec.valid.clone()
        })
    }

    /// Sends the requests of a step. They are processed in any order.
    pub fn send(&mut self, step: &Step) {
        let view = self.view();
        let pod = |of: &PodRef| {
            let uid = Uid::read(&of.uid);
            let pod = view.iter().find(|pod| pod.uid == uid);
            *pod.expect("a step is about cached pods")
        };
        let requests: Vec<Request> = match step {
            Step::Create(creations) => creations
                .iter()
                .map(|creation| Request::Create {
                    name: Name::Slot(u8::try_from(creation.slot).expect("few slots")),
                    replaces: flaw::replaced(creation),
                })
                .collect(),
            Step::Delete(deletions) => {
                let each = deletions.iter().map(|deletion| (pod(&deletion.pod), deletion.reason));
                each.map(|(Pod { name, uid, .. }, reason)| Request::Delete { name, uid, reason })
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
        let spec = self.spec;
        self.flights = requests.into_iter().map(|request| Flight { spec, request }).collect();
    }

    /// Processes the response to a request. `ahead` is the number of changes after which the watch shows the result.
    pub fn handle_response(&mut self, flight: Flight, spec: &Spec, response: Response, ahead: u8, flaws: &[Flaw]) {
        let fastest = u8::try_from(spec.valid.replicas.max(1)).unwrap_or(u8::MAX);
        match response {
            Response::Done(pod) => {
                if matches!(flight.request, Request::Create { .. }) {
                    // A larger pace than the number of replicas makes no difference.
                    self.pace = (self.pace * 2).min(fastest);
                }
                if !flaws.contains(&Flaw::NoOwnWrites) {
                    self.store(pod, ahead);
                }
            }
            Response::Taken(pod) if pod.controller == Controller::Set(spec.set) => self.store(pod, ahead),
            Response::Taken(pod) => {
                if let Name::Slot(slot) = pod.name {
                    self.taken
                        .insert(slot.into(), NameHolder::by(&pod.as_set_pod(), &spec.valid));
                }
            }
            Response::Changed(pod) => self.store(pod, ahead),
            // The pod is dropped. The watch may still show it for a while.
            Response::Gone(name) => {
                self.watched.retain(|pod| pod.name != name);
                self.own.retain(|own| own.pod.name != name);
            }
            Response::Refused => {}
        }
    }

    fn store(&mut self, pod: Pod, ahead: u8) {
        self.own.retain(|own| own.pod.name != pod.name);
        if ahead > 0 {
            self.own.push(Own { pod, ahead });
            self.own.sort();
        } else {
            // The watch shows all changes together. Until then this state is kept.
            self.watched.retain(|known| known.name != pod.name);
            self.watched.extend(Some(pod).filter(Pod::is_watched));
            self.watched.sort();
        }
    }

    /// Whether its memory of taken names is current. It retries them from time to time.
    pub fn has_current_names(&self, server: &Server, spec: &Spec) -> bool {
        self.taken.iter().all(|(slot, taken)| {
            let slot = u8::try_from(*slot).unwrap_or(u8::MAX);
            server
                .pod(Name::Slot(slot))
                .is_some_and(|pod| pod.is_watched() || NameHolder::by(&pod.as_set_pod(), &spec.valid) == *taken)
        })
    }
}
