//! The checker finds seeded bugs.

use crate::check::{END, NO_EARLY_ARRIVAL, NO_LATE_ADOPTION, NO_OUTAGE, NO_OVERSHOOT, NO_THIRD_PARTY_CHANGE, check};
use crate::explore::Found;
use crate::flaw::Flaw;
use crate::scenario::Scenario;
use crate::scenarios;

fn finds(name: &str, property: &str, flaws: &[Flaw], mut scenario: Scenario) {
    scenario.rules.flaws = flaws.to_vec();
    let Found {
        states,
        counterexamples,
        ..
    } = check(scenario);
    println!("| {name} | {:?} | {states} |", counterexamples.keys());
    let story = counterexamples.get(property);
    assert!(
        story.is_some(),
        "{name}: this property holds: {property}: {counterexamples:?}"
    );
    println!("{}", story.map_or("", |story| story));
}

/// Defines a test for each seeded bug, with the property that it violates.
macro_rules! finds {
    ($($name:ident: $property:ident, $flaws:expr, $scenario:ident;)*) => {
        $(
            #[test]
            fn $name() {
                finds(stringify!($name), $property, &$flaws, scenarios::$scenario());
            }
        )*
    };
}

finds! {
    generated_names_after_a_crash: NO_OVERSHOOT, [Flaw::GeneratedNames], crash;
    generated_names_after_a_lost_response: NO_OVERSHOOT, [Flaw::GeneratedNames], lost_response;
    generated_names_with_two_operators: NO_OVERSHOOT, [Flaw::GeneratedNames], two_operators;
    generated_names_with_a_stale_cache: NO_OVERSHOOT, [Flaw::GeneratedNames, Flaw::NoOwnWrites], stale_cache;
    deletes_by_name: NO_THIRD_PARTY_CHANGE, [Flaw::NoPrecondition], namesake;
    update_of_an_older_version: NO_EARLY_ARRIVAL, [Flaw::NoVersion], pin_after_a_crash;
    owner_by_name: NO_THIRD_PARTY_CHANGE, [Flaw::OwnerByName], recreated;
    adoption_without_a_read: NO_LATE_ADOPTION, [Flaw::NoUncachedRead], recreated;
    replaced_by_name: END, [Flaw::ChosenByName], replace_and_a_free_name;
    replaced_before_its_successor: NO_OUTAGE, [Flaw::DeletedFirst], replace;
}
