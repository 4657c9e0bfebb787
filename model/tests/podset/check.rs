//! The model checker for all reachable states of a scenario.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use stateright::{Model, Property};

use crate::actions::Action;
use crate::canonical::{hash, rename};
use crate::explore::{Found, explore};
use crate::rest::{is_as_desired, is_at_rest, overshoot, settle};
use crate::rules::Budget;
use crate::scenario::Scenario;
use crate::server::Breach;
use crate::world::World;

/// The properties of all states.
pub const NO_OVERSHOOT: &str = "there are never more pods than desired";
pub const NO_THIRD_PARTY_CHANGE: &str = "no third-party pod is changed";
pub const NO_LATE_ADOPTION: &str = "no pod is adopted for a set that was deleted";
pub const NO_OUTAGE: &str = "no write removes a pod that is needed";
pub const NO_EARLY_ARRIVAL: &str = "a pod counts as available only if it runs the image of its spec";
pub const REST: &str = "if nothing is left to do, everything is as desired";
pub const END: &str = "one operator on its own reaches the desired state";

/// A scenario as a model.
pub struct Checked {
    scenario: Scenario,
    /// The hashes of states from which one operator is known to reach the desired state.
    ends: Mutex<HashSet<u64>>,
}

impl Model for Checked {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.scenario.start()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(&self.scenario.rules, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let happened = next.apply(&self.scenario.rules, action);
        rename(&mut next);
        happened.then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_OVERSHOOT, |checked: &Self, world: &World| {
                overshoot(world, &checked.scenario.rules) == 0
            }),
            Property::always(NO_THIRD_PARTY_CHANGE, |_, world: &World| {
                world.breach != Some(Breach::ThirdPartyChange)
            }),
            Property::always(NO_LATE_ADOPTION, |_, world: &World| {
                world.breach != Some(Breach::LateAdoption)
            }),
            Property::always(NO_OUTAGE, |_, world: &World| world.breach != Some(Breach::Outage)),
            Property::always(NO_EARLY_ARRIVAL, |checked: &Self, world: &World| {
                checked.counts_only_what_runs(world)
            }),
            Property::always(REST, |checked: &Self, world: &World| {
                let rules = &checked.scenario.rules;
                !is_at_rest(world, rules) || is_as_desired(&world.server, world.spec(rules)).is_ok()
            }),
            Property::always(END, Checked::ends_well),
        ]
    }
}

impl Checked {
    /// Whether each pod that counts as updated and available runs the image in its spec.
    fn counts_only_what_runs(&self, world: &World) -> bool {
        let rules = &self.scenario.rules;
        let (spec, now) = (world.spec(rules), world.now(rules));
        world.server.active(spec).all(|pod| {
            let pod_of_set = pod.as_set_pod();
            let counts = pod.change.is_some() && pod_of_set.is_available(&spec.valid, now);
            !counts || pod.runs_its_image()
        })
    }

    fn ends_well(&self, world: &World) -> bool {
        (0..world.operators.len()).all(|at| {
            let mut alone = World {
                operators: vec![world.operators[at].clone()],
                server: world.server.clone(),
                late_requests: Vec::new(),
                left: Budget::default(),
                breach: None,
            };
            rename(&mut alone);
            let start = hash(&alone);
            if self
                .ends
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&start)
            {
                return true;
            }
            let rules = &self.scenario.rules;
            let is_well = settle(&mut alone, rules, |_| 0).is_ok()
                && is_at_rest(&alone, rules)
                && is_as_desired(&alone.server, alone.spec(rules)).is_ok();
            if is_well {
                self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(start);
            }
            is_well
        })
    }
}

/// Checks a scenario.
pub fn check(scenario: Scenario) -> Found {
    explore(Checked {
        scenario,
        ends: Mutex::default(),
    })
}
