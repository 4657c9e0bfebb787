//! The scenarios that are checked.

use crd::{AdoptionPolicy, DeletionPolicy};

use crate::check::{Checked, FINALIZER_FIRST, NO_LEAK, NO_THIRD_PARTY_CHANGE};
use crate::explore::explore;
use crate::is_long;
use crate::world::{Budget, Flaw, Rules, World};

const POLICIES: [Option<DeletionPolicy>; 3] = [None, Some(DeletionPolicy::Delete), Some(DeletionPolicy::Retain)];

fn scenario(adoption: AdoptionPolicy, policy: Option<DeletionPolicy>, budget: Budget) -> Checked {
    let flaws = Vec::new();
    Checked {
        rules: Rules { adoption, flaws },
        start: World::new(policy, budget),
    }
}

#[track_caller]
fn holds(title: &str, scenario: Checked) {
    let found = explore(scenario);
    println!("{title}: {} states, depth {}", found.states, found.depth);
    assert!(found.counterexamples.is_empty(), "{title}: {:?}", found.counterexamples);
}

#[track_caller]
fn breaks(flaw: Flaw, budget: Budget, property: &str) {
    let mut scenario = scenario(AdoptionPolicy::Never, None, budget);
    scenario.rules.flaws.push(flaw);
    let found = explore(scenario);
    let broken: Vec<_> = found.counterexamples.keys().collect();
    assert!(found.counterexamples.contains_key(property), "{flaw:?}: {broken:?}");
}

/// One of each fault that concerns one AppQueue.
fn faults() -> Budget {
    Budget {
        crashes: 1,
        takeovers: 1,
        losses: 1,
        object_deletions: 1,
        ..Budget::default()
    }
}

#[test]
fn crashes_and_lost_responses_leave_no_queue() {
    for policy in POLICIES {
        let budget = Budget {
            object_creations: 1,
            losses: 1 + u8::from(is_long()),
            ..faults()
        };
        holds("faults", scenario(AdoptionPolicy::Never, policy, budget));
    }
}

#[test]
fn changes_outside_are_repaired() {
    for policy in POLICIES {
        let budget = Budget {
            deletions: 1,
            changes: 1,
            takeovers: u8::from(is_long()),
            ..faults()
        };
        holds("changes outside", scenario(AdoptionPolicy::Never, policy, budget));
    }
}

#[test]
fn third_party_queues_are_kept() {
    for policy in POLICIES {
        let budget = Budget {
            deletions: 1,
            creations: 1,
            crashes: u8::from(is_long()),
            ..faults()
        };
        holds("third-party queues", scenario(AdoptionPolicy::Never, policy, budget));
    }
}

#[test]
fn existing_queues_are_adopted() {
    for policy in POLICIES {
        let budget = Budget {
            deletions: 1,
            creations: 1,
            object_creations: u8::from(is_long()),
            takeovers: 0,
            ..faults()
        };
        holds("adoption", scenario(AdoptionPolicy::IfExists, policy, budget));
    }
}

#[test]
fn deletions_that_are_orphaned_end() {
    let budget = Budget {
        orphans: 1,
        object_creations: 1,
        ..faults()
    };
    holds("orphans", scenario(AdoptionPolicy::Never, None, budget));
}

#[test]
fn seeded_bugs_are_found() {
    breaks(Flaw::LateFinalizer, faults(), FINALIZER_FIRST);
    let creation = Budget {
        creations: 1,
        ..faults()
    };
    breaks(Flaw::NoTags, creation, NO_THIRD_PARTY_CHANGE);
    breaks(Flaw::NoWait, faults(), NO_LEAK);
    breaks(Flaw::NoOwner, faults(), NO_LEAK);
    // Without the cooldown of names, a late delete can hit a queue that another AppQueue has created.
    let recreation = Budget {
        object_creations: 1,
        crashes: 0,
        takeovers: 0,
        ..faults()
    };
    breaks(Flaw::NoCooldown, recreation, NO_THIRD_PARTY_CHANGE);
}
