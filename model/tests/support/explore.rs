//! Explores all reachable states of a model.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

/// The result of a check.
pub struct Found {
    pub states: usize,
    pub depth: usize,
    /// The violated properties, with the actions that lead there.
    pub counterexamples: BTreeMap<&'static str, String>,
}

/// Checks the properties of a model in all its states, until each is violated or holds.
pub fn explore<M>(model: M) -> Found
where
    M: Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
        + Send
        + Sync
        + 'static,
{
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
