//! The model checker for all reachable states of a scenario.

use crd::DeletionPolicy;
use model::queue::Claim;
use stateright::{Model, Property};

use crate::rest::{is_as_desired, is_leak, settle};
use crate::world::{Action, Rules, World};

pub const NO_THIRD_PARTY_CHANGE: &str = "no third-party queue is changed or deleted";
pub const FINALIZER_FIRST: &str = "a queue that is deleted later exists only with a finalizer";
pub const NO_LEAK: &str = "no queue is left when all calls have ended";
pub const END: &str = "one operator on its own reaches the desired state";

/// A scenario as a model.
pub struct Checked {
    pub rules: Rules,
    pub start: World,
}

impl Model for Checked {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.start.clone()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.apply(&self.rules, action).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_THIRD_PARTY_CHANGE, |_, world: &World| !world.service.is_breached),
            Property::always(FINALIZER_FIRST, |_, world: &World| has_finalizer(world)),
            Property::always(NO_LEAK, |_, world: &World| !world.is_quiet() || !is_leak(world)),
            Property::always(END, |checked: &Self, world: &World| {
                [true, false].into_iter().all(|carries_out| {
                    let mut alone = world.clone();
                    settle(&mut alone, &checked.rules, carries_out).is_ok() && is_as_desired(&alone).is_ok()
                })
            }),
        ]
    }
}

/// Whether the AppQueue has the finalizer if its queue was created.
fn has_finalizer(world: &World) -> bool {
    let (Some(object), Some(queue)) = (&world.object, &world.service.queue) else {
        return true;
    };
    let is_created = queue.claim(object.uid) == Claim::Created;
    !is_created || object.has_finalizer || object.policy == Some(DeletionPolicy::Retain)
}
