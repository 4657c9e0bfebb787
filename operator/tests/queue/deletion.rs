//! Deletions of AppQueues.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use testcluster::queue_servers::ElasticMq;

use super::{SECRET, queue_spec, space};
use crate::harness::{QUEUE, eventually, free_address, text};

#[test]
fn nothing_is_left_outside_of_an_app_queue_that_is_deleted() {
    let space = space("delete");
    space.credentials();
    space.ready_queue("orders", &json!({}), &json!({}));
    space.delete(QUEUE, "orders");
    space.until_gone(QUEUE, "orders");
    assert_eq!(space.attributes("orders"), None);
}

#[test]
fn queue_that_is_retained_is_kept() {
    let space = space("retain");
    space.credentials();
    let queue = space.ready_queue("orders", &json!({}), &json!({"deletionPolicy": "Retain"}));
    assert_eq!(queue["metadata"]["finalizers"], Value::Null);
    space.delete(QUEUE, "orders");
    space.until_gone(QUEUE, "orders");
    assert!(space.attributes("orders").is_some());
}

#[test]
fn deletion_that_cannot_proceed_names_the_command_that_ends_it() {
    let space = space("stuck");
    space.credentials();
    let server = ElasticMq::start(Ipv4Addr::LOCALHOST.into()).unwrap();
    let spec = queue_spec(&server.url(), &json!({}), &json!({}));
    space.create(QUEUE, json!({"metadata": {"name": "orders"}, "spec": spec}));
    space.until_queue_ready("orders");
    drop(server);
    space.delete(QUEUE, "orders");
    let queue = space.until(QUEUE, "orders", "the deletion fails", |queue| {
        text(queue, "/status/cause/message").starts_with("the queue can't be deleted: ")
    });
    assert_eq!(text(&queue, "/status/cause/reason"), "EndpointUnavailable");
    let next = text(&queue, "/status/cause/next");
    assert!(
        next.starts_with("kubectl appdeploy queue delete orders -n stuck --orphan"),
        "{next}"
    );
    space.set_queue("orders", &json!({"deletionPolicy": "Retain"}));
    space.until_gone(QUEUE, "orders");
}

#[test]
fn endpoint_that_is_down_delays_no_other_queue() {
    let space = space("down");
    space.credentials();
    let nowhere = format!("http://{}", free_address());
    for number in 0..20 {
        let spec = queue_spec(&nowhere, &json!({}), &json!({}));
        space.create(
            QUEUE,
            json!({"metadata": {"name": format!("lost-{number}")}, "spec": spec}),
        );
    }
    space.ready_queue("orders", &json!({}), &json!({}));
    space.until_reason("lost-0", "EndpointUnavailable");
    for number in 0..20 {
        space.delete(QUEUE, &format!("lost-{number}"));
    }
}

#[test]
fn namespace_goes_with_its_queues_and_credentials() {
    let space = space("whole-namespace");
    space.credentials();
    space.ready_queue("orders", &json!({}), &json!({}));
    space.delete(SECRET, "sqs");
    space.kubectl(&["delete", "namespace", "whole-namespace", "--wait=false"]);
    eventually("the queue is deleted", || space.attributes("orders").is_none());
}
