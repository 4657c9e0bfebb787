//! Pods are created, each once, whatever happens in between.

use std::time::Duration;

use fault_proxy::Proxy;
use fault_proxy::{Action, Requests, Rule, Verb};
use serde_json::json;

use crate::harness::{OPERATOR, PATIENCE, POD, PODSET, count_of};
use crate::podset::{bare, operator_of, pod_creates, with_nodes, without_nodes};

/// Row 1. On nodes, so that the watch reports many changes of the pods.
#[test]
fn each_pod_is_created_once_and_deleted_once() {
    let space = with_nodes("once");
    let mark = space.mark();
    space.ready_podset("web", json!({"replicas": 20}));
    let asked = space.asked_since(mark).on("pods");
    assert_eq!(asked.clone().tally(), [("create pods".to_owned(), 20)].into());
    assert_eq!(asked.failed().count(), 0);
    assert_eq!(space.pods().len(), 20);

    let mark = space.mark();
    space.set_podset("web", json!({"replicas": 15}));
    space.until_podset("web", "five are deleted", |set| {
        count_of(set, "replicas") == 15 && count_of(set, "terminatingReplicas") == 0
    });
    let asked = space.asked_since(mark).on("pods");
    assert_eq!(asked.clone().tally(), [("delete pods".to_owned(), 5)].into());
    assert_eq!(asked.failed().count(), 0);
    assert_eq!(space.pods().len(), 15);
}

/// Row 2. A set of which something is remembered costs reads.
#[test]
fn recreated_set_costs_as_much_as_the_first_one() {
    let (_operator, space) = without_nodes("afresh");
    space.podset_of("web", json!({"replicas": 3}), &["web-0", "web-1", "web-2"]);
    space.delete(PODSET, "web");
    // The set is no longer there to let them go.
    for pod in ["web-0", "web-1", "web-2"] {
        space.label_pod(pod, crd::label::PODSET, json!(null));
        space.delete(POD, pod);
    }
    // All events about them were received when a later set is reported.
    space.podset_of("later", json!({}), &["later-0"]);
    let mark = space.mark();
    space.podset_of("web", json!({"replicas": 3}), &["web-0", "web-1", "web-2"]);
    let expected = [("create pods".to_owned(), 3), ("patch podsets/status".to_owned(), 1)];
    assert_eq!(space.asked_since(mark).tally(), expected.into());
}

/// Row 2. The operator is killed at any time, also while creates are running whose answers are lost.
#[test]
fn no_pod_is_created_twice_when_the_operator_is_killed() {
    let space = bare("killed");
    let proxy = Proxy::before(&space.cluster.control_plane, OPERATOR, &[]).unwrap();
    let creates = Requests::with(&[Verb::Create]).on("pods");
    proxy.add(Rule::new(creates, Action::Delay(Duration::from_millis(100))));
    let mark = space.mark();
    space.podset("web", json!({"replicas": 50}));
    let audit = space.cluster.control_plane.audit();
    for asked_for in [4, 16, 32] {
        let operator = space
            .cluster
            .spawn_operator_behind(&proxy, &["--watch-namespace", &space.name]);
        let enough = |asked: &testcluster::audit::Requests| {
            pod_creates(asked.clone()).in_namespace(&space.name).count() >= asked_for
        };
        audit.wait_for(mark, PATIENCE, enough).unwrap();
        operator.kill();
    }
    let _operator = operator_of(&space);
    let set = space.until_podset("web", "all are there", |set| count_of(set, "replicas") == 50);
    let named: Vec<String> = (0..50).map(|slot| format!("web-{slot}")).collect();
    assert_eq!(crate::harness::pods_of(&set), named);
    assert_eq!(space.pods().len(), 50);
    // With nothing deleted and 50 at the end there were never more.
    let asked = space.asked_since(mark).on("pods");
    assert_eq!(asked.clone().that(|request| request.verb == "delete").count(), 0);
    let made = pod_creates(asked).that(|request| request.code == 201).count();
    assert!(made <= 50, "{made}");
}
