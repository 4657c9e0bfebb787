//! What may happen next.

use model::podset::Phase;

use crate::pods::{CRASHING, Controller, EXITS_AFTER, Name, Pod};
use crate::rules::{Clock, Lag, Rules};
use crate::world::World;

/// What an operator hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    Pods,
    Wish,
    Both,
}

/// Something that may happen. Operators and requests are named by their place in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An operator hears what the watch of the pods tells next.
    HearPods(usize),
    /// An operator hears of the next version of the set.
    HearWish(usize),
    /// An operator hears, and decides.
    Look(usize, News),
    /// An operator tries again to create what it had found taken.
    AskAgain(usize),
    /// A pod becomes ready.
    Ready(Name),
    /// The kubelet receives the spec of a pod.
    Observe(Name),
    /// The kubelet starts the first container of a pod.
    Start(Name),
    /// The kubelet restarts the container of a pod for another image.
    Restart(Name),
    /// A container exits because its image does not work.
    Exit(Name),
    /// A container crashes, and the kubelet restarts it.
    Crashed(Name),
    /// A pod is deleted and stays.
    Strand(Name),
    /// The node of a stuck pod comes back, or its finalizer is removed.
    Return(Name),
    /// A pod that is being deleted has ended.
    Finalize(Name),
    /// The garbage collector deletes a pod whose set is gone.
    Collect(Name),
    /// A request of an operator arrives and is answered. An answer that comes later makes no difference: until then
    /// the operator does nothing but hear.
    Arrive(usize, usize),
    /// An operator decides.
    Decide(usize),
    /// Time passes until an operator wants to look again.
    Wait(usize),
    /// A request arrives that nobody waits for.
    ArriveLate(usize),
    Lose(usize, usize),
    Crash(usize),
    NextWish,
    Delete(Name),
    Fail(Name),
    Relabel(Name),
    Namesake(Name),
    Orphan(Name),
}

impl World {
    /// Returns what may happen; some of it may come to nothing.
    ///
    /// What brings the world to rest comes first: who always takes the first that does something gets there.
    pub fn actions(&self, rules: &Rules, actions: &mut Vec<Action>) {
        for (at, operator) in self.operators.iter().enumerate() {
            if rules.lag != Lag::Looks {
                actions.extend([Action::HearPods(at), Action::HearWish(at)]);
            } else if operator.flights.is_empty() {
                let all = [News::Both, News::Pods, News::Wish];
                actions.extend(all.map(|news| Action::Look(at, news)));
            }
            actions.push(Action::AskAgain(at));
        }
        self.actions_of_the_cluster(rules, actions);
        for (at, operator) in self.operators.iter().enumerate() {
            actions.extend((0..operator.flights.len()).map(|flight| Action::Arrive(at, flight)));
        }
        for (at, operator) in self.operators.iter().enumerate() {
            if operator.flights.is_empty() {
                actions.push(Action::Decide(at));
                if rules.clock == Clock::Runs {
                    actions.push(Action::Wait(at));
                }
            }
        }
        actions.extend((0..self.ghosts.len()).map(Action::ArriveLate));
        self.faults(actions);
        self.actions_of_people(rules, actions);
    }

    pub fn actions_of_the_cluster(&self, rules: &Rules, actions: &mut Vec<Action>) {
        for pod in &self.server.pods {
            if pod.stuck {
                continue;
            }
            if pod.deleting {
                actions.push(Action::Finalize(pod.name));
            } else if let Controller::Set(set) = pod.controller
                && (self.wish(rules).gone || set != self.wish(rules).set)
            {
                actions.push(Action::Collect(pod.name));
            } else if pod.is_active() && pod.is_watched() {
                self.actions_of_a_kubelet(pod, actions);
            }
        }
    }

    /// A kubelet handles the changes of one pod one after the other.
    fn actions_of_a_kubelet(&self, pod: &Pod, actions: &mut Vec<Action>) {
        let is_steady = pod.container == 0 || pod.runs == pod.heard;
        if !pod.observed && is_steady {
            actions.push(Action::Observe(pod.name));
        }
        if pod.container == 0 && pod.phase == Phase::Pending {
            actions.push(Action::Start(pod.name));
        } else if !is_steady {
            actions.push(Action::Restart(pod.name));
        } else if pod.runs == CRASHING && self.has_run_out(pod) {
            if pod.ready_since.is_some() {
                actions.push(Action::Exit(pod.name));
            }
        } else if pod.ready_since.is_none() {
            actions.push(Action::Ready(pod.name));
        }
    }

    /// Whether a container that exits by itself must have done so by now.
    fn has_run_out(&self, pod: &Pod) -> bool {
        pod.started
            .is_none_or(|started| self.server.now >= started + EXITS_AFTER)
    }

    fn faults(&self, actions: &mut Vec<Action>) {
        for (at, operator) in self.operators.iter().enumerate() {
            if self.left.losses > 0 {
                actions.extend((0..operator.flights.len()).map(|flight| Action::Lose(at, flight)));
            }
            if self.left.crashes > 0 {
                actions.push(Action::Crash(at));
            }
        }
    }

    fn actions_of_people(&self, rules: &Rules, actions: &mut Vec<Action>) {
        let left = self.left;
        if usize::from(self.server.wish) + 1 < rules.wishes.len() {
            actions.push(Action::NextWish);
        }
        for pod in &self.server.pods {
            if left.deletions > 0 && !pod.deleting {
                actions.push(Action::Delete(pod.name));
            }
            if left.failures > 0 && pod.is_active() {
                actions.push(Action::Fail(pod.name));
            }
            if left.crashed > 0 && pod.is_active() && pod.may_crash() {
                actions.push(Action::Crashed(pod.name));
            }
            if left.strandings > 0 && !pod.stuck && pod.phase != Phase::Finished {
                actions.push(Action::Strand(pod.name));
            }
            if left.returns > 0 && pod.stuck {
                actions.push(Action::Return(pod.name));
            }
            if left.relabels > 0 && pod.controller != Controller::Other {
                actions.push(Action::Relabel(pod.name));
            }
        }
        let is_free = |name: &Name| self.server.pod(*name).is_none();
        let slots = || [0, 1].map(Name::Slot).into_iter().filter(is_free);
        if left.namesakes > 0 {
            actions.extend(slots().map(Action::Namesake));
        }
        if left.orphans > 0 {
            let other = Some(Name::Other(0)).filter(is_free);
            actions.extend(slots().chain(other).map(Action::Orphan));
        }
    }
}
