//! What others do to queues outside of the cluster.

use std::collections::BTreeMap;

use serde_json::json;

use super::space;
use crate::harness::{EVENT, eventually, ready, text};

#[test]
fn queue_that_is_deleted_outside_comes_back() {
    let space = space("deleted-outside");
    space.credentials();
    let before = space.ready_queue("orders", &json!({"visibilityTimeoutSeconds": 45}), &json!({}));
    let client = space.client();
    space
        .cluster
        .block_on(client.delete(text(&before, "/status/url")))
        .unwrap();
    eventually("the queue is back", || space.attributes("orders").is_some());
    assert_eq!(space.attributes("orders").unwrap()["VisibilityTimeout"], "45");
    eventually("an Event reports it", || {
        let events = space.list(EVENT);
        events
            .iter()
            .any(|event| text(event, "/message").contains("was deleted outside the cluster"))
    });
    assert_eq!(ready(&space.until_queue_ready("orders")).1, "Available");
    let operator = space.cluster.operator.as_ref().unwrap();
    operator.until("/metrics", "the repair is counted", |_, body| {
        body.contains("appdeploy_queue_drift_total{kind=\"deleted\"}")
            && body.contains("appdeploy_queue_calls_total{action=\"CreateQueue\",result=\"success\"}")
    });
}

/// Our own write does not count as drift while it propagates, so the change has to come after that; moto shows writes immediately, and
/// the value is another one than ours.
#[test]
fn setting_that_is_changed_outside_is_restored_and_others_are_kept() {
    let space = space("changed-outside");
    space.credentials();
    let queue = space.ready_queue("orders", &json!({"tags": {"team": "shop"}}), &json!({}));
    let (client, url) = (space.client(), text(&queue, "/status/url"));
    let other: BTreeMap<String, String> = [("DelaySeconds".to_owned(), "7".to_owned())].into();
    space.cluster.block_on(client.set_attributes(url, &other)).unwrap();
    space.set_queue("orders", &json!({"sqs": {"visibilityTimeoutSeconds": 45}}));
    eventually("the setting is as in the spec", || {
        space.attributes("orders").unwrap()["VisibilityTimeout"] == "45"
    });
    assert_eq!(
        space.attributes("orders").unwrap()["DelaySeconds"],
        "7",
        "the spec does not set it"
    );
}

#[test]
fn queue_that_exists_is_a_conflict_until_it_is_adopted() {
    let space = space("conflict");
    space.credentials();
    let client = space.client();
    let attributes: BTreeMap<String, String> = [("VisibilityTimeout".to_owned(), "99".to_owned())].into();
    let name = space.outside("orders");
    let url = space
        .cluster
        .block_on(client.create_queue(&name, &attributes, &BTreeMap::new()))
        .unwrap();
    space.queue("orders", &json!({"visibilityTimeoutSeconds": 45}), &json!({}));
    let queue = space.until_reason("orders", "QueueConflict");
    assert_eq!(space.attributes("orders").unwrap()["VisibilityTimeout"], "99");
    assert_eq!(space.cluster.block_on(client.tags(&url)).unwrap(), BTreeMap::new());
    assert_eq!(
        text(&queue, "/status/cause/next"),
        "kubectl appdeploy queue adopt orders -n conflict"
    );

    space.set_queue("orders", &json!({"adoptionPolicy": "IfExists"}));
    let queue = space.until_queue_ready("orders");
    assert_eq!(space.attributes("orders").unwrap()["VisibilityTimeout"], "45");
    assert_eq!(queue["metadata"]["finalizers"], json!(null), "an adopted queue is kept");
    let tags = space.cluster.block_on(client.tags(&url)).unwrap();
    assert_eq!(tags["appdeploy.dev/adopted-by"], text(&queue, "/metadata/uid"));
}
