//! AppQueues and an operator with outdated objects.

use std::net::Ipv4Addr;
use std::sync::Arc;

use fault_proxy::{Action, Requests, Rule, Verb};
use kube::api::Patch;
use serde_json::{Value, json};
use sqs::{AddressPolicy, Clients, Credentials, Endpoint, LimitSettings};
use tempfile::TempDir;
use testcluster::queue_servers::ElasticMq;

use crate::harness::{QUEUE, ready, text};
use crate::lies::{Stage, cluster, watches};

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

/// The deletion of an AppQueue ends with its finalizer. While the watch is late, its queue must not be created again: nothing would
/// delete it. Remedy: the AppQueue is read before each create.
#[test]
fn no_queue_is_created_for_an_app_queue_whose_deletion_is_reported_late() {
    let (server, folder) = service();
    let credentials = format!("--queue-credentials={}", folder.path().display());
    let flags = [
        "--allow-local-queue-endpoints",
        "--external-resync-period=1s",
        &credentials,
    ];
    let stage = Stage::scripted("late-deletion", &flags, |_| {});
    let (shop, proxy) = (&stage.shop, &stage.proxy);
    let spec = json!({"sqs": {"region": "us-east-1", "endpoint": server.url()}});
    shop.create(QUEUE, json!({"metadata": {"name": "orders"}, "spec": spec}));
    let queue = shop.until(QUEUE, "orders", "the queue is ready", is_ready);
    let late = proxy.add(Rule::new(watches(QUEUE), Action::FreezeWatches));
    // A person ends the deletion by hand.
    shop.delete(QUEUE, "orders");
    let none: Patch<Value> = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    shop.patch(QUEUE, "orders", none);
    shop.until_gone(QUEUE, "orders");
    let since = stage.asked();
    let endpoint = Endpoint::parse(&server.url(), "us-east-1").unwrap();
    let credentials = Arc::new(Credentials::new("test".to_owned(), "test".to_owned(), None));
    let client = Clients::new(AddressPolicy::AllowLocal, LimitSettings::default()).client(endpoint, credentials);
    cluster().block_on(client.delete(text(&queue, "/status/url"))).unwrap();
    // The resync does not find the queue.
    stage.until_asked(since, &Requests::with(&[Verb::Get]).on(QUEUE.plural()), 1);
    proxy.remove(late);
    shop.settle();
    assert_eq!(cluster().block_on(client.list("")).unwrap(), [""; 0]);
}
