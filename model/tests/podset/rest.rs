//! The desired state, and how it is reached.

use model::podset::Step;

use crate::actions::Action;
use crate::pods::{CRASHING, Controller, Name, Pod};
use crate::rules::{Budget, Clock, Rules};
use crate::server::Server;
use crate::spec::Spec;
use crate::world::World;

/// More steps than needed in any state. With more steps, the operator does not settle.
const MAX_STEPS: usize = 400;

/// Performs actions without faults until nothing is left to do, and returns them. `choose` returns the index at which to
/// start in a list of this length; the first effective action from there is performed.
///
/// # Errors
/// Returns the actions if there is no end.
pub fn settle(
    world: &mut World,
    rules: &Rules,
    mut choose: impl FnMut(usize) -> usize,
) -> Result<Vec<Action>, Vec<Action>> {
    world.left = Budget::default();
    let (mut actions, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..MAX_STEPS {
        actions.clear();
        world.actions(rules, &mut actions);
        actions.retain(|action| *action != Action::NextSpec);
        let from = choose(actions.len());
        actions.rotate_left(from);
        let Some(action) = actions.iter().find(|action| world.apply(rules, **action)) else {
            return Ok(taken);
        };
        taken.push(*action);
    }
    Err(taken)
}

/// Whether nothing is left to do: all caches are current, no request is in flight, and no operator has a next step.
pub fn is_at_rest(world: &World, rules: &Rules) -> bool {
    let mut to_come = Vec::new();
    world.actions_of_the_cluster(rules, &mut to_come);
    let is_current = |at: usize| {
        let operator = &world.operators[at];
        let spec = &rules.specs[usize::from(operator.spec)];
        operator.spec == world.server.spec
            && operator.is_up_to_date(&world.server)
            && operator.has_current_names(&world.server, spec)
    };
    to_come.is_empty()
        && (0..world.operators.len()).all(|at| world.operators[at].flights.is_empty() && is_current(at))
        && (0..world.operators.len()).all(|at| world.step_of(rules, at) == Step::Settled)
        && (0..world.operators.len()).all(|at| rules.clock == Clock::Stands || world.wakes_at(rules, at).is_none())
}

/// Checks that everything is as desired.
///
/// # Errors
/// Returns what is not.
pub fn is_as_desired(server: &Server, spec: &Spec) -> Result<(), String> {
    if spec.valid.deleting {
        return Ok(());
    }
    let ours = Controller::Set(spec.set);
    let check = |is_right: bool, what: &str| is_right.then_some(()).ok_or_else(|| what.to_owned());
    for pod in &server.pods {
        let is_set = matches!(pod.controller, Controller::Set(_));
        check(!is_set || pod.label, "a pod without the label is still controlled")?;
        check(
            !is_set || (pod.controller == ours && !spec.deleted),
            "a pod of a deleted set is left",
        )?;
        let is_orphan = pod.controller == Controller::None && pod.label && pod.is_active();
        check(spec.deleted || !is_orphan, "a pod with the label has no controller")?;
        check(
            pod.controller != ours || pod.is_active() || pod.stuck,
            "a finished pod is left",
        )?;
    }
    if spec.deleted {
        return Ok(());
    }
    let active: Vec<&Pod> = server.active(spec).collect();
    let replicas = spec.valid.replicas;
    // A pod that can't be created counts as unavailable, which may stop a rollout.
    let is_stuck = active.len() < replicas;
    // Pods with an image that does not work keep it.
    let is_broken = spec.template.image == CRASHING;
    for pod in &active {
        let is_updated = pod.made_from == Some(spec.template);
        check(is_updated || is_stuck || is_broken, "a pod has another template")?;
        let runs = pod.runs_its_image() && pod.image == spec.template.image;
        check(!pod.by_operator || runs || !is_updated, "a pod runs another image")?;
        check(
            is_broken || pod.as_set_pod().is_available(&spec.valid, i64::MAX),
            "a pod never becomes available",
        )?;
    }
    check(active.len() <= replicas, "there are too many pods")?;
    let is_complete = active.len() == replicas || is_blocked(server, spec, replicas - active.len());
    check(is_complete, "there are too few pods")?;
    let is_replaced =
        !active.iter().any(|pod| pod.is_chosen(server.spec)) || is_blocked(server, spec, replicas + 1 - active.len());
    check(is_replaced, "a pod that was to be replaced is left")
}

/// Whether this number of pods can't be created because other pods have their names.
fn is_blocked(server: &Server, spec: &Spec, missing: usize) -> bool {
    let ours = Controller::Set(spec.set);
    let holder = |name: Name| server.pod(name).filter(|pod| pod.controller != ours);
    let is_usable = |name: &Name| {
        let is_filled = server.pod(*name).is_some_and(|pod| pod.controller == ours);
        let is_released = holder(*name).is_some_and(|pod| pod.released_from == Some(spec.set));
        !is_filled && !is_released
    };
    let mut wanted = (0..u8::MAX).map(Name::Slot).filter(is_usable).take(missing);
    missing > 0 && wanted.all(|name| holder(name).is_some())
}

/// Returns by how many the pods that operators have created exceed the maximum of all specs so far.
///
/// All specs so far count, not only those in caches: when the pod in the lower of two slots is deleted, the one in the
/// higher slot stays, and an operator that has received the smaller spec but no pods fills the lower slot again.
///
/// One more pod is allowed for each pod that was released or whose deletion did not finish: its name is taken, so another
/// slot is filled, and an operator that has not received that change fills the first slot again when it is free.
pub fn overshoot(world: &World, rules: &Rules) -> usize {
    let specs = &rules.specs[..=usize::from(world.server.spec)];
    let of_set = |set: u8| {
        let most = specs.iter().filter(|spec| spec.set == set).map(Spec::max_pods).max();
        let is_counted = |pod: &&Pod| pod.controller == Controller::Set(set) && pod.is_active() && pod.by_operator;
        let count = world.server.pods.iter().filter(is_counted).count();
        let allowed = most.unwrap_or(0) + usize::from(world.server.released) + usize::from(world.server.stuck);
        count.saturating_sub(allowed)
    };
    specs.iter().map(|spec| of_set(spec.set)).max().unwrap_or(0)
}
