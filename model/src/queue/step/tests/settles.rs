//! From random states, with random failures, each reconcile comes to an end, and one without failures reaches the desired
//! state.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// All calls.
const ACTIONS: [&str; 8] = [
    "GetQueueUrl",
    "GetQueueAttributes",
    "ListQueueTags",
    "CreateQueue",
    "SetQueueAttributes",
    "TagQueue",
    "UntagQueue",
    "DeleteQueue",
];

fn error() -> impl Strategy<Value = CallError> {
    select(vec![
        CallError::NoCredentials(CredentialsError::NotConfigured),
        CallError::NoSuchQueue,
        CallError::DeletedRecently,
        CallError::AttributesDiffer,
        CallError::Throttled { retry_after: None },
        CallError::Denied("no".into()),
        CallError::Refused("no".into()),
        CallError::Unavailable("no".into()),
        CallError::Lost("no".into()),
    ])
}

fn queue() -> impl Strategy<Value = Option<Queue>> {
    let uid = || prop::option::of(select(vec!["me", "other"]));
    let tags = (uid(), uid(), any::<bool>()).prop_map(|(owner, adopter, has_team)| {
        let team = has_team.then_some("b");
        let all = [(tag::OWNER, owner), (tag::ADOPTED_BY, adopter), ("team", team)];
        let all = all.into_iter().filter_map(|(key, value)| Some((key, value?)));
        all.collect::<Vec<_>>()
    });
    let queue = (tags, select(vec!["0", "5", "9"])).prop_map(|(tags, delay)| {
        let mut queue = Queue::of_another(&tags);
        queue.attributes.insert("DelaySeconds".into(), delay.into());
        queue
    });
    prop::option::of(queue)
}

#[derive(Debug, Clone)]
enum Event {
    Fail(&'static str, CallError),
    Lose(&'static str),
    Succeed,
    Restart,
    Pass(i64),
    Outside(Option<Queue>),
    Delete,
    Deletion(Option<DeletionPolicy>),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (select(ACTIONS.to_vec()), error()).prop_map(|(action, error)| Event::Fail(action, error)),
        1 => select(ACTIONS.to_vec()).prop_map(Event::Lose),
        2 => Just(Event::Succeed),
        1 => Just(Event::Restart),
        3 => select(vec![5, 60, 900]).prop_map(Event::Pass),
        2 => queue().prop_map(Event::Outside),
        1 => Just(Event::Delete),
        1 => policy().prop_map(Event::Deletion),
    ]
}

fn policy() -> impl Strategy<Value = Option<DeletionPolicy>> {
    select(vec![None, Some(DeletionPolicy::Delete), Some(DeletionPolicy::Retain)])
}

fn apply(world: &mut World, event: Event) {
    match event {
        Event::Fail(action, error) => world.fail(action, &error),
        Event::Lose(action) => world.lose(action),
        Event::Succeed => world.succeed(),
        Event::Restart => world.restart(),
        Event::Pass(seconds) => world.pass(seconds),
        Event::Outside(queue) => world.queue = queue,
        Event::Delete => world.object.is_deleting = true,
        Event::Deletion(policy) => world.desired.deletion = policy,
    }
}

proptest! {
    #[test]
    fn reconciles_end_and_reach_the_desired_state(
        events in prop::collection::vec(event(), 0..12),
        adopts in any::<bool>(),
        is_live in any::<bool>(),
        deletion in policy(),
    ) {
        let mut world = World::new(json!({"delaySeconds": 5, "tags": {"team": "a"}}));
        world.is_live = is_live;
        world.desired.deletion = deletion;
        if adopts {
            world.desired.adoption = AdoptionPolicy::IfExists;
        }
        for event in events {
            apply(&mut world, event);
            let before = world.queue.clone();
            world.reconcile(); // Panics if there is no end.
            if let Some(before) = before.filter(|queue| !Claim::of(&queue.tags, "me").is_ours()) {
                let may_adopt = adopts && !world.object.is_deleting;
                prop_assert!(may_adopt || world.queue == Some(before), "a third-party queue was changed");
            }
        }
        world.succeed();
        for _ in 0..3 {
            world.pass(1000);
            world.reconcile();
        }
        let is_ours = world.queue.as_ref().is_some_and(|queue| Claim::of(&queue.tags, "me").is_ours());
        if world.object.is_deleting {
            prop_assert!(!world.object.has_finalizer);
        } else if is_ours {
            let queue = world.queue.as_ref().unwrap();
            prop_assert_eq!((&*queue.attributes["DelaySeconds"], &*queue.tags["team"]), ("5", "a"));
            world.calls();
            world.pass(1000);
            world.reconcile();
            prop_assert_eq!(world.calls(), ["GetQueueAttributes", "ListQueueTags"], "a steady queue costs no write");
        } else {
            prop_assert!(world.queue.is_some(), "a queue that was deleted is created again");
        }
    }
}
