//! The checker: it goes through all states that a scenario can come to.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::actions::Action;
use crate::canonical::{hash, rename};
use crate::rest::{is_as_wanted, is_at_rest, overshoot, settle};
use crate::rules::Budget;
use crate::scenario::Scenario;
use crate::server::Breach;
use crate::world::World;

/// What holds in every state.
pub const NO_OVERSHOOT: &str = "there are never more pods than are wanted";
pub const NO_STRANGER: &str = "no pod is touched that is not the set's own";
pub const NO_DEAD_ADOPTION: &str = "no pod is taken in for a set that is gone";
pub const NO_OUTAGE: &str = "no write takes away a pod that is needed";
pub const NO_EARLY_ARRIVAL: &str = "a pod counts as available only if it runs the image of its spec";
pub const REST: &str = "who is at rest has everything as wanted";
pub const END: &str = "one operator alone comes to rest, with everything as wanted";

/// A scenario in the hands of the checker.
pub struct Checked {
    scenario: Scenario,
    /// The worlds of one operator from which it is known to come to rest.
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
            Property::always(NO_STRANGER, |_, world: &World| {
                world.breach != Some(Breach::TouchedAStranger)
            }),
            Property::always(NO_DEAD_ADOPTION, |_, world: &World| {
                world.breach != Some(Breach::AdoptedForTheDead)
            }),
            Property::always(NO_OUTAGE, |_, world: &World| {
                world.breach != Some(Breach::CausedAnOutage)
            }),
            Property::always(NO_EARLY_ARRIVAL, |checked: &Self, world: &World| {
                checked.counts_only_what_runs(world)
            }),
            Property::always(REST, |checked: &Self, world: &World| {
                let rules = &checked.scenario.rules;
                !is_at_rest(world, rules) || is_as_wanted(&world.server, world.wish(rules)).is_ok()
            }),
            Property::always(END, Checked::ends_well),
        ]
    }
}

impl Checked {
    /// Whether each pod that counts as updated and available runs what its spec says.
    fn counts_only_what_runs(&self, world: &World) -> bool {
        let rules = &self.scenario.rules;
        let (wish, now) = (world.wish(rules), world.now(rules));
        world.server.active(wish).all(|pod| {
            let seen = pod.seen();
            let counts = pod.change.is_some() && seen.is_available(&wish.wanted, now);
            !counts || pod.runs_its_image()
        })
    }

    fn ends_well(&self, world: &World) -> bool {
        (0..world.operators.len()).all(|at| {
            let mut alone = World {
                operators: vec![world.operators[at].clone()],
                server: world.server.clone(),
                ghosts: Vec::new(),
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
                && is_as_wanted(&alone.server, alone.wish(rules)).is_ok();
            if is_well {
                self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(start);
            }
            is_well
        })
    }
}

/// What the checker has found.
pub struct Found {
    pub states: usize,
    pub depth: usize,
    /// The properties that do not hold, and how one gets there.
    pub counterexamples: BTreeMap<&'static str, String>,
}

/// Goes through a scenario.
pub fn check(scenario: Scenario) -> Found {
    let model = Checked {
        scenario,
        ends: Mutex::default(),
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let stories = checker.discoveries().into_iter().map(|(property, path)| {
        let mut story = String::new();
        let end = path.last_state().clone();
        for action in path.into_actions() {
            let _ = writeln!(story, "{action:?}");
        }
        let _ = writeln!(story, "{end:#?}");
        (property, story)
    });
    let counterexamples = stories.collect();
    Found {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        counterexamples,
    }
}
