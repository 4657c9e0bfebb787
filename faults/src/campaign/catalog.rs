//! All scenarios.

use super::queues;
use super::scenario::{self, Scenario};
use super::tenant;

/// Returns all scenarios, those with a hostile tenant last.
#[must_use]
pub fn all() -> Vec<Scenario> {
    [
        scenario::of_apps_and_sets(),
        queues::scenario::all(),
        tenant::scenarios(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = all().iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
