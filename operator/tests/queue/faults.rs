//! Faults of a queue service that no server has: a proxy in front of moto plays them.

use fault_proxy::{Action, Answer, QueueProxy, Record, Requests, Rule};
use kube::api::Patch;
use serde_json::{Value, json};

use super::{Space, queue_spec, space};
use crate::harness::{EVENT, PATIENCE, QUEUE, text};

/// A namespace, and a proxy in front of its queue service.
struct Stage {
    space: Space,
    proxy: QueueProxy,
}

impl Stage {
    fn new(name: &str) -> Self {
        let space = space(name);
        space.credentials();
        let proxy = QueueProxy::before(space.moto().address()).unwrap();
        Self { space, proxy }
    }

    /// Creates the AppQueue `orders`, whose calls go through the proxy.
    fn create_orders(&self) -> Value {
        let sqs = json!({"visibilityTimeoutSeconds": 45});
        let spec = queue_spec(&self.proxy.url(), &sqs, &json!({}));
        self.space
            .create(QUEUE, json!({"metadata": {"name": "orders"}, "spec": spec}))
    }

    fn ready_orders(&self) -> Value {
        self.create_orders();
        self.space.until_queue_ready("orders")
    }

    /// Returns how often an action was called.
    fn count(&self, action: &str) -> usize {
        count(&self.proxy.records(), action)
    }
}

fn count(records: &[Record], action: &str) -> usize {
    let called = records.iter().filter(|record| record.request.resource == action);
    called.count()
}

#[test]
fn name_that_is_refused_after_a_deletion_is_reported_and_created_later() {
    let stage = Stage::new("cooldown");
    let queue = stage.ready_orders();
    let refused = Answer::queue_error(400, "QueueDeletedRecently", "wait 60 seconds");
    let create = Requests::all().on("CreateQueue");
    let rule = stage.proxy.add(Rule::new(create, Action::Answer(refused)));
    let client = stage.space.client();
    stage
        .space
        .cluster
        .block_on(client.delete(text(&queue, "/status/url")))
        .unwrap();
    let reported = stage.space.until_reason("orders", "QueueDeletedRecently");
    assert_eq!(text(&reported, "/status/cause/reason"), "QueueDeletedRecently");
    assert_eq!(stage.proxy.hits(rule), 1, "it is not tried again before its timer");
    stage.proxy.remove(rule);
    stage.space.until_queue_ready("orders");
    assert_eq!(stage.space.attributes("orders").unwrap()["VisibilityTimeout"], "45");
}

/// The finalizer stays until a create can't arrive any more.
#[test]
fn create_that_arrives_after_the_deletion_leaves_no_queue() {
    let stage = Stage::new("late-create");
    let create = Requests::all().on("CreateQueue");
    let held = stage.proxy.add(Rule::new(create, Action::Hold));
    stage.create_orders();
    stage.proxy.wait_for_hits(PATIENCE, held, 1).unwrap();
    stage.space.delete(QUEUE, "orders");
    let before = stage.proxy.records().len();
    let is_looked_for = |records: &[Record]| count(&records[before..], "GetQueueUrl") > 0;
    stage.proxy.wait_for(PATIENCE, is_looked_for).unwrap();
    assert_eq!(stage.space.attributes("orders"), None, "the create has not arrived");
    let deleting = stage.space.get(QUEUE, "orders");
    assert_eq!(deleting["metadata"]["finalizers"], json!(["appdeploy.dev/queue"]));
    stage.proxy.remove(held);
    stage.space.until_gone(QUEUE, "orders");
    assert_eq!(stage.space.attributes("orders"), None);
    assert_eq!(stage.count("DeleteQueue"), 1);
}

#[test]
fn throttling_is_reported_and_its_pause_is_respected() {
    let stage = Stage::new("throttled");
    stage.ready_orders();
    let throttled = Answer::queue_error(400, "RequestThrottled", "slow down").header("Retry-After", "2");
    let rule = stage.proxy.add(Rule::new(Requests::all(), Action::Answer(throttled)));
    stage.space.until_reason("orders", "QueueThrottled");
    stage.proxy.wait_for_hits(PATIENCE, rule, 3).unwrap();
    let records = stage.proxy.records();
    let refused: Vec<&Record> = records.iter().filter(|record| record.done.is_some()).collect();
    for pair in refused.windows(2) {
        assert!(pair[1].at - pair[0].at >= std::time::Duration::from_secs(2), "{pair:?}");
    }
    stage.proxy.remove(rule);
    stage.space.until_queue_ready("orders");
}

/// SQS shows a change after up to a minute.
#[test]
fn own_changes_are_neither_repeated_nor_drift_while_reads_lag() {
    let stage = Stage::new("lagging");
    stage.ready_orders();
    let lag = Action::Lag(Answer::queue_error(400, "QueueDoesNotExist", "no such queue"));
    let read = Requests::all().on("GetQueueAttributes");
    let spec = json!({"sqs": {"visibilityTimeoutSeconds": 50}});
    stage
        .space
        .patch(QUEUE, "orders", Patch::Merge(json!({ "spec": spec })));
    let is_written = |records: &[Record]| count(records, "SetQueueAttributes") > 0;
    stage.proxy.wait_for(PATIENCE, is_written).unwrap();
    let lagging = stage.proxy.add(Rule::new(read, lag));
    stage.proxy.wait_for_hits(PATIENCE, lagging, 3).unwrap();
    stage.space.until_queue_ready("orders");
    assert_eq!(stage.count("SetQueueAttributes"), 1);
    let events = stage.space.list(EVENT);
    let drift = events.iter().filter(|event| event["reason"] == "Drift").count();
    assert_eq!(drift, 0, "{events:#?}");
    stage.proxy.remove(lagging);
    assert_eq!(stage.space.attributes("orders").unwrap()["VisibilityTimeout"], "50");
}
