//! What it means that a world is at rest, and how one gets there.

use model::podset::Step;

use crate::actions::Action;
use crate::pods::{CRASHING, Controller, Name, Pod};
use crate::rules::{Budget, Clock, Rules};
use crate::server::Server;
use crate::wish::Wish;
use crate::world::World;

/// More steps than any of these worlds needs: who takes more goes round in circles.
const PATIENCE: usize = 400;

/// Lets happen what happens by itself until nothing is left to do, and returns what that was. `choose` picks where to
/// begin in a list of so many actions; the first from there that makes a difference is taken.
///
/// # Errors
/// Returns how it goes on and on.
pub fn settle(
    world: &mut World,
    rules: &Rules,
    mut choose: impl FnMut(usize) -> usize,
) -> Result<Vec<Action>, Vec<Action>> {
    world.left = Budget::default();
    let (mut actions, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..PATIENCE {
        actions.clear();
        world.actions(rules, &mut actions);
        actions.retain(|action| *action != Action::NextWish);
        let from = choose(actions.len());
        actions.rotate_left(from);
        let Some(action) = actions.iter().find(|action| world.apply(rules, **action)) else {
            return Ok(taken);
        };
        taken.push(*action);
    }
    Err(taken)
}

/// Whether nobody is about to do anything, knows less than there is to know, or waits for an answer.
pub fn is_at_rest(world: &World, rules: &Rules) -> bool {
    let mut to_come = Vec::new();
    world.actions_of_the_cluster(rules, &mut to_come);
    let is_informed = |at: usize| {
        let operator = &world.operators[at];
        let wish = &rules.wishes[usize::from(operator.wish)];
        operator.wish == world.server.wish
            && operator.is_up_to_date(&world.server)
            && operator.has_heard_of_names(&world.server, wish)
    };
    to_come.is_empty()
        && (0..world.operators.len()).all(|at| world.operators[at].flights.is_empty() && is_informed(at))
        && (0..world.operators.len()).all(|at| world.step_of(rules, at) == Step::Settled)
        && (0..world.operators.len()).all(|at| rules.clock == Clock::Stands || world.wakes_at(rules, at).is_none())
}

/// Checks that everything is as wanted.
///
/// # Errors
/// Says what is not.
pub fn is_as_wanted(server: &Server, wish: &Wish) -> Result<(), String> {
    if wish.wanted.deleting {
        return Ok(());
    }
    let ours = Controller::Set(wish.set);
    let check = |is_right: bool, what: &str| is_right.then_some(()).ok_or_else(|| what.to_owned());
    for pod in &server.pods {
        let is_set = matches!(pod.controller, Controller::Set(_));
        check(!is_set || pod.label, "a pod without the label is still controlled")?;
        check(
            !is_set || (pod.controller == ours && !wish.gone),
            "a pod of a set that is gone is left",
        )?;
        let is_orphan = pod.controller == Controller::Nobody && pod.label && pod.is_active();
        check(wish.gone || !is_orphan, "a pod with the label has no controller")?;
        check(
            pod.controller != ours || pod.is_active() || pod.stuck,
            "a pod that has ended is left",
        )?;
    }
    if wish.gone {
        return Ok(());
    }
    let active: Vec<&Pod> = server.active(wish).collect();
    let replicas = wish.wanted.replicas;
    // A pod that can't be there is unavailable, and so uses up what may be missed while a change is rolled out.
    let is_stuck = active.len() < replicas;
    // An image that does not work stays where it was tried.
    let is_broken = wish.template.image == CRASHING;
    for pod in &active {
        let is_updated = pod.made_from == Some(wish.template);
        check(is_updated || is_stuck || is_broken, "a pod has another template")?;
        let runs = pod.runs_its_image() && pod.image == wish.template.image;
        check(!pod.by_operator || runs || !is_updated, "a pod runs another image")?;
        check(
            is_broken || pod.seen().is_available(&wish.wanted, i64::MAX),
            "a pod never becomes available",
        )?;
    }
    check(active.len() <= replicas, "there are too many pods")?;
    let is_there = active.len() == replicas || is_blocked(server, wish, replicas - active.len());
    check(is_there, "there are too few pods")?;
    let is_replaced =
        !active.iter().any(|pod| pod.is_chosen(server.wish)) || is_blocked(server, wish, replicas + 1 - active.len());
    check(is_replaced, "a pod that was to be replaced is left")
}

/// Whether so many pods can't be there because others have their names.
fn is_blocked(server: &Server, wish: &Wish, missing: usize) -> bool {
    let ours = Controller::Set(wish.set);
    let holder = |name: Name| server.pod(name).filter(|pod| pod.controller != ours);
    let is_usable = |name: &Name| {
        let is_filled = server.pod(*name).is_some_and(|pod| pod.controller == ours);
        let is_released = holder(*name).is_some_and(|pod| pod.released_from == Some(wish.set));
        !is_filled && !is_released
    };
    let mut wanted = (0..u8::MAX).map(Name::Slot).filter(is_usable).take(missing);
    missing > 0 && wanted.all(|name| holder(name).is_some())
}

/// Returns by how many the pods that operators have created exceed what any wish so far has asked for.
///
/// Any so far, and not only what somebody still believes in: when of two pods the one of the lower slot goes, the one
/// of the higher stays, and who has heard of the smaller wish but not yet of any pod fills the lower again.
///
/// And one more for each pod that was let go or got stuck while it was being deleted: its name is taken, so another slot is
/// filled in its place, and an operator that does not know that yet fills the first one again when it is free.
pub fn overshoot(world: &World, rules: &Rules) -> usize {
    let wishes = &rules.wishes[..=usize::from(world.server.wish)];
    let of_set = |set: u8| {
        let most = wishes.iter().filter(|wish| wish.set == set).map(Wish::most).max();
        let is_counted = |pod: &&Pod| pod.controller == Controller::Set(set) && pod.is_active() && pod.by_operator;
        let count = world.server.pods.iter().filter(is_counted).count();
        let allowed = most.unwrap_or(0) + usize::from(world.server.let_go) + usize::from(world.server.stuck);
        count.saturating_sub(allowed)
    };
    wishes.iter().map(|wish| of_set(wish.set)).max().unwrap_or(0)
}
