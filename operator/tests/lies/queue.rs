//! AppQueues and an operator with outdated objects.

use std::net::Ipv4Addr;
use std::sync::Arc;

use fault_proxy::{Action, Record, Requests, Rule, Verb};
use serde_json::{Value, json};
use sqs::{AddressPolicy, Clients, Credentials, Endpoint, LimitSettings};
use tempfile::TempDir;
use testcluster::queue_servers::ElasticMq;

use crate::harness::{Operator, PATIENCE, QUEUE, ready};
use crate::lies::{Stage, cluster, of, watches, without_initial_events};

/// A queue service, and a folder with credentials for it.
fn service() -> (ElasticMq, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        std::fs::write(folder.path().join(key), "test").unwrap();
    }
    (ElasticMq::start(Ipv4Addr::LOCALHOST.into()).unwrap(), folder)
}

fn is_ready(queue: &Value) -> bool {
    ready(queue).0 == "True"
}

/// Remedy: a change of an AppQueue, also by the operator itself, wakes those of which it is the dead letter queue.
#[test]
fn queue_does_not_wait_for_a_resync_after_its_dead_letter_queue_is_ready() {
    let (server, folder) = service();
    let credentials = format!("--queue-credentials={}", folder.path().display());
    let flags = [
        "--allow-local-queue-endpoints",
        "--external-resync-period=1h",
        &credentials,
    ];
    let stage = Stage::scripted("dead-letter", &flags, |_| {});
    let shop = &stage.shop;
    let sqs = json!({"region": "us-east-1", "endpoint": server.url()});
    let mut orders = sqs.clone();
    orders["deadLetter"] = json!({"queueRef": {"name": "dead"}, "maxReceiveCount": 3});
    shop.create(QUEUE, json!({"metadata": {"name": "orders"}, "spec": {"sqs": orders}}));
    shop.until(QUEUE, "orders", "the dead letter queue is missing", |queue| {
        ready(queue).1 == "DeadLetterMissing"
    });
    shop.create(QUEUE, json!({"metadata": {"name": "dead"}, "spec": {"sqs": sqs}}));
    shop.until(QUEUE, "orders", "the queue is ready", is_ready);
}

/// The deletion of an AppQueue ends with its finalizer. An operator with an older list must not create the queue again: nothing
/// would delete it. Remedy: the AppQueue is read before each create.
#[test]
fn operator_with_an_old_list_creates_no_queue_of_a_deleted_app_queue() {
    let (server, folder) = service();
    let credentials = format!("--queue-credentials={}", folder.path().display());
    let flags = ["--allow-local-queue-endpoints", &credentials];
    let stage = Stage::scripted("old-queues", &flags, without_initial_events);
    stage.operator.until_ready();
    let spec = json!({"sqs": {"region": "us-east-1", "endpoint": server.url()}});
    stage
        .shop
        .create(QUEUE, json!({"metadata": {"name": "orders"}, "spec": spec}));
    stage.shop.until(QUEUE, "orders", "the queue is ready", is_ready);
    let Stage { operator, proxy, shop } = stage;
    let next = |operator: Operator| {
        operator.kill();
        let flags: Vec<&str> = ["--watch-namespace", "old-queues"].into_iter().chain(flags).collect();
        let next = cluster().spawn_operator_behind(&proxy, &flags);
        next.until_ready();
        next
    };
    // Its list is the old one.
    let operator = next(operator);
    shop.delete(QUEUE, "orders");
    shop.until_gone(QUEUE, "orders");
    let lists = Requests::with(&[Verb::List]).on(QUEUE.plural());
    proxy.add(Rule::new(lists, Action::ServeList(2)));
    proxy.add(Rule::new(watches(QUEUE), Action::FreezeWatches));
    let since = proxy.records().len();
    let _operator = next(operator);
    let gets = Requests::with(&[Verb::Get]).on(QUEUE.plural());
    let has_read = |records: &[Record]| !of(&records[since..], &gets).is_empty();
    proxy.wait_for(PATIENCE, has_read).unwrap();
    proxy.clear();
    shop.settle();
    let endpoint = Endpoint::parse(&server.url(), "us-east-1").unwrap();
    let credentials = Arc::new(Credentials::new("test".to_owned(), "test".to_owned(), None));
    let client = Clients::new(AddressPolicy::AllowLocal, LimitSettings::default()).client(endpoint, credentials);
    assert_eq!(cluster().block_on(client.list("")).unwrap(), [""; 0]);
}
