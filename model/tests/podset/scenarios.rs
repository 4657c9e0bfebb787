//! The scenarios, each with a few faults. Each is a test that checks all reachable states and prints their number.

use std::time::Instant;

use crate::check::check;
use crate::explore::Found;
use crate::pods::{CRASHING, RESPELLED};
use crate::rules::Budget;
use crate::scenario::Scenario;
use crate::spec::Spec;

const NONE: Budget = Budget {
    deletions: 0,
    failures: 0,
    crashed: 0,
    strandings: 0,
    returns: 0,
    relabels: 0,
    namesakes: 0,
    orphans: 0,
    crashes: 0,
    losses: 0,
};

fn pods(replicas: usize) -> Spec {
    Spec::for_pods(replicas)
}

macro_rules! quick {
    ($name:ident) => {
        #[test]
        fn $name() {
            super::holds(stringify!($name), super::$name());
        }
    };
}

macro_rules! long {
    ($name:ident) => {
        #[test]
        #[ignore = "takes minutes: make test-long"]
        fn $name() {
            super::holds(stringify!($name), super::$name());
        }
    };
}

/// Defines a function and a test for each scenario.
macro_rules! scenarios {
    ($tests:ident, $test:ident: $($name:ident: $scenario:expr;)*) => {
        $(
            pub fn $name() -> Scenario {
                $scenario
            }
        )*

        mod $tests {
            $(
                $test!($name);
            )*
        }
    };
}

fn holds(name: &str, scenario: Scenario) {
    let start = Instant::now();
    let Found {
        states,
        depth,
        counterexamples,
    } = check(scenario);
    println!(
        "| {name} | {states} states | {depth} deep | {:.1} s |",
        start.elapsed().as_secs_f32()
    );
    let found = counterexamples.first_key_value();
    assert!(
        found.is_none(),
        "{name}: does not hold: {}",
        found.map_or(String::new(), |(property, story)| format!("{property}\n{story}"))
    );
}

// Stale caches, crashes and lost responses.
scenarios! {
    knowledge, quick:

    stale_cache: Scenario::of(vec![pods(2)]).with_no_pods().step_by_step()
        .with(Budget { deletions: 1, failures: 1, ..NONE });
    crash: Scenario::of(vec![pods(2)]).with_no_pods().with(Budget { crashes: 2, deletions: 1, ..NONE });
    lost_response: Scenario::of(vec![pods(2)]).with_no_pods().with(Budget { losses: 2, ..NONE });
    crash_lost_response_delete: Scenario::of(vec![pods(2)]).with_no_pods()
        .with(Budget { crashes: 1, losses: 1, deletions: 1, ..NONE });
    two_operators: Scenario::of(vec![pods(2)]).with_no_pods().operators(2).at_any_time()
        .with(Budget { deletions: 2, ..NONE });
    two_operators_crash_lost_response: Scenario::of(vec![pods(2)]).with_no_pods().operators(2).at_any_time()
        .with(Budget { crashes: 1, losses: 1, ..NONE });
    two_operators_failure: Scenario::of(vec![pods(2)]).operators(2).with(Budget { failures: 2, ..NONE });
}

// Changes of the spec.
scenarios! {
    changes, quick:

    scale_two_operators_crash: Scenario::of(vec![pods(1), pods(2), pods(1)]).operators(2).at_any_time()
        .with(Budget { crashes: 1, ..NONE });
    scale_two_operators_lost_response: Scenario::of(vec![pods(2), pods(1)]).operators(2)
        .with(Budget { losses: 1, deletions: 1, ..NONE });
    replace: Scenario::of(vec![pods(2), pods(2).replace(&[0])]).calm();
    replace_and_a_free_name: Scenario::of(vec![pods(2), pods(2).replace(&[0, 2])]).calm();
    replace_crash_lost_response: Scenario::of(vec![pods(2), pods(2).replace(&[0])])
        .with(Budget { crashes: 1, losses: 1, ..NONE });
    replace_two_operators_delete: Scenario::of(vec![pods(1), pods(1).replace(&[0])]).operators(2)
        .with(Budget { deletions: 1, ..NONE });
    replace_then_scale: Scenario::of(vec![pods(2), pods(2).replace(&[0]), pods(1).replace(&[0])]).operators(2);
    update_in_place: Scenario::of(vec![pods(2), pods(2).image(1), pods(2)]).calm();
    update_in_place_two_operators: Scenario::of(vec![pods(1), pods(1).image(1), pods(1)]).operators(2);
    recreate: Scenario::of(vec![pods(2), pods(2).shape(1)]).calm();
    recreate_two_operators: Scenario::of(vec![pods(1), pods(1).shape(1)]).operators(2)
        .with(Budget { crashes: 1, ..NONE });
    recreate_and_replace: Scenario::of(vec![pods(1), pods(1).shape(1).replace(&[0])]).operators(2);
    recreated: Scenario::of(vec![pods(1), pods(1).deleted(), pods(1).of_set(1)]).operators(2)
        .with(Budget { orphans: 1, ..NONE });
}

// Behavior of kubelets.
scenarios! {
    kubelets, quick:

    pin_by_digest: Scenario::of(vec![pods(2), pods(2).image(RESPELLED)]).calm().timed();
    pin_by_digest_and_back: Scenario::of(vec![pods(2), pods(2).image(RESPELLED), pods(2)]).calm().timed();
    there_and_back: Scenario::of(vec![pods(1), pods(1).image(1), pods(1)]).timed();
    image_that_exits: Scenario::of(vec![pods(2), pods(2).image(CRASHING)]).calm().timed();
    image_that_exits_and_back: Scenario::of(vec![pods(2), pods(2).image(CRASHING), pods(2)]).calm().timed();
    shape_that_exits: Scenario::of(vec![pods(2), pods(2).image(CRASHING).shape(1)]).calm().timed();
    lost_node: Scenario::of(vec![pods(2)]).with(Budget { strandings: 1, ..NONE });
    lost_node_is_restored: Scenario::of(vec![pods(2)]).operators(2)
        .with(Budget { strandings: 1, returns: 1, ..NONE });
    lost_nodes: Scenario::of(vec![pods(2), pods(1)]).with(Budget { strandings: 2, returns: 1, deletions: 1, ..NONE });
    lost_node_and_update: Scenario::of(vec![pods(2), pods(2).shape(1)]).calm()
        .with(Budget { strandings: 1, ..NONE });
    lost_node_and_replace: Scenario::of(vec![pods(1), pods(1).replace(&[0])])
        .with(Budget { strandings: 1, returns: 1, ..NONE });
    update_while_pulling: Scenario::of(vec![pods(1), pods(1).image(1)]).with_no_pods().timed();
    pin_while_pulling: Scenario::of(vec![pods(1), pods(1).image(RESPELLED)]).with_no_pods().timed();
    update_while_the_running_image_is_in_doubt:
        Scenario::of(vec![pods(2), pods(3).image(RESPELLED), pods(3).image(1)]).with_no_pods().calm().timed();
    update_after_a_crash: Scenario::of(vec![pods(1), pods(1).image(1)]).with(Budget { crashed: 1, ..NONE });
    pin_after_a_crash: Scenario::of(vec![pods(1), pods(1).image(RESPELLED)]).step_by_step()
        .with(Budget { crashed: 1, ..NONE });
}

// Changes of pods by users.
scenarios! {
    people, quick:

    namesake: Scenario::of(vec![pods(2), pods(1)]).operators(2).with(Budget { deletions: 1, namesakes: 1, ..NONE });
    namesake_goes: Scenario::of(vec![pods(2)]).with_no_pods().operators(2)
        .with(Budget { deletions: 1, namesakes: 1, ..NONE });
    namesake_of_a_successor: Scenario::of(vec![pods(1), pods(1).replace(&[0])])
        .with(Budget { deletions: 1, namesakes: 1, crashes: 1, ..NONE });
    relabel: Scenario::of(vec![pods(1)]).step_by_step().with(Budget { relabels: 2, deletions: 1, ..NONE });
    relabel_two_operators: Scenario::of(vec![pods(1)]).operators(2).at_any_time().with(Budget { relabels: 2, ..NONE });
    relabel_delete: Scenario::of(vec![pods(1)]).operators(2).with(Budget { relabels: 1, deletions: 1, ..NONE });
    relabel_scale: Scenario::of(vec![pods(2), pods(1)]).operators(2).with(Budget { relabels: 1, ..NONE });
    orphan: Scenario::of(vec![pods(1)]).operators(2).at_any_time().with(Budget { orphans: 1, deletions: 1, ..NONE });
    orphan_failure: Scenario::of(vec![pods(1)]).operators(2).with(Budget { orphans: 1, failures: 1, ..NONE });
}

scenarios! {
    larger, long:

    stale_cache_two_operators: Scenario::of(vec![pods(2)]).with_no_pods().operators(2).step_by_step()
        .with(Budget { deletions: 1, ..NONE });
    two_operators_crash_lost_response_delete: Scenario::of(vec![pods(2)]).with_no_pods().operators(2)
        .with(Budget { crashes: 1, losses: 1, deletions: 1, ..NONE });
    scale_there_and_back: Scenario::of(vec![pods(2), pods(1), pods(2)]).operators(2)
        .with(Budget { losses: 1, deletions: 1, ..NONE });
    replace_at_any_time: replace_two_operators_delete().at_any_time();
    replace_again: Scenario::of(vec![pods(1), pods(1).replace(&[0]), pods(1).replace(&[1]), pods(1)]).operators(2);
    replace_crash_lost_response_two_operators: Scenario::of(vec![pods(1), pods(1).replace(&[0])]).operators(2)
        .with(Budget { crashes: 1, losses: 1, ..NONE });
    lost_node_and_replace_two_operators: lost_node_and_replace().operators(2);
    update_in_place_crash: update_in_place_two_operators().with(Budget { crashes: 1, losses: 1, ..NONE });
    recreate_two_pods: Scenario::of(vec![pods(2), pods(2).shape(1)]).operators(2)
        .with(Budget { crashes: 1, ..NONE });
    namesake_at_any_time: namesake().at_any_time();
    namesake_of_a_successor_two_operators: namesake_of_a_successor().operators(2);
    relabel_and_delete: Scenario::of(vec![pods(1)]).operators(2).with(Budget { relabels: 2, deletions: 1, ..NONE });
}
