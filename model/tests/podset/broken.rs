//! What is broken on purpose is found.

use crate::check::{END, Found, NO_DEAD_ADOPTION, NO_EARLY_ARRIVAL, NO_OUTAGE, NO_OVERSHOOT, NO_STRANGER, check};
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
    assert!(story.is_some(), "{name}: it holds that {property}: {counterexamples:?}");
    println!("{}", story.map_or("", |story| story));
}

/// Each says which property the checker finds broken.
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
    generated_names_after_a_lost_answer: NO_OVERSHOOT, [Flaw::GeneratedNames], lost_answer;
    generated_names_with_two_operators: NO_OVERSHOOT, [Flaw::GeneratedNames], two_operators;
    generated_names_with_an_old_cache: NO_OVERSHOOT, [Flaw::GeneratedNames, Flaw::Deaf], stale_cache;
    deletes_by_name: NO_STRANGER, [Flaw::NoPrecondition], namesake;
    update_of_an_older_version: NO_EARLY_ARRIVAL, [Flaw::NoVersion], pin_after_a_crash;
    owner_by_name: NO_STRANGER, [Flaw::OwnerByName], made_anew;
    adoption_without_asking: NO_DEAD_ADOPTION, [Flaw::NoUncachedRead], made_anew;
    replaced_by_name: END, [Flaw::ChosenByName], replace_and_a_free_name;
    chosen_first: NO_OUTAGE, [Flaw::ChosenFirst], replace;
}
