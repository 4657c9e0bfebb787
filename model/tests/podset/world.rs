//! The simulated state: the API server and one or two operators, and the effects of actions.

use model::podset::{DeletionReason, Step, StepInput, ValidPodSet, next_change_at};

use crate::actions::{Action, News};
use crate::operator::{Flight, Operator};
use crate::pods::{CRASHING, Controller, EXITS_AFTER, Name, Pod, Uid};
use crate::rules::{Budget, Clock, Lag, Rules};
use crate::server::{Breach, Request, Server};
use crate::spec::Spec;

/// The state of the simulation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub server: Server,
    pub operators: Vec<Operator>,
    /// Requests whose response was lost. They may be processed at any time, or never.
    pub late_requests: Vec<Flight>,
    pub left: Budget,
    pub breach: Option<Breach>,
}

impl World {
    /// Returns the initial state, with current caches.
    pub fn new(server: Server, operators: usize, left: Budget) -> Self {
        Self {
            operators: vec![Operator::start(&server); operators],
            server,
            late_requests: Vec::new(),
            left,
            breach: None,
        }
    }

    /// Performs an action. Returns whether it had an effect.
    pub fn apply(&mut self, rules: &Rules, action: Action) -> bool {
        let pods_before = self.server.pods.clone();
        let happened = match action {
            Action::HearPods(at) => self.receive(at, News::Pods),
            Action::HearSpec(at) => self.receive(at, News::Spec),
            Action::Look(at, news) => {
                let happened = self.receive(at, news);
                if happened {
                    self.decide(rules, at);
                }
                happened
            }
            Action::RetryTaken(at) => {
                let spec = &rules.specs[usize::from(self.operators[at].spec)];
                let news = !self.operators[at].has_current_names(&self.server, spec);
                if news {
                    self.operators[at].taken.clear();
                }
                news
            }
            Action::Arrive(at, flight) => {
                let flight = self.operators[at].flights.remove(flight);
                self.process(rules, flight, Some(at));
                return true;
            }
            Action::ArriveLate(request_index) => {
                let flight = self.late_requests.remove(request_index);
                self.process(rules, flight, None);
                return true;
            }
            Action::Decide(at) => self.decide(rules, at),
            Action::Wait(at) => self.wait(rules, at),
            Action::Lose(at, flight) => {
                self.left.losses -= 1;
                let operator = &mut self.operators[at];
                self.late_requests.push(operator.flights.remove(flight));
                operator.pace = 1;
                true
            }
            Action::Crash(at) => {
                self.left.crashes -= 1;
                self.late_requests.append(&mut self.operators[at].flights);
                self.operators[at] = Operator::start(&self.server);
                true
            }
            Action::NextSpec => {
                self.server.spec += 1;
                self.choose(rules);
                return true;
            }
            _ => self.change_pod(action),
        };
        if self.server.pods != pods_before {
            self.notify(rules);
        }
        happened
    }

    /// Marks the pods that the stored spec asks to replace: for names in the previous spec the same pods as before, for
    /// other names the pods that have them now.
    pub fn choose(&mut self, rules: &Rules) {
        let spec = self.server.spec;
        let before = spec
            .checked_sub(1)
            .map(|before| (before, &rules.specs[usize::from(before)]));
        let named = |spec: &Spec, name: Name| spec.replace.iter().any(|slot| name == Name::Slot(*slot));
        let stored: Vec<Uid> = self.server.pods.iter().map(|pod| pod.uid).collect();
        let operators = self.operators.iter_mut().flat_map(|operator| {
            let lists = std::iter::once(&mut operator.watched).chain(&mut operator.unheard);
            let own = operator.own.iter_mut().map(|own| &mut own.pod);
            lists.flatten().chain(own)
        });
        for pod in self.server.pods.iter_mut().chain(operators) {
            let is_chosen = match before {
                Some((before, previous)) if named(previous, pod.name) => pod.is_chosen(before),
                _ => stored.contains(&pod.uid),
            };
            if is_chosen && named(&rules.specs[usize::from(spec)], pod.name) {
                pod.chosen |= 1 << spec;
            }
        }
    }

    /// Lets an operator receive changes. Returns whether there were any.
    fn receive(&mut self, at: usize, news: News) -> bool {
        let operator = &mut self.operators[at];
        let pods = news != News::Spec;
        let spec = news != News::Pods;
        if (pods && operator.is_up_to_date(&self.server)) || (spec && operator.spec == self.server.spec) {
            return false;
        }
        if pods {
            operator.receive(&self.server);
        }
        operator.spec += u8::from(spec);
        true
    }

    fn change_pod(&mut self, action: Action) -> bool {
        let (server, left) = (&mut self.server, &mut self.left);
        let now = server.now;
        match action {
            Action::Ready(name) => server.becomes_ready(name),
            Action::Observe(name) => server.observe(name),
            Action::Start(name) | Action::Restart(name) => server.start(name),
            Action::Exit(name) => server.exit(name),
            Action::Crashed(name) => {
                left.crashed -= 1;
                server.start(name)
            }
            Action::Strand(name) => {
                left.strandings -= 1;
                server.strand(name)
            }
            Action::Return(name) => {
                left.returns -= 1;
                server.pods.retain(|pod| pod.name != name);
                true
            }
            Action::Finalize(name) => {
                server.pods.retain(|pod| pod.name != name);
                true
            }
            Action::Collect(name) => server.change(name, |pod| pod.deleting = true),
            Action::Delete(name) => {
                left.deletions -= 1;
                server.change(name, |pod| pod.deleting = true)
            }
            Action::Fail(name) => {
                left.failures -= 1;
                server.fail(name)
            }
            Action::Relabel(name) => {
                left.relabels -= 1;
                server.change(name, |pod| pod.label = !pod.label)
            }
            Action::Namesake(name) => {
                left.namesakes -= 1;
                let uid = server.fresh_uid();
                server.insert(Pod::foreign(name, uid, now));
                true
            }
            Action::Orphan(name) => {
                left.orphans -= 1;
                let pod = Pod {
                    controller: Controller::None,
                    label: true,
                    ..Pod::foreign(name, server.fresh_uid(), now)
                };
                server.insert(pod);
                true
            }
            _ => false,
        }
    }

    fn process(&mut self, rules: &Rules, flight: Flight, sender: Option<usize>) {
        let spec = &rules.specs[usize::from(flight.spec)];
        let (pods, before) = (self.server.pods.clone(), self.serving(rules, spec));
        let (response, breach) = self.server.perform(flight.request, spec, &rules.specs, &rules.flaws);
        if self.server.pods != pods {
            self.notify(rules);
        }
        let after = self.serving(rules, spec);
        let outage = rules.is_calm && after < before && after < least(flight, spec, &self.server, self.now(rules));
        self.breach = self.breach.or(breach).or(outage.then_some(Breach::Outage));
        if let Some(operator) = sender.map(|at| &mut self.operators[at]) {
            let ahead = match rules.lag {
                Lag::Never | Lag::Jumps | Lag::Looks => 0,
                Lag::Steps => u8::try_from(operator.unheard.len()).unwrap_or(u8::MAX),
            };
            operator.handle_response(flight, spec, response, ahead, &rules.flaws);
        }
    }

    fn notify(&mut self, rules: &Rules) {
        for operator in &mut self.operators {
            match rules.lag {
                Lag::Never => operator.receive(&self.server),
                Lag::Steps => operator.unheard.push(self.server.pods.clone()),
                Lag::Jumps | Lag::Looks => {}
            }
        }
    }

    fn decide(&mut self, rules: &Rules, at: usize) -> bool {
        let step = self.step_of(rules, at);
        self.operators[at].send(&step);
        if rules.lag == Lag::Never {
            for flight in std::mem::take(&mut self.operators[at].flights) {
                self.process(rules, flight, Some(at));
            }
        }
        step != Step::Settled
    }

    fn wait(&mut self, rules: &Rules, at: usize) -> bool {
        let Some(wake) = self.wakes_at(rules, at).filter(|_| !self.is_kubelet_busy(rules)) else {
            return false;
        };
        // Containers that exit by themselves do so in between.
        let exits = self
            .server
            .pods
            .iter()
            .filter(|pod| pod.runs == CRASHING && pod.is_active());
        let exits = exits
            .filter(|pod| pod.ready_since.is_some())
            .filter_map(|pod| pod.started);
        let exit = exits
            .map(|started| started + EXITS_AFTER)
            .filter(|at| *at >= self.server.now)
            .min();
        let wake = i16::try_from(wake).unwrap_or(i16::MAX).min(exit.unwrap_or(i16::MAX));
        let passes = wake > self.server.now;
        self.server.now = wake;
        passes
    }

    /// Returns when the decision of an operator that has nothing to do may change.
    pub fn wakes_at(&self, rules: &Rules, at: usize) -> Option<i64> {
        let operator = &self.operators[at];
        let pods: Vec<_> = operator.view().iter().map(Pod::as_set_pod).collect();
        let input = StepInput {
            pods: &pods,
            taken: &operator.taken,
            pace: operator.pace.into(),
            early_ends: 0,
            now: self.now(rules),
        };
        let wake = next_change_at(&rules.specs[usize::from(operator.spec)].valid, input);
        wake.filter(|_| self.step_of(rules, at) == Step::Settled)
    }

    /// Whether a kubelet is about to receive a spec or to restart a container, which takes less time than the waits of
    /// operators.
    fn is_kubelet_busy(&self, rules: &Rules) -> bool {
        let mut to_come = Vec::new();
        self.actions_of_the_cluster(rules, &mut to_come);
        to_come
            .iter()
            .any(|action| matches!(action, Action::Observe(_) | Action::Restart(_) | Action::Exit(_)))
    }

    /// Returns the next step of an operator.
    pub fn step_of(&self, rules: &Rules, at: usize) -> Step {
        let operator = &self.operators[at];
        operator.decide(&rules.specs[usize::from(operator.spec)], self.now(rules), &rules.flaws)
    }

    /// Returns the stored spec.
    pub fn spec<'a>(&self, rules: &'a Rules) -> &'a Spec {
        &rules.specs[usize::from(self.server.spec)]
    }

    /// Returns the time.
    pub fn now(&self, rules: &Rules) -> i64 {
        const LONG: i64 = 1000;
        match rules.clock {
            Clock::Stands => LONG,
            Clock::Runs => self.server.now.into(),
        }
    }

    fn serving(&self, rules: &Rules, spec: &Spec) -> usize {
        self.server.serving(spec, self.now(rules))
    }
}

/// Returns how many pods a write must leave available.
fn least(flight: Flight, spec: &Spec, server: &Server, now: i64) -> usize {
    let ValidPodSet {
        replicas,
        max_unavailable,
        ..
    } = &spec.valid;
    let is_chosen = |uid: Uid| {
        let pod = server.pods.iter().find(|pod| pod.uid == uid);
        pod.is_some_and(|pod| pod.is_chosen(flight.spec))
    };
    match flight.request {
        Request::Update { .. }
        | Request::Delete {
            reason: DeletionReason::Outdated,
            ..
        } => replicas.saturating_sub(*max_unavailable),
        // The successor replaces the deleted pod.
        Request::Delete {
            reason: DeletionReason::Replaced,
            uid,
            ..
        } => {
            let is_successor = |pod: &Pod| pod.replaces == Some(uid) && pod.serves(spec, now);
            if server.active(spec).any(is_successor) {
                0
            } else {
                *replicas
            }
        }
        // Surplus pods are chosen in the order of a ReplicaSet, by readiness and not by availability. Only a chosen pod is
        // deleted because of the spec.
        Request::Delete {
            reason: DeletionReason::Surplus,
            uid,
            ..
        } if is_chosen(uid) => *replicas,
        _ => 0,
    }
}
