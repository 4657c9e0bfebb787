//! The scenarios of AppQueues.

use serde_json::{Value, json};

use super::FOREIGN;
use super::snapshot::queues;
use crate::campaign::history::{ObjectVersion, existing, text};
use crate::campaign::kind::{CONFIG_MAP, QUEUE};
use crate::campaign::scenario::{Scenario, Step, UserAction, change, delete, is_ready, ready};
use crate::campaign::service::{Outside, Server};

/// The AppQueue whose queue the operator creates.
const OURS: &str = "orders";

/// Returns all scenarios. Only moto checks credentials; ElasticMQ is closer to SQS otherwise.
pub(crate) fn all() -> Vec<Scenario> {
    let changed = json!({"sqs": {"visibilityTimeoutSeconds": 50, "tags": {"team": "store"}}});
    let on = |server, name, steps| Scenario::new(name, steps).with_queues(server);
    vec![
        on(Server::ElasticMq, "queue-create", vec![foreign(), ours()]),
        on(
            Server::ElasticMq,
            "queue-change",
            vec![ours(), change(QUEUE, OURS, changed)],
        ),
        on(
            Server::ElasticMq,
            "queue-outside",
            vec![ours(), outside(Outside::DeleteQueue(OURS), are_ready)],
        ),
        on(
            Server::ElasticMq,
            "queue-delete",
            vec![
                foreign(),
                ours(),
                delete(QUEUE, OURS, is_deleted),
                delete(QUEUE, FOREIGN, is_deleted),
            ],
        ),
        on(
            Server::Moto,
            "queue-credentials",
            vec![
                ours(),
                outside(Outside::Revoke, are_refused),
                outside(Outside::Restore, are_ready),
            ],
        ),
        on(
            Server::Moto,
            "queue-stuck",
            vec![
                ours(),
                outside(Outside::Revoke, are_refused),
                delete(QUEUE, OURS, is_stuck),
                outside(Outside::Restore, are_deleted),
            ],
        ),
    ]
}

/// Creates an AppQueue.
fn ours() -> Step {
    create(OURS, is_ready)
}

/// Creates an AppQueue whose name a third-party queue has.
fn foreign() -> Step {
    create(FOREIGN, is_conflict)
}

fn create(name: &str, settled: fn(&[ObjectVersion], &Value) -> bool) -> Step {
    let sqs = json!({"visibilityTimeoutSeconds": 45, "tags": {"team": "shop"}});
    Step {
        user_action: UserAction::Create(QUEUE, json!({"metadata": {"name": name}, "spec": {"sqs": sqs}})),
        settled,
    }
}

fn outside(action: Outside, settled: fn(&[ObjectVersion], &Value) -> bool) -> Step {
    Step {
        user_action: UserAction::Outside(action),
        settled,
    }
}

fn is_conflict(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let seen = existing.get(text(left, "/metadata/uid"));
    seen.is_some_and(|seen| ready(&seen.object) == Some(("False", "QueueConflict")))
}

fn are_ready(history: &[ObjectVersion], _: &Value) -> bool {
    let queues = queues(history);
    queues.iter().all(|seen| ready(&seen.object) == Some(("True", "")))
}

fn are_refused(history: &[ObjectVersion], _: &Value) -> bool {
    let is_refused = |seen: &&ObjectVersion| ready(&seen.object) == Some(("False", "CredentialsRefused"));
    queues(history).iter().all(is_refused)
}

/// Returns whether the AppQueue still exists, and its status says why.
fn is_stuck(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let seen = existing.get(text(left, "/metadata/uid"));
    seen.is_some_and(|seen| {
        let is_deleting = seen.object.pointer("/metadata/deletionTimestamp").is_some();
        let message = text(&seen.object, "/status/cause/message");
        is_deleting && message.starts_with("the queue can't be deleted")
    })
}

/// Returns whether the AppQueue and its `ConfigMap` were deleted.
fn is_deleted(history: &[ObjectVersion], left: &Value) -> bool {
    let existing = existing(history);
    let uid = text(left, "/metadata/uid");
    let is_owned = |seen: &ObjectVersion| seen.controllers().iter().any(|owner| text(owner, "/uid") == uid);
    !existing.contains_key(uid) && !existing.values().any(|seen| is_owned(seen))
}

fn are_deleted(history: &[ObjectVersion], _: &Value) -> bool {
    let existing = existing(history);
    let is_of_queues = |seen: &&ObjectVersion| [QUEUE.plural(), CONFIG_MAP.plural()].contains(&seen.resource);
    !existing.into_values().any(|seen| is_of_queues(&seen))
}
