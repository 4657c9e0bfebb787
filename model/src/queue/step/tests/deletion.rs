//! Deletions.

use super::*;

/// Returns a world with a ready queue whose AppQueue is being deleted.
fn deleting(deletion: Option<DeletionPolicy>) -> World {
    let mut world = ready(json!({}));
    world.desired.deletion = deletion;
    world.object.is_deleting = true;
    world
}

#[test]
fn own_queue_is_deleted_and_then_the_finalizer_removed() {
    let mut world = deleting(None);
    assert_eq!(world.reconcile().state, State::Deleting);
    assert_eq!(world.calls(), ["ListQueueTags", "DeleteQueue", "-finalizer Deleted"]);
    assert!(world.queue.is_none());
    // With an empty memory.
    let mut world = deleting(None);
    world.restart();
    world.reconcile();
    let calls = ["GetQueueUrl", "ListQueueTags", "DeleteQueue", "-finalizer Deleted"];
    assert_eq!(world.calls(), calls);
}

#[test]
fn queue_that_does_not_exist_does_not_block_the_deletion() {
    let mut world = deleting(None);
    world.queue = None;
    world.restart();
    world.reconcile();
    assert_eq!(world.calls(), ["GetQueueUrl", "-finalizer Deleted"]);
}

#[test]
fn third_party_queue_is_not_deleted() {
    let taken_over = [(tag::OWNER, "me"), (tag::ADOPTED_BY, "other")];
    for tags in [&[][..], &[(tag::OWNER, "other")], &taken_over] {
        for deletion in [None, Some(DeletionPolicy::Delete)] {
            let mut world = deleting(deletion);
            world.queue = Some(Queue::of_another(tags));
            world.reconcile();
            assert_eq!(world.calls(), ["ListQueueTags", "-finalizer NotOurs"]);
            assert!(world.queue.is_some());
        }
    }
}

#[test]
fn adopted_queue_is_deleted_only_if_the_policy_says_so() {
    let delete = Some(DeletionPolicy::Delete);
    for (deletion, calls) in [
        (None, ["ListQueueTags", "UntagQueue", "-finalizer Retained"]),
        (delete, ["ListQueueTags", "DeleteQueue", "-finalizer Deleted"]),
    ] {
        let mut world = deleting(deletion);
        world.queue = Some(Queue::of_another(&[(tag::ADOPTED_BY, "me")]));
        world.reconcile();
        assert_eq!(world.calls(), calls);
    }
}

#[test]
fn retained_queue_loses_its_tag_if_that_is_possible() {
    let retain = Some(DeletionPolicy::Retain);
    let mut world = deleting(retain);
    world.reconcile();
    assert_eq!(world.calls(), ["ListQueueTags", "UntagQueue", "-finalizer Retained"]);
    assert!(world.queue.as_ref().unwrap().tags.is_empty());
    for failing in ["GetQueueUrl", "ListQueueTags", "UntagQueue"] {
        let mut world = deleting(retain);
        world.restart();
        world.fail(failing, &CallError::Unavailable("refused".into()));
        assert_eq!(world.reconcile().state, State::Deleting);
        assert_eq!(world.calls().last().unwrap(), "-finalizer Retained", "{failing}");
    }
}

#[test]
fn failed_deletion_keeps_the_finalizer() {
    for error in [
        CallError::NoCredentials(CredentialsError::SecretMissing("sqs".into())),
        CallError::Denied("no".into()),
        CallError::Lost("timeout".into()),
    ] {
        for failing in ["ListQueueTags", "DeleteQueue"] {
            let mut world = deleting(None);
            world.fail(failing, &error);
            let outcome = world.reconcile();
            assert_eq!(outcome.retry(), Retry::Backoff);
            assert_eq!(outcome.state, State::Failed(error.clone()));
            assert!(world.object.has_finalizer);
        }
    }
}

#[test]
fn credentials_that_were_deleted_with_the_namespace_do_not_block_it() {
    let missing = CredentialsError::SecretMissing("sqs".into());
    let forbidden = CredentialsError::SecretForbidden("sqs".into());
    for (error, is_orphaned) in [
        (CallError::NoCredentials(missing), true),
        (CallError::NoCredentials(forbidden), true),
        (CallError::Denied("no".into()), false),
        (CallError::Unavailable("refused".into()), false),
    ] {
        let mut world = deleting(None);
        world.object.is_namespace_terminating = true;
        world.fail("ListQueueTags", &error);
        world.reconcile();
        let removal = "-finalizer Orphaned".to_owned();
        assert_eq!(world.calls().contains(&removal), is_orphaned, "{error}");
        assert_eq!(world.object.has_finalizer, !is_orphaned);
    }
}

#[test]
fn deletion_waits_for_a_create_whose_response_was_lost() {
    let lost = || {
        let mut world = World::new(json!({}));
        world.fail("CreateQueue", &CallError::Lost("timeout".into()));
        world.reconcile();
        world.object.is_deleting = true;
        world
    };
    let mut world = lost();
    world.pass(5);
    assert_eq!(world.reconcile().state, State::Propagating);
    assert!(world.object.has_finalizer);
    // The queue appears late.
    world.queue = Some(Queue::of_another(&[(tag::OWNER, "me")]));
    world.pass(5);
    assert_eq!(world.reconcile().state, State::Deleting);
    assert!(world.queue.is_none());
    // The queue never appears.
    let mut world = lost();
    world.pass(PROPAGATION);
    assert_eq!(world.reconcile().state, State::Deleting);
}

#[test]
fn deletion_without_our_finalizer_makes_no_call() {
    let mut world = World::new(json!({}));
    world.object.is_deleting = true;
    assert_eq!(world.reconcile().state, State::Deleting);
    assert_eq!(world.calls(), [""; 0]);
}

/// SQS refuses the name of a deleted queue for a minute. On a server that does not, a create that was sent before may be carried
/// out after the deletion.
#[test]
fn deleted_queue_can_appear_again_while_another_create_is_in_flight() {
    let mut world = World::new(json!({}));
    world.fail("CreateQueue", &CallError::Lost("timeout".into()));
    world.reconcile();
    world.succeed();
    world.pass(1);
    assert!(is_ready(&world.reconcile()), "a second create has succeeded");
    world.object.is_deleting = true;
    assert_eq!(world.reconcile().state, State::Propagating);
    assert!(world.queue.is_none() && world.object.has_finalizer);
    // The first one arrives.
    world.queue = Some(Queue::of_another(&[(tag::OWNER, "me")]));
    world.pass(5);
    world.calls();
    assert_eq!(world.reconcile().state, State::Deleting);
    let calls = ["GetQueueUrl", "ListQueueTags", "DeleteQueue", "-finalizer Deleted"];
    assert_eq!(world.calls(), calls);
    assert!(world.queue.is_none());
}

#[test]
fn lost_create_that_was_carried_out_does_not_delay_the_deletion() {
    let mut world = World::new(json!({}));
    world.lose("CreateQueue");
    world.reconcile();
    world.succeed();
    world.pass(1);
    assert!(is_ready(&world.reconcile()));
    world.object.is_deleting = true;
    assert_eq!(world.reconcile().state, State::Deleting);
    assert!(world.queue.is_none() && !world.object.has_finalizer);
}
