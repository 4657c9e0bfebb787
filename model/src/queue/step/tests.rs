//! Tests of the steps against a small queue service.

mod deletion;
mod service;
mod settles;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::queue::{CredentialsError, PROPAGATION, RETENTION_PROPAGATION, Retry};
use service::{Queue, World};

fn is_ready(outcome: &Outcome) -> bool {
    matches!(outcome.state, State::Ready(_))
}

/// Returns a world with a queue that was created and is ready, later than all its changes propagate.
fn ready(sqs: Value) -> World {
    let mut world = World::new(sqs);
    let outcome = world.reconcile();
    assert!(is_ready(&outcome), "{outcome:?}");
    world.pass(RETENTION_PROPAGATION);
    world.calls();
    world
}

#[test]
fn queue_is_created_after_the_finalizer_is_added() {
    let mut world = World::new(json!({"visibilityTimeoutSeconds": 45, "type": "FIFO", "tags": {"team": "a"}}));
    let outcome = world.reconcile();
    assert_eq!(
        world.calls(),
        [
            "GetQueueUrl",
            "+finalizer",
            "CreateQueue",
            "GetQueueAttributes",
            "ListQueueTags"
        ]
    );
    let queue = world.queue.as_ref().unwrap();
    assert_eq!(
        queue.tags,
        BTreeMap::from([("team".into(), "a".into()), (tag::OWNER.into(), "me".into())])
    );
    assert_eq!(queue.attributes["VisibilityTimeout"], "45");
    assert_eq!(queue.attributes["FifoQueue"], "true");
    assert_eq!(outcome.drift, []);
    let view = outcome.view().unwrap();
    assert_eq!(view.url, "http://sqs/shop_orders.fifo");
    assert_eq!(view.depth, Some(0));
}

#[test]
fn queue_that_is_retained_has_no_finalizer() {
    let mut world = World::new(json!({}));
    world.desired.deletion = Some(DeletionPolicy::Retain);
    assert!(is_ready(&world.reconcile()));
    assert!(!world.object.has_finalizer);
    // The policy of an existing queue is changed.
    world.desired.deletion = None;
    assert!(is_ready(&world.reconcile()));
    assert!(world.object.has_finalizer);
    world.desired.deletion = Some(DeletionPolicy::Retain);
    assert!(is_ready(&world.reconcile()));
    assert!(!world.object.has_finalizer);
}

#[test]
fn steady_queue_costs_one_read_each_resync() {
    for (sqs, reads) in [
        (json!({"delaySeconds": 5}), vec!["GetQueueAttributes"]),
        (json!({"tags": {"a": "b"}}), vec!["GetQueueAttributes", "ListQueueTags"]),
    ] {
        let mut world = ready(sqs);
        for _ in 0..3 {
            assert!(is_ready(&world.reconcile()));
            assert_eq!(world.calls(), reads);
            // Other reconciles until then cost nothing.
            assert!(is_ready(&world.reconcile()));
            assert_eq!(world.calls(), [""; 0]);
            world.pass(60);
        }
        // After a restart, the queue is looked for and verified again.
        world.restart();
        assert!(is_ready(&world.reconcile()));
        assert_eq!(world.calls(), ["GetQueueUrl", "GetQueueAttributes", "ListQueueTags"]);
    }
}

#[test]
fn deleted_queue_is_created_again_and_reported_once() {
    let mut world = ready(json!({"delaySeconds": 5}));
    world.queue = None;
    let outcome = world.reconcile();
    assert!(is_ready(&outcome));
    assert_eq!(outcome.drift, [Drift::Deleted]);
    assert_eq!(
        world.calls(),
        [
            "GetQueueAttributes",
            "CreateQueue",
            "GetQueueAttributes",
            "ListQueueTags"
        ]
    );
    assert_eq!(world.queue.as_ref().unwrap().attributes["DelaySeconds"], "5");
    assert_eq!(world.reconcile().drift, []);
}

#[test]
fn queue_that_is_deleted_during_an_outage_is_reported() {
    let mut world = ready(json!({}));
    world.fail("GetQueueAttributes", &CallError::Unavailable("refused".to_owned()));
    assert_eq!(world.reconcile().retry(), Retry::Backoff);
    world.queue = None;
    world.succeed();
    let outcome = world.reconcile();
    assert!(is_ready(&outcome));
    assert_eq!(outcome.drift, [Drift::Deleted]);
}

#[test]
fn name_that_is_refused_after_a_deletion_is_tried_again_later() {
    let mut world = ready(json!({}));
    world.queue = None;
    world.fail("CreateQueue", &CallError::DeletedRecently);
    let outcome = world.reconcile();
    assert_eq!(outcome.state, State::Failed(CallError::DeletedRecently));
    assert_eq!(
        (outcome.retry(), outcome.drift),
        (Retry::After(15), vec![Drift::Deleted])
    );
    world.calls();
    assert_eq!(world.reconcile().drift, []);
    assert_eq!(world.calls(), [""; 0], "until then, nothing is tried");
    world.pass(15);
    world.succeed();
    let outcome = world.reconcile();
    assert!(is_ready(&outcome));
    assert_eq!(outcome.drift, [], "it is reported once");
    assert_eq!(world.calls()[..2], ["GetQueueUrl", "CreateQueue"]);
}

#[test]
fn only_what_was_changed_is_set_after_the_tags_were_read() {
    let mut world = ready(json!({"delaySeconds": 5, "receiveWaitSeconds": 3}));
    world.change("DelaySeconds", "7");
    world.change("VisibilityTimeout", "99");
    let outcome = world.reconcile();
    assert_eq!(
        world.calls(),
        ["GetQueueAttributes", "ListQueueTags", "SetQueueAttributes DelaySeconds"]
    );
    let drift = Drift::Attribute {
        name: "DelaySeconds".into(),
        found: Some("7".into()),
        wanted: "5".into(),
    };
    assert_eq!(outcome.drift, [drift]);
    assert_eq!(world.queue.as_ref().unwrap().attributes["VisibilityTimeout"], "99");
}

#[test]
fn change_of_the_spec_is_not_drift() {
    let mut world = ready(json!({"delaySeconds": 5}));
    world.desired.attributes.insert("DelaySeconds".into(), "6".into());
    world.object.was_ready = false;
    let outcome = world.reconcile();
    assert!(is_ready(&outcome));
    assert_eq!(outcome.drift, []);
    assert_eq!(world.queue.as_ref().unwrap().attributes["DelaySeconds"], "6");
}

#[test]
fn own_changes_are_not_repeated_while_they_propagate() {
    for (name, field, window) in [
        ("DelaySeconds", "delaySeconds", PROPAGATION),
        (
            "MessageRetentionPeriod",
            "messageRetentionSeconds",
            RETENTION_PROPAGATION,
        ),
    ] {
        let mut world = World::new(json!({field: 100}));
        assert!(is_ready(&world.reconcile()));
        // The service still shows the old value.
        world.change(name, "200");
        world.calls();
        world.pass(window - 1);
        world.memory.expire();
        let outcome = world.reconcile();
        assert_eq!(
            (world.calls(), outcome.drift),
            (vec!["GetQueueAttributes".to_owned()], vec![]),
            "{name}"
        );
        world.pass(1);
        world.memory.expire();
        assert_eq!(world.reconcile().drift.len(), 1, "{name}");
        assert_eq!(world.queue.as_ref().unwrap().attributes[name], "100");
    }
}

#[test]
fn attribute_that_the_service_does_not_return_is_set_once() {
    let mut world = World::new(json!({}));
    world.hidden = vec!["MessageRetentionPeriod"];
    assert!(is_ready(&world.reconcile()));
    world
        .desired
        .attributes
        .insert("MessageRetentionPeriod".into(), "60".into());
    world.object.was_ready = false;
    world.calls();
    world.reconcile();
    let set = "SetQueueAttributes MessageRetentionPeriod".to_owned();
    assert!(world.calls().contains(&set));
    for restart in [false, true] {
        world.pass(RETENTION_PROPAGATION);
        if restart {
            world.restart();
        }
        assert!(is_ready(&world.reconcile()));
        assert!(!world.calls().contains(&set));
    }
}

#[test]
fn changed_tag_is_repaired_and_others_are_kept() {
    let mut world = ready(json!({"tags": {"team": "a"}}));
    let tags = &mut world.queue.as_mut().unwrap().tags;
    tags.insert("team".into(), "b".into());
    tags.insert("other".into(), "c".into());
    let outcome = world.reconcile();
    assert_eq!(outcome.drift, [Drift::Tag { key: "team".into() }]);
    let tags = &world.queue.as_ref().unwrap().tags;
    assert_eq!((&*tags["team"], &*tags["other"]), ("a", "c"));
}

#[test]
fn existing_queue_is_a_conflict_and_not_changed() {
    let mut world = World::new(json!({"delaySeconds": 5, "tags": {"a": "b"}}));
    world.queue = Some(Queue::of_another(&[]));
    let before = world.queue.clone();
    let outcome = world.reconcile();
    assert_eq!(outcome.state, State::Conflict(Conflict::NotManaged));
    assert_eq!(world.calls(), ["GetQueueUrl", "GetQueueAttributes", "ListQueueTags"]);
    assert_eq!((&world.queue, world.object.has_finalizer), (&before, false));
}

#[test]
fn queue_of_another_that_replaced_ours_is_not_changed() {
    let mut world = ready(json!({"delaySeconds": 5}));
    world.queue = Some(Queue::of_another(&[]));
    let before = world.queue.clone();
    let outcome = world.reconcile();
    assert_eq!(outcome.state, State::Conflict(Conflict::NotManaged));
    assert_eq!(world.queue, before);
}

#[test]
fn existing_queue_is_adopted_if_the_policy_says_so() {
    for (deletion, has_finalizer) in [(None, false), (Some(DeletionPolicy::Delete), true)] {
        let mut world = World::new(json!({"delaySeconds": 5}));
        world.desired.adoption = AdoptionPolicy::IfExists;
        world.desired.deletion = deletion;
        world.queue = Some(Queue::of_another(&[]));
        let outcome = world.reconcile();
        assert!(is_ready(&outcome), "{outcome:?}");
        let mut calls = vec!["GetQueueUrl", "GetQueueAttributes", "ListQueueTags"];
        calls.extend(has_finalizer.then_some("+finalizer"));
        calls.extend(["TagQueue", "SetQueueAttributes DelaySeconds"]);
        assert_eq!(world.calls(), calls);
        assert_eq!(world.queue.as_ref().unwrap().tags[tag::ADOPTED_BY], "me");
    }
}

#[test]
fn queue_of_an_appqueue_that_exists_is_not_taken_over() {
    let adopt = |is_live: bool, was_seen: bool| {
        let mut world = World::new(json!({}));
        world.desired.adoption = AdoptionPolicy::IfExists;
        world.queue = Some(Queue::of_another(&[(tag::OWNER, "other")]));
        (world.is_live, world.object.was_seen) = (is_live, was_seen);
        let outcome = world.reconcile();
        (outcome.state, world.queue.unwrap().tags)
    };
    let conflict = State::Conflict(Conflict::Owned { uid: "other".into() });
    assert_eq!(adopt(true, false).0, conflict);
    assert_eq!(
        adopt(false, true).0,
        conflict,
        "a queue that was lost is not adopted again"
    );
    let mut kept = World::new(json!({}));
    kept.queue = Some(Queue::of_another(&[(tag::OWNER, "other")]));
    kept.is_live = false;
    assert_eq!(
        kept.reconcile().state,
        State::Conflict(Conflict::NotManaged),
        "a queue that a deleted AppQueue has left can be adopted"
    );
    let (state, tags) = adopt(false, false);
    assert!(matches!(state, State::Ready(_)));
    assert_eq!(tags, BTreeMap::from([(tag::ADOPTED_BY.into(), "me".into())]));
}

#[test]
fn owner_does_not_change_a_queue_that_was_taken_over() {
    let mut world = ready(json!({"delaySeconds": 5}));
    let tags = &mut world.queue.as_mut().unwrap().tags;
    tags.insert(tag::ADOPTED_BY.into(), "other".into());
    world.change("DelaySeconds", "9");
    let outcome = world.reconcile();
    assert_eq!(outcome.state, State::Conflict(Conflict::Owned { uid: "other".into() }));
    assert_eq!(world.queue.as_ref().unwrap().attributes["DelaySeconds"], "9");
}

#[test]
fn queue_is_not_created_without_its_dead_letter_queue() {
    let mut world = World::new(json!({}));
    let missing = DeadLetterState::Missing { name: "dead".into() };
    world.desired.dead_letter = Some(missing.clone());
    let outcome = world.reconcile();
    let expected = State::DeadLetter {
        state: missing.clone(),
        view: None,
    };
    assert_eq!(outcome.state, expected);
    assert!(world.queue.is_none());
    // An existing queue is still kept.
    let mut world = ready(json!({"delaySeconds": 5}));
    world.desired.dead_letter = Some(missing);
    world.change("DelaySeconds", "9");
    assert!(world.reconcile().view().is_some());
    assert_eq!(world.queue.as_ref().unwrap().attributes["DelaySeconds"], "5");
}

#[test]
fn create_whose_response_was_lost_is_found_again() {
    let mut world = World::new(json!({"delaySeconds": 5}));
    world.lose("CreateQueue");
    let outcome = world.reconcile();
    assert!(matches!(outcome.state, State::Failed(CallError::Lost(_))));
    assert!(world.queue.is_some());
    world.succeed();
    world.restart();
    world.calls();
    assert!(is_ready(&world.reconcile()));
    assert_eq!(world.calls(), ["GetQueueUrl", "GetQueueAttributes", "ListQueueTags"]);
}

#[test]
fn queue_that_appears_while_it_is_created_is_examined() {
    let mut world = World::new(json!({"delaySeconds": 5}));
    // The service does not show the queue yet, and rejects another one with this name.
    world.fail("GetQueueUrl", &CallError::NoSuchQueue);
    world.fail("CreateQueue", &CallError::AttributesDiffer);
    world.queue = Some(Queue::of_another(&[(tag::OWNER, "me")]));
    assert_eq!(world.reconcile().state, State::Propagating);
    world.succeed();
    world.pass(5);
    assert!(is_ready(&world.reconcile()));
    assert_eq!(world.queue.as_ref().unwrap().attributes["DelaySeconds"], "5");
}

#[test]
fn tags_that_lag_behind_are_no_conflict() {
    let mut world = World::new(json!({}));
    world.lagging_tags = true;
    assert_eq!(world.reconcile().state, State::Propagating);
    world.pass(5);
    world.lagging_tags = false;
    assert!(is_ready(&world.reconcile()));
}

#[test]
fn failed_call_ends_the_reconcile() {
    for error in [
        CallError::NoCredentials(CredentialsError::SecretMissing("sqs".into())),
        CallError::Denied("no".into()),
        CallError::Unavailable("refused".into()),
    ] {
        let mut world = ready(json!({}));
        world.fail("GetQueueAttributes", &error);
        let outcome = world.reconcile();
        assert_eq!((outcome.retry(), outcome.state), (Retry::Backoff, State::Failed(error)));
        assert_eq!(world.calls(), ["GetQueueAttributes"]);
    }
}
