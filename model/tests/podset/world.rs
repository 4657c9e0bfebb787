//! Everything together: the server, one or two operators, and what becomes of it when something happens.

use model::podset::{Seen, Step, Wanted, Why, looks_again_at};

use crate::actions::{Action, News};
use crate::operator::{Flight, Operator};
use crate::pods::{CRASHING, Controller, EXITS_AFTER, Name, Pod, Uid};
use crate::rules::{Budget, Clock, Lag, Rules};
use crate::server::{Breach, Request, Server};
use crate::wish::Wish;

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub server: Server,
    pub operators: Vec<Operator>,
    /// Requests that nobody waits for. They may arrive at any time, or never.
    pub ghosts: Vec<Flight>,
    pub left: Budget,
    pub breach: Option<Breach>,
}

impl World {
    /// Returns the world at the start: everybody knows everything.
    pub fn new(server: Server, operators: usize, left: Budget) -> Self {
        Self {
            operators: vec![Operator::start(&server); operators],
            server,
            ghosts: Vec::new(),
            left,
            breach: None,
        }
    }

    /// Lets something happen. Returns whether it made a difference.
    pub fn apply(&mut self, rules: &Rules, action: Action) -> bool {
        let pods_before = self.server.pods.clone();
        let happened = match action {
            Action::HearPods(at) => self.hears(at, News::Pods),
            Action::HearWish(at) => self.hears(at, News::Wish),
            Action::Look(at, news) => {
                let happened = self.hears(at, news);
                if happened {
                    self.decides(rules, at);
                }
                happened
            }
            Action::AskAgain(at) => {
                let wish = &rules.wishes[usize::from(self.operators[at].wish)];
                let news = !self.operators[at].has_heard_of_names(&self.server, wish);
                if news {
                    self.operators[at].taken.clear();
                }
                news
            }
            Action::Arrive(at, flight) => {
                let flight = self.operators[at].flights.remove(flight);
                self.arrives(rules, flight, Some(at));
                return true;
            }
            Action::ArriveLate(ghost) => {
                let flight = self.ghosts.remove(ghost);
                self.arrives(rules, flight, None);
                return true;
            }
            Action::Decide(at) => self.decides(rules, at),
            Action::Wait(at) => self.waits(rules, at),
            Action::Lose(at, flight) => {
                self.left.losses -= 1;
                let operator = &mut self.operators[at];
                self.ghosts.push(operator.flights.remove(flight));
                operator.pace = 1;
                true
            }
            Action::Crash(at) => {
                self.left.crashes -= 1;
                self.ghosts.append(&mut self.operators[at].flights);
                self.operators[at] = Operator::start(&self.server);
                true
            }
            Action::NextWish => {
                self.server.wish += 1;
                self.choose(rules);
                return true;
            }
            _ => self.happens_to_a_pod(action),
        };
        if self.server.pods != pods_before {
            self.tell_all(rules);
        }
        happened
    }

    /// Finds the pods that the stored version of the set asks to replace: those that the version before named, too, stay
    /// the same pods, and others are the ones that have these names now.
    pub fn choose(&mut self, rules: &Rules) {
        let wish = self.server.wish;
        let before = wish
            .checked_sub(1)
            .map(|before| (before, &rules.wishes[usize::from(before)]));
        let named = |wish: &Wish, name: Name| wish.replace.iter().any(|slot| name == Name::Slot(*slot));
        let stored: Vec<Uid> = self.server.pods.iter().map(|pod| pod.uid).collect();
        let operators = self.operators.iter_mut().flat_map(|operator| {
            let lists = std::iter::once(&mut operator.watched).chain(&mut operator.unheard);
            let own = operator.own.iter_mut().map(|own| &mut own.pod);
            lists.flatten().chain(own)
        });
        for pod in self.server.pods.iter_mut().chain(operators) {
            let is_chosen = match before {
                Some((before, wished)) if named(wished, pod.name) => pod.is_chosen(before),
                _ => stored.contains(&pod.uid),
            };
            if is_chosen && named(&rules.wishes[usize::from(wish)], pod.name) {
                pod.chosen |= 1 << wish;
            }
        }
    }

    /// Returns whether there was all of that to hear.
    fn hears(&mut self, at: usize, news: News) -> bool {
        let operator = &mut self.operators[at];
        let pods = news != News::Wish;
        let wish = news != News::Pods;
        if (pods && operator.is_up_to_date(&self.server)) || (wish && operator.wish == self.server.wish) {
            return false;
        }
        if pods {
            operator.hears(&self.server);
        }
        operator.wish += u8::from(wish);
        true
    }

    fn happens_to_a_pod(&mut self, action: Action) -> bool {
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
                    controller: Controller::Nobody,
                    label: true,
                    ..Pod::foreign(name, server.fresh_uid(), now)
                };
                server.insert(pod);
                true
            }
            _ => false,
        }
    }

    fn arrives(&mut self, rules: &Rules, flight: Flight, sender: Option<usize>) {
        let wish = &rules.wishes[usize::from(flight.wish)];
        let (pods, before) = (self.server.pods.clone(), self.serving(rules, wish));
        let (answer, breach) = self.server.perform(flight.request, wish, &rules.wishes, &rules.flaws);
        if self.server.pods != pods {
            self.tell_all(rules);
        }
        let after = self.serving(rules, wish);
        let outage = rules.is_calm && after < before && after < least(flight, wish, &self.server, self.now(rules));
        self.breach = self.breach.or(breach).or(outage.then_some(Breach::CausedAnOutage));
        if let Some(operator) = sender.map(|at| &mut self.operators[at]) {
            let ahead = match rules.lag {
                Lag::Never | Lag::Jumps | Lag::Looks => 0,
                Lag::Steps => u8::try_from(operator.unheard.len()).unwrap_or(u8::MAX),
            };
            operator.is_answered(flight, wish, answer, ahead, &rules.flaws);
        }
    }

    fn tell_all(&mut self, rules: &Rules) {
        for operator in &mut self.operators {
            match rules.lag {
                Lag::Never => operator.hears(&self.server),
                Lag::Steps => operator.unheard.push(self.server.pods.clone()),
                Lag::Jumps | Lag::Looks => {}
            }
        }
    }

    fn decides(&mut self, rules: &Rules, at: usize) -> bool {
        let step = self.step_of(rules, at);
        self.operators[at].asks_for(&step);
        if rules.lag == Lag::Never {
            for flight in std::mem::take(&mut self.operators[at].flights) {
                self.arrives(rules, flight, Some(at));
            }
        }
        step != Step::Settled
    }

    fn waits(&mut self, rules: &Rules, at: usize) -> bool {
        let Some(wake) = self.wakes_at(rules, at).filter(|_| !self.is_a_kubelet_at_work(rules)) else {
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

    /// Returns when an operator that has nothing to do looks again.
    pub fn wakes_at(&self, rules: &Rules, at: usize) -> Option<i64> {
        let operator = &self.operators[at];
        let pods: Vec<_> = operator.view().iter().map(Pod::seen).collect();
        let seen = Seen {
            pods: &pods,
            taken: &operator.taken,
            pace: operator.pace.into(),
            early_ends: 0,
            now: self.now(rules),
        };
        let wake = looks_again_at(&rules.wishes[usize::from(operator.wish)].wanted, seen);
        wake.filter(|_| self.step_of(rules, at) == Step::Settled)
    }

    /// Whether a kubelet is about to receive a spec or to restart a container, which takes less time than operators wait.
    fn is_a_kubelet_at_work(&self, rules: &Rules) -> bool {
        let mut to_come = Vec::new();
        self.actions_of_the_cluster(rules, &mut to_come);
        to_come
            .iter()
            .any(|action| matches!(action, Action::Observe(_) | Action::Restart(_) | Action::Exit(_)))
    }

    /// Returns what an operator would do now.
    pub fn step_of(&self, rules: &Rules, at: usize) -> Step {
        let operator = &self.operators[at];
        operator.decides(&rules.wishes[usize::from(operator.wish)], self.now(rules), &rules.flaws)
    }

    /// Returns the version of the set that is stored.
    pub fn wish<'a>(&self, rules: &'a Rules) -> &'a Wish {
        &rules.wishes[usize::from(self.server.wish)]
    }

    /// Returns the time.
    pub fn now(&self, rules: &Rules) -> i64 {
        const LONG: i64 = 1000;
        match rules.clock {
            Clock::Stands => LONG,
            Clock::Runs => self.server.now.into(),
        }
    }

    fn serving(&self, rules: &Rules, wish: &Wish) -> usize {
        self.server.serving(wish, self.now(rules))
    }
}

/// Returns how many pods a write must leave available.
fn least(flight: Flight, wish: &Wish, server: &Server, now: i64) -> usize {
    let Wanted {
        replicas,
        max_unavailable,
        ..
    } = &wish.wanted;
    let is_chosen = |uid: Uid| {
        let pod = server.pods.iter().find(|pod| pod.uid == uid);
        pod.is_some_and(|pod| pod.is_chosen(flight.wish))
    };
    match flight.request {
        Request::Update { .. } | Request::Delete { why: Why::Outdated, .. } => {
            replicas.saturating_sub(*max_unavailable)
        }
        // The successor is one more than there were before, so the one that goes makes no difference.
        Request::Delete {
            why: Why::Replaced,
            uid,
            ..
        } => {
            let is_heir = |pod: &Pod| pod.replaces == Some(uid) && pod.serves(wish, now);
            if server.active(wish).any(is_heir) { 0 } else { *replicas }
        }
        // Who is one too many is chosen in the order of a ReplicaSet, which knows ready and not available. Only if a
        // replace moves a pod to the front is it the replace's fault.
        Request::Delete {
            why: Why::Surplus, uid, ..
        } if is_chosen(uid) => *replicas,
        _ => 0,
    }
}
