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

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use base::Base;
pub use cluster::{Cluster, OPERATOR, await_policy, config};
pub use kind::{
    APP, CLASS, CONFIG_MAP, DEPLOYMENT, EVENT, HPA, INGRESS, Kind, LEASE, POD, PODSET, QUOTA, REPLICA_SET, SERVICE,
    SERVICE_ACCOUNT, VALIDATING_WEBHOOK,
};
pub use namespace::{Namespace, SENTINEL};
pub use operator::Operator;
pub use podset::{count_of, pods_of};
pub use testcluster::port::free_address;
pub use webhooks::Webhooks;

/// How long a test waits for what has to happen. Long, because a machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long nothing has to happen until a test believes that nothing does: longer than the second for which
/// a status may be held back.
pub const QUIET: Duration = Duration::from_secs(3);

/// Whether there is time for what takes minutes: `make test-long`.
pub fn is_long() -> bool {
    std::env::var_os("APPDEPLOY_TEST_LONG").is_some()
}

const GLANCE: Duration = Duration::from_millis(20);
const SLOWEST: Duration = Duration::from_millis(160);

/// What the tests of one binary share while they run, gone with the last of them: a plain static would never
/// be dropped, and would leave its processes behind.
pub struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Returns what is shared; the first one makes it.
    pub fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().unwrap_or_else(|| {
            let new = Arc::new(make());
            *known = Arc::downgrade(&new);
            new
        })
    }
}

/// Waits for what nobody announces.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    let mut pause = GLANCE;
    while !condition() {
        assert!(
            started.elapsed() < PATIENCE,
            "it did not happen within {PATIENCE:?}: {what}"
        );
        std::thread::sleep(pause);
        // Most conditions run kubectl, which other tests pay for.
        pause = (pause * 2).min(SLOWEST);
    }
}

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
pub fn told(app: &Value) -> bool {
    app.pointer("/status/observedGeneration").is_some()
        && app.pointer("/status/observedGeneration") == app.pointer("/metadata/generation")
}
