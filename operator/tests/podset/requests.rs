//! The requests that a set costs, counted in the API server's audit log. There are no other clients.

use std::collections::BTreeMap;

use serde_json::json;

use crate::harness::{POD, count_of, pods_of, ready};
use crate::podset::{operator_of, without_nodes};

fn counts(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let owned = expected.iter().map(|(what, count)| ((*what).to_owned(), *count));
    owned.collect()
}

/// Rows 1 and 13.
#[test]
fn set_costs_one_write_for_each_pod_and_one_for_its_status() {
    let (operator, space) = without_nodes("costs");
    let mark = space.mark();
    space.podset_of(
        "web",
        json!({"replicas": 3, "maxUnavailable": 3, "template": {"image": "app:1"}}),
        &["web-0", "web-1", "web-2"],
    );
    space.settle_podsets();
    let create = [("create pods", 3), ("patch podsets/status", 1)];
    assert_eq!(space.asked_since(mark).tally(), counts(&create));

    operator.terminate();
    let mark = space.mark();
    let _operator = operator_of(&space);
    space.settle_podsets();
    assert_eq!(space.asked_since(mark).writes().tally(), counts(&[]), "a restart");

    let mark = space.mark();
    space.set_podset("web", json!({"template": {"image": "app:2"}}));
    space.until_podset("web", "all have it", |set| count_of(set, "updatedReplicas") == 3);
    space.settle_podsets();
    let image = [("patch pods", 3), ("patch podsets/status", 1)];
    assert_eq!(space.asked_since(mark).tally(), counts(&image));

    let mark = space.mark();
    space.set_podset("web", json!({"replicas": 1}));
    space.until_pods("web", &["web-0"]);
    // Their deletion is reported immediately or a moment later.
    let asked = space.asked_since(mark);
    assert_eq!(asked.clone().on("pods").tally(), counts(&[("delete pods", 2)]));
    let statuses = asked.without("pods");
    assert!((1..=2).contains(&statuses.count()), "{:?}", statuses.tally());
}

/// Row 13. What people do to pods costs the requests that the answer needs, and at most one status for each state.
#[test]
fn changes_of_pods_cost_no_more_requests_than_needed() {
    let (_operator, space) = without_nodes("deeds");
    space.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let mark = space.mark();
    space.label_pod("web-1", crd::label::PODSET, json!(null));
    space.until_pods("web", &["web-0", "web-2"]);
    space.settle_podsets();
    let release = [
        ("create pods", 1),
        ("get pods", 1),
        ("patch pods", 1),
        ("patch podsets/status", 1),
    ];
    assert_eq!(space.asked_since(mark).tally(), counts(&release));

    let mark = space.mark();
    for pod in ["web-0", "web-2"] {
        space.pod_runs(pod, "one", true);
    }
    let set = space.until_podset_ready("web");
    assert_eq!((pods_of(&set), ready(&set).1), (vec!["web-0", "web-2"], "Available"));
    // At most one for each state: one pod is ready, both are ready, both are available.
    let statuses = space.asked_since(mark).tally();
    assert!(
        statuses.keys().eq(["patch podsets/status"]) && statuses.values().all(|count| *count <= 3),
        "{statuses:?}"
    );
}

/// The pod was deleted: perhaps the set was, too, and its watch is late.
#[test]
fn deleted_pod_costs_a_read_of_its_set_and_a_create() {
    let (_operator, space) = without_nodes("heal");
    space.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let (before, mark) = (space.get(POD, "web-1"), space.mark());
    space.delete(POD, "web-1");
    space.until_back(POD, &before);
    space.settle_podsets();
    let asked = space.asked_since(mark).without("podsets/status").without("pods/status");
    let heal = asked.that(|request| request.verb != "get" || request.resource == "podsets");
    assert_eq!(heal.tally(), counts(&[("create pods", 1), ("get podsets", 1)]));
}
