//! The rules of AppQueues, as the plugin evaluates them without a cluster.

#![cfg(feature = "cel")]
#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use crd::AppQueue;
use serde_json::{Value, json};

fn queue(fields: Value) -> AppQueue {
    let mut sqs = json!({"region": "us-east-1"});
    sqs.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let object = json!({"metadata": {"name": "orders", "namespace": "shop"}, "spec": {"sqs": sqs}});
    serde_json::from_value(object).unwrap()
}

fn refused(result: Result<(), impl std::fmt::Display>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "accepted".to_owned())
}

#[test]
fn bad_fields_are_rejected_with_what_to_write_instead() {
    let server = "an endpoint is a URL of a server";
    for (fields, sentence) in [
        (json!({"region": "US"}), "write it like us-east-1"),
        (json!({"endpoint": "ftp://x"}), server),
        (json!({"endpoint": "http://user@x"}), server),
        (json!({"endpoint": "http://x/path"}), server),
        (json!({"queueName": "a b"}), "write it like shop_orders"),
        (json!({"queueName": "a.fifo"}), "set spec.sqs.type to FIFO"),
        (
            json!({"queueName": "a".repeat(76), "type": "FIFO"}),
            "use at most 75 characters",
        ),
        (json!({"tags": {"appdeploy.dev/uid": "x"}}), "are reserved"),
        (json!({"tags": {"aws:x": "x"}}), "are reserved"),
        (
            json!({"deadLetter": {"queueRef": {"name": "A"}, "maxReceiveCount": 5}}),
            "the name of an AppQueue",
        ),
    ] {
        let message = refused(queue(fields.clone()).validate_cel());
        assert!(message.contains(sentence), "{fields}: {message}");
    }
    for fields in [
        json!({}),
        json!({"endpoint": "http://sqs.example:9324", "type": "FIFO", "queueName": "a.fifo", "tags": {"team": "a"}}),
        json!({"endpoint": "https://[::1]:9324/"}),
        json!({"deadLetter": {"queueRef": {"name": "dead"}, "maxReceiveCount": 5}}),
    ] {
        assert_eq!(refused(queue(fields.clone()).validate_cel()), "accepted", "{fields}");
    }
}

#[test]
fn fields_that_identify_the_queue_are_immutable() {
    let old = queue(json!({"endpoint": "http://a"}));
    for (fields, field) in [
        (json!({"endpoint": "http://a", "region": "b"}), "region"),
        (json!({"endpoint": "http://b"}), "endpoint"),
        (json!({}), "endpoint"),
        (json!({"endpoint": "http://a", "queueName": "x"}), "queueName"),
        (json!({"endpoint": "http://a", "type": "FIFO"}), "type"),
    ] {
        let message = refused(queue(fields.clone()).validate_cel_update(&old));
        let sentence = format!("{field} can't be changed");
        assert!(message.contains(&sentence), "{fields}: {message}");
    }
    let same = queue(json!({"endpoint": "http://a", "type": "Standard", "delaySeconds": 5}));
    assert_eq!(refused(same.validate_cel_update(&old)), "accepted");
}
