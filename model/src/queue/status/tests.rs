use serde_json::{Value, json};

use super::*;
use crate::queue::View;
use crate::valid::Invalid;

fn queue(change: impl FnOnce(&mut Value)) -> AppQueue {
    let mut queue = json!({
        "metadata": {"name": "orders", "namespace": "shop", "uid": "u1", "generation": 2},
        "spec": {"sqs": {"region": "us-east-1"}}
    });
    change(&mut queue);
    serde_json::from_value(queue).unwrap()
}

fn outcome(state: State) -> Outcome {
    let drift = Vec::new();
    Outcome { state, drift }
}

fn ready(depth: i64) -> Outcome {
    outcome(State::Ready(View {
        url: "http://sqs/orders".into(),
        arn: Some("arn:orders".into()),
        depth: Some(depth),
    }))
}

/// Returns the conditions that are set, the reason, the message and the command.
fn line(status: &AppQueueStatus) -> String {
    let types = status.conditions.iter().map(|c| format!("{}={}", c.type_, c.status));
    let types: Vec<_> = types.collect();
    let ready = &status.conditions[0];
    let next = status.cause.as_ref().and_then(|cause| cause.next.as_deref());
    format!(
        "{}: {} ({})\n  {}",
        ready.reason,
        ready.message,
        types.join(", "),
        next.unwrap_or("-")
    )
}

fn lines(queue: &AppQueue, states: Vec<State>) -> String {
    let lines = states.into_iter().map(|state| {
        let outcome = outcome(state);
        line(&status(queue, Some(&outcome), None, Timestamp::UNIX_EPOCH))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_state_has_a_reason_and_a_command() {
    let name = || "dead".to_owned();
    let secret = || "sqs".to_owned();
    let failed = State::Failed;
    let credentials = |error| State::Failed(CallError::NoCredentials(error));
    let dead_letter = |state| State::DeadLetter { state, view: None };
    let states = vec![
        ready(0).state,
        State::Propagating,
        dead_letter(DeadLetterState::NotReady { name: name() }),
        dead_letter(DeadLetterState::Missing { name: name() }),
        dead_letter(DeadLetterState::Unsuitable {
            name: name(),
            why: "both queues must have the same type",
        }),
        State::Conflict(Conflict::NotManaged),
        State::Conflict(Conflict::Owned { uid: "u2".into() }),
        credentials(CredentialsError::NotConfigured),
        credentials(CredentialsError::SecretMissing(secret())),
        credentials(CredentialsError::KeyMissing {
            secret: secret(),
            key: "AWS_ACCESS_KEY_ID",
        }),
        credentials(CredentialsError::SecretForbidden(secret())),
        credentials(CredentialsError::ForeignName("shop_".into())),
        failed(CallError::Denied("InvalidClientTokenId".into())),
        failed(CallError::DeletedRecently),
        failed(CallError::Throttled { retry_after: None }),
        failed(CallError::Refused("DelaySeconds".into())),
        failed(CallError::Unavailable("connection refused".into())),
        failed(CallError::Lost("timeout".into())),
    ];
    insta::assert_snapshot!(lines(&queue(|_| ()), states));
}

#[test]
fn blocked_deletion_shows_the_command_that_ends_it() {
    let deleting = queue(|queue| queue["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    let states = vec![
        State::Deleting,
        State::Propagating,
        State::Failed(CallError::NoCredentials(CredentialsError::SecretMissing("sqs".into()))),
        State::Failed(CallError::Unavailable("connection refused".into())),
    ];
    insta::assert_snapshot!(lines(&deleting, states));
}

#[test]
fn failures_of_the_api_server_are_reported() {
    let failures = [
        Failure::Invalid(Invalid(vec!["spec.sqs.region: invalid".into()])),
        Failure::Unreadable("missing field".into()),
        Failure::NameConflict {
            kind: "ConfigMap",
            name: "orders-queue".into(),
            owner: None,
        },
        Failure::Rejected {
            kind: "ConfigMap",
            name: "orders-queue".into(),
            message: "denied".into(),
        },
        Failure::Forbidden("configmaps".into()),
        Failure::NamespaceTerminating,
        Failure::TimedOut { seconds: 25 },
        Failure::Panicked,
    ];
    let queue = queue(|_| ());
    let lines = failures.map(|failure| line(&unfinished(&queue, &failure, Timestamp::UNIX_EPOCH)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn status_has_the_address_also_while_the_queue_is_not_known() {
    let first = status(&queue(|_| ()), Some(&ready(5)), None, Timestamp::UNIX_EPOCH);
    assert_eq!((first.observed_generation, first.approximate_depth), (Some(2), Some(5)));
    assert_eq!(first.url.as_deref(), Some("http://sqs/orders"));
    let stored = AppQueue {
        status: Some(first.clone()),
        ..queue(|_| ())
    };
    let later = Timestamp::from_second(60).unwrap();
    let down = outcome(State::Failed(CallError::Unavailable("refused".into())));
    let failed = status(&stored, Some(&down), None, later);
    assert_eq!((&failed.url, &failed.arn), (&first.url, &first.arn));
    assert_eq!(failed.approximate_depth, Some(5));
    // The same result is the same status.
    assert_eq!(status(&stored, Some(&ready(5)), None, later), first);
}

#[test]
fn depth_is_written_when_its_number_of_digits_changes() {
    let depth = |stored: i64, found: i64| {
        let queue = queue(|queue| queue["status"] = json!({"approximateDepth": stored}));
        let found = status(&queue, Some(&ready(found)), None, Timestamp::UNIX_EPOCH);
        found.approximate_depth.unwrap()
    };
    for (stored, found, written) in [
        (0, 0, 0),
        (0, 1, 1),
        (1, 9, 1),
        (9, 10, 10),
        (10, 99, 10),
        (99, 100, 100),
        (100, 0, 0),
    ] {
        assert_eq!(depth(stored, found), written, "{stored} {found}");
    }
}
