//! The credentials of AppQueues.

use kube::api::Patch;
use serde_json::json;

use super::{SECRET, Space, space};
use crate::harness::{ready, text};

impl Space {
    /// Changes the secret key in the Secret.
    pub(super) fn set_secret(&self, value: &str) {
        let data = json!({"AWS_SECRET_ACCESS_KEY": value});
        self.patch(SECRET, "sqs", Patch::Merge(json!({"stringData": data})));
    }
}

#[test]
fn missing_credentials_are_reported_with_the_next_command() {
    let space = space("no-secret");
    space.grant();
    space.queue("orders", &json!({}), &json!({}));
    let queue = space.until_reason("orders", "CredentialsMissing");
    let next = text(&queue, "/status/cause/next");
    assert!(
        next.starts_with("kubectl create secret generic sqs -n no-secret"),
        "{next}"
    );
    space.secret(space.moto().key());
    space.until_queue_ready("orders");
}

#[test]
fn operator_that_may_not_read_the_secret_says_so() {
    let space = space("no-right");
    space.secret(space.moto().key());
    space.queue("orders", &json!({}), &json!({}));
    let queue = space.until_reason("orders", "CredentialsForbidden");
    let next = text(&queue, "/status/cause/next");
    assert_eq!(next, "kubectl appdeploy queue create orders -n no-right --grant-only");
    space.grant();
    space.until_queue_ready("orders");
}

#[test]
fn credentials_that_are_replaced_are_read_again() {
    let space = space("refused");
    space.secret(space.moto().key());
    space.set_secret("wrong");
    space.grant();
    space.queue("orders", &json!({}), &json!({}));
    let queue = space.until_reason("orders", "CredentialsRefused");
    assert_eq!(ready(&queue).0, "False");
    let right = space.moto().key().secret.clone();
    assert!(
        !queue.to_string().contains("wrong"),
        "no part of a Secret is in the status"
    );
    space.set_secret(&right);
    space.until_queue_ready("orders");
}
