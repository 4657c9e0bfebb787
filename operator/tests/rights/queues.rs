//! What is done to make the operator need a right for AppQueues, and what is waited for when it has the right.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use kube::api::Patch;
use serde_json::{Value, json};
use sqs::{AddressPolicy, Clients, Credentials, Endpoint, LimitSettings};
use tempfile::TempDir;
use testcluster::queue_servers::ElasticMq;

use crate::harness::{CONFIG_MAP, Namespace, QUEUE, is_observed, ready, text};

const OUTPUT: &str = "orders-queue";

/// A queue service, and a folder with credentials for it.
struct Service {
    server: ElasticMq,
    credentials: TempDir,
}

static SERVICE: LazyLock<Service> = LazyLock::new(|| {
    let credentials = tempfile::tempdir().unwrap();
    for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        std::fs::write(credentials.path().join(key), "test").unwrap();
    }
    Service {
        server: ElasticMq::start(Ipv4Addr::LOCALHOST.into()).unwrap(),
        credentials,
    }
});

/// Returns the flags of an operator that can use the service.
pub fn flags() -> [String; 3] {
    [
        "--allow-local-queue-endpoints".to_owned(),
        "--external-resync-period=1s".to_owned(),
        format!("--queue-credentials={}", SERVICE.credentials.path().display()),
    ]
}

pub fn make_queue(space: &Namespace) {
    let spec = json!({"sqs": {"region": "us-east-1", "endpoint": SERVICE.server.url()}});
    space.create(QUEUE, json!({"metadata": {"name": "orders"}, "spec": spec}));
}

pub fn queue_is_ready(space: &Namespace) {
    space.until(QUEUE, "orders", "the queue is ready", |queue| ready(queue).0 == "True");
    space.until_there(CONFIG_MAP, OUTPUT);
}

/// Waits until the cause has this reason.
pub fn queue_says(space: &Namespace, reason: &str) {
    let says = |queue: &Value| is_observed(queue) && text(queue, "/status/cause/reason") == reason;
    space.until(QUEUE, "orders", &format!("the cause is {reason}"), says);
}

/// Deletes the queue outside of the cluster.
pub fn lose_the_queue(space: &Namespace) {
    make_queue(space);
    queue_is_ready(space);
    let endpoint = Endpoint::parse(&SERVICE.server.url(), "us-east-1").unwrap();
    let credentials = Credentials::new("test".to_owned(), "test".to_owned(), None);
    let clients = Clients::new(AddressPolicy::AllowLocal, LimitSettings::default());
    let client = clients.client(endpoint, credentials.into());
    let url = text(&space.get(QUEUE, "orders"), "/status/url").to_owned();
    space.cluster.block_on(client.delete(&url)).unwrap();
}

pub fn output_is_recreated(space: &Namespace) {
    queue_is_ready(space);
    let before = space.get(CONFIG_MAP, OUTPUT);
    space.delete(CONFIG_MAP, OUTPUT);
    space.until_back(CONFIG_MAP, &before);
}

pub fn take_the_name_of_the_output(space: &Namespace) {
    space.create(CONFIG_MAP, json!({"metadata": {"name": OUTPUT}, "data": {"a": "b"}}));
    make_queue(space);
}

pub fn change_the_output(space: &Namespace) {
    make_queue(space);
    queue_is_ready(space);
    space.patch(CONFIG_MAP, OUTPUT, Patch::Merge(json!({"data": {"region": "changed"}})));
}

pub fn output_is_restored(space: &Namespace) {
    space.until(CONFIG_MAP, OUTPUT, "it is restored", |output| {
        text(output, "/data/region") == "us-east-1"
    });
}
