//! The actions that change the state.

use model::podset::Phase;

use crate::pods::{CRASHING, Controller, EXITS_AFTER, Name, Pod};
use crate::rules::{Clock, Lag, Rules};
use crate::world::World;

/// Which changes a cache receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    Pods,
    Spec,
    Both,
}

/// An action. Operators and requests are identified by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An operator receives the next change of the pods.
    HearPods(usize),
    /// An operator receives the next version of the spec.
    HearSpec(usize),
    /// An operator receives changes and decides.
    Look(usize, News),
    /// An operator tries again to create pods whose names were taken.
    RetryTaken(usize),
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
    /// A pod is deleted, and its deletion does not finish.
    Strand(Name),
    /// The node of a stuck pod is restored, or its finalizer is removed.
    Return(Name),
    /// The deletion of a pod finishes.
    Finalize(Name),
    /// The garbage collector deletes a pod whose set was deleted.
    Collect(Name),
    /// A request of an operator is processed, and the operator receives the response. A later response makes no difference,
    /// because the operator only receives changes until then.
    Arrive(usize, usize),
    /// An operator decides.
    Decide(usize),
    /// Time passes until the next change of an operator's decision.
    Wait(usize),
    /// A request is processed whose response was lost.
    ArriveLate(usize),
    Lose(usize, usize),
    Crash(usize),
    NextSpec,
    Delete(Name),
    Fail(Name),
    Relabel(Name),
    Namesake(Name),
    Orphan(Name),
}

impl World {
    /// Returns the possible actions; some may have no effect.
    ///
    /// Actions that lead to the desired state come first, so that always taking the first effective one reaches it.
    pub fn actions(&self, rules: &Rules, actions: &mut Vec<Action>) {
        for (at, operator) in self.operators.iter().enumerate() {
            if rules.lag != Lag::Looks {
                actions.extend([Action::HearPods(at), Action::HearSpec(at)]);
            } else if operator.flights.is_empty() {
                let all = [News::Both, News::Pods, News::Spec];
                actions.extend(all.map(|news| Action::Look(at, news)));
            }
            actions.push(Action::RetryTaken(at));
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
        actions.extend((0..self.late_requests.len()).map(Action::ArriveLate));
        self.faults(actions);
        self.actions_of_users(rules, actions);
    }

    pub fn actions_of_the_cluster(&self, rules: &Rules, actions: &mut Vec<Action>) {
        for pod in &self.server.pods {
            if pod.stuck {
                continue;
            }
            if pod.deleting {
                actions.push(Action::Finalize(pod.name));
            } else if let Controller::Set(set) = pod.controller
                && (self.spec(rules).deleted || set != self.spec(rules).set)
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

    /// Whether a container that exits by itself must have exited by now.
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

    fn actions_of_users(&self, rules: &Rules, actions: &mut Vec<Action>) {
        let left = self.left;
        if usize::from(self.server.spec) + 1 < rules.specs.len() {
            actions.push(Action::NextSpec);
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
