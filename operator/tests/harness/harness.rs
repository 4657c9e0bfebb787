//! What the tests share: a real API server, the operator as its own process, and conditions to await.
//!
//! A test is a sequence of steps, so everything here is synchronous. Nothing waits for a time where it can
//! wait for an event.

#![allow(dead_code, unused_imports, reason = "the benchmark uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "clippy takes what tests share for code"
)]

mod base;
mod cluster;
mod kind;
mod namespace;
mod operator;
mod podset;
mod rights;
mod webhooks;

use std::time::Duration;

use serde_json::{Value, json};

pub use base::{Base, build_operator, run};
pub use cluster::{Cluster, await_policy, config};
pub use kind::{
    APP, CLASS, CONFIG_MAP, DEPLOYMENT, EVENT, HPA, INGRESS, Kind, LEASE, POD, POD_MONITOR, PODSET, QUEUE, QUOTA,
    REPLICA_SET, SERVICE, SERVICE_ACCOUNT, VALIDATING_WEBHOOK,
};
pub use namespace::{Namespace, SENTINEL};
pub use operator::Operator;
pub use podset::{count_of, pods_of};
pub use testcluster::checkout::OPERATOR_USER as OPERATOR;
pub use testcluster::port::free_address;
pub use testcluster::shared::Shared;
pub use testcluster::wait::eventually;
pub use webhooks::Webhooks;

/// How long a test waits before it fails.
pub const PATIENCE: Duration = testcluster::wait::TIMEOUT;

/// How long a test waits to see that nothing happens: longer than the second for which a status may be delayed.
pub const QUIET: Duration = Duration::from_secs(3);

/// Whether there is time for what takes minutes: `make test-long`.
pub fn is_long() -> bool {
    std::env::var_os("APPDEPLOY_TEST_LONG").is_some()
}

const GLANCE: Duration = Duration::from_millis(20);

/// Returns the spec of an application with all three children.
pub fn web() -> Value {
    json!({"image": "nginx:1.27", "port": 80})
}

/// Returns the status of the Ready condition and its reason, empty if there is none.
pub fn ready(app: &Value) -> (&str, &str) {
    condition(app, "Ready").map_or(("", ""), |ready| (text(ready, "/status"), text(ready, "/reason")))
}

/// Returns a condition.
pub fn condition<'a>(app: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = app.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Returns the text that a JSON pointer leads to, empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns an object's UID.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether the operator has said all there is to say of the current spec.
pub fn is_observed(app: &Value) -> bool {
    app.pointer("/status/observedGeneration").is_some()
        && app.pointer("/status/observedGeneration") == app.pointer("/metadata/generation")
}
