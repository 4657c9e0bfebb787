//! The desired state, and how it is reached without faults.

use crd::DeletionPolicy;
use model::queue::Claim;

use crate::world::{Action, Budget, Rules, Uid, World, is_conflict};

/// More actions than a reconcile has.
const MAX_ACTIONS: usize = 40;
/// How often the leader reconciles until everything is as desired.
const ROUNDS: usize = 4;

/// Lets the leader reconcile without faults.
///
/// # Errors
/// Returns an error if a reconcile does not end.
pub fn settle(world: &mut World, rules: &Rules, carries_out: bool) -> Result<(), &'static str> {
    world.left = Budget::default();
    for _ in 0..ROUNDS {
        while !world.late_calls.is_empty() {
            let action = if carries_out {
                Action::ArriveLate(0)
            } else {
                Action::DropLate(0)
            };
            world.apply(rules, action);
        }
        reconcile(world, rules)?;
        world.apply(rules, Action::Pass);
    }
    Ok(())
}

fn reconcile(world: &mut World, rules: &Rules) -> Result<(), &'static str> {
    for _ in 0..MAX_ACTIONS {
        world.apply(rules, Action::Take);
        if world.reconcile.is_none() {
            return Ok(());
        }
        world.apply(rules, Action::Arrive);
    }
    Err("a reconcile does not end")
}

/// Whether a queue is left that an AppQueue has created which does not exist any more, and that is not to be kept.
pub fn is_leak(world: &World) -> bool {
    let Some(queue) = &world.service.queue else {
        return false;
    };
    let owner = world.object.as_ref().map(|object| object.uid);
    let is_owned = owner.is_some_and(|owner| queue.claim(owner).is_ours());
    let is_left = |creator: Uid| Some(creator) != owner && !world.retained.contains(&creator);
    !is_owned && queue.creator.is_some_and(is_left)
}

/// Checks that everything is as desired.
///
/// # Errors
/// Returns what is not.
pub fn is_as_desired(world: &World) -> Result<(), &'static str> {
    let check = |is_right: bool, what| is_right.then_some(()).ok_or(what);
    check(!is_leak(world), "a queue is left")?;
    let Some(object) = &world.object else { return Ok(()) };
    check(!object.is_deleting, "the deletion does not end")?;
    let queue = world.service.queue.as_ref().ok_or("the queue does not exist")?;
    let claim = queue.claim(object.uid);
    if !claim.is_ours() {
        return check(is_conflict(world.outcome.as_ref()), "a conflict is not reported");
    }
    check(queue.attribute == "5", "the queue is not as desired")?;
    let is_deleted_later = match object.policy {
        None => claim == Claim::Created,
        Some(policy) => policy == DeletionPolicy::Delete,
    };
    check(object.has_finalizer == is_deleted_later, "the finalizer is wrong")
}
