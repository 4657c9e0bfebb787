//! A changed template is rolled out: in the pods that run where only the image differs.
//!
//! On fake nodes, an update is complete immediately. So some tests simulate the node themselves, and decide when it runs another
//! container.

use std::time::Duration;

use fault_proxy::Proxy;
use fault_proxy::{Action, Requests, Rule, Verb};
use serde_json::{Value, json};

use crate::harness::{Namespace, OPERATOR, Operator, POD, QUIET, count_of, ready, text};
use crate::podset::{Space, bare, pod_writes, with_nodes, without_nodes};

#[test]
fn new_image_is_changed_in_place() {
    let space = with_nodes("in-place");
    space.ready_podset("web", json!({"replicas": 3, "template": {"image": "app:1"}}));
    let places = || -> Vec<[String; 5]> {
        let place = |pod: &Value| {
            [
                "/metadata/name",
                "/metadata/uid",
                "/spec/nodeName",
                "/status/podIP",
                "/status/startTime",
            ]
            .map(|field| text(pod, field).to_owned())
        };
        space.pods().values().map(place).collect()
    };
    let before = places();
    let mark = space.mark();
    space.set_podset("web", json!({"template": {"image": "app:2"}}));
    space.until_podset("web", "all have it", |set| {
        count_of(set, "updatedReplicas") == 3 && ready(set).0 == "True"
    });
    assert_eq!(places(), before);
    assert!(before.iter().flatten().all(|field| !field.is_empty()), "{before:?}");
    assert_eq!(images(&space), ["app:2"; 3]);
    let asked = pod_writes(space.asked_since(mark));
    assert_eq!(asked.tally(), [("patch pods".to_owned(), 3)].into());
}

/// Also by an operator that is started in the middle of it, which does not take what is updating for what is available.
#[test]
fn next_pod_is_updated_when_the_previous_one_runs_its_new_container() {
    let (operator, space) = played("one-by-one", json!({"replicas": 3}));
    space.set_podset("web", json!({"template": {"image": "app:2"}}));
    let first = until_updating(&space, 1);
    operator.kill();
    let _operator = crate::podset::operator_of(&space);
    space.settle_podsets();
    assert_eq!(updated(&space), [first]);
    for changed in 1..=3 {
        let pod = until_updating(&space, changed);
        assert_eq!(updated(&space).len(), changed, "the next one waits for {pod}");
        space.until_podset("web", "one is missed", |set| count_of(set, "availableReplicas") == 2);
        space.pod_runs(&pod, "new", true);
    }
    space.until_podset("web", "all have it", |set| {
        count_of(set, "updatedReplicas") == 3 && ready(set).0 == "True"
    });
}

#[test]
fn while_a_pod_is_not_ready_no_other_is_changed() {
    let (_operator, space) = played("unready", json!({"replicas": 3}));
    space.pod_runs("web-1", "old", false);
    space.until_podset("web", "it is seen", |set| count_of(set, "readyReplicas") == 2);
    space.set_podset("web", json!({"template": {"image": "app:2"}}));
    // To change one that does not serve costs nothing.
    assert_eq!(until_updating(&space, 1), "web-1");
    space.pod_runs("web-1", "new", false);
    space.settle_podsets();
    assert_eq!(updated(&space), ["web-1"]);
    space.pod_runs("web-1", "new", true);
    until_updating(&space, 2);
}

/// Without a readiness probe a restarted container counts as ready immediately.
#[test]
fn image_that_exits_after_a_moment_does_not_spread() {
    let (_operator, space) = played("exits", json!({"replicas": 3}));
    space.set_podset("web", json!({"template": {"image": "app:2"}}));
    let first = until_updating(&space, 1);
    space.pod_restarts(&first, "new");
    std::thread::sleep(Duration::from_secs(2));
    space.pod_runs(&first, "new", false);
    std::thread::sleep(QUIET);
    assert_eq!(updated(&space), std::slice::from_ref(&first));
    space.set_podset("web", json!({"template": {"image": "app:3"}}));
    space.until(POD, &first, "the next image is tried where the one before was", |pod| {
        text(pod, "/spec/containers/0/image") == "app:3"
    });
}

/// A container that has restarted since an operator has heard of it last is not one of the new image.
#[test]
fn image_of_a_restarted_pod_is_changed_after_a_second_read() {
    let space = bare("restarted");
    let proxy = Proxy::before(&space.cluster.control_plane, OPERATOR, &[]).unwrap();
    let operator = space
        .cluster
        .spawn_operator_behind(&proxy, &["--watch-namespace", &space.name]);
    play(&space, json!({"replicas": 1}));
    let patches = Requests::with(&[Verb::Patch]).on("pods");
    proxy.add(Rule::new(patches, Action::Delay(Duration::from_secs(2))));
    let mark = space.mark();
    space.set_podset("web", json!({"template": {"image": "app:2"}}));
    std::thread::sleep(Duration::from_secs(1));
    space.pod_runs("web-0", "restarted", true);
    let pod = space.until(POD, "web-0", "it is changed", |pod| {
        text(pod, "/spec/containers/0/image") == "app:2"
    });
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations[crd::annotation::UPDATED_FROM], "fake://restarted");
    assert_eq!(annotations[crd::annotation::UPDATED_FROM_IMAGE], "app:1");
    let refused = pod_writes(space.asked_since(mark)).that(|request| request.code == 409);
    assert_eq!(refused.count(), 1);
    operator.kill();
}

#[test]
fn percentage_is_relative_to_the_replicas() {
    let (_operator, space) = played("percentage", json!({"replicas": 5, "maxUnavailable": "50%"}));
    space.set_podset("web", json!({"template": {"image": "app:2"}}));
    until_updating(&space, 2);
    space.settle_podsets();
    assert_eq!(updated(&space).len(), 2);
}

#[test]
fn any_other_change_replaces_pods_one_by_one() {
    let space = with_nodes("template");
    space.ready_podset("web", json!({"replicas": 3, "template": {"image": "app:1"}}));
    let before = space.pod_uids();
    let mark = space.mark();
    let template = json!({"image": "app:2", "env": [{"name": "A", "value": "b"}]});
    space.set_podset("web", json!({"template": template}));
    space.until_podset("web", "all have it", |set| {
        count_of(set, "updatedReplicas") == 3 && ready(set).0 == "True"
    });
    let after = space.pod_uids();
    assert!(before.keys().eq(after.keys()), "{after:?}");
    assert!(before.iter().all(|(pod, uid)| after[pod] != *uid), "{after:?}");
    assert_eq!(images(&space), ["app:2"; 3]);
    // A name may be in use a moment longer than the watch reports.
    let asked = pod_writes(space.asked_since(mark)).that(|request| request.code < 400);
    let verbs: Vec<&str> = asked.iter().map(|request| &*request.verb).collect();
    assert_eq!(verbs, ["delete", "create", "delete", "create", "delete", "create"]);
}

#[test]
fn broken_template_costs_at_most_max_unavailable_pods() {
    let (_operator, space) = played("broken", json!({"replicas": 3}));
    let before = space.pod_uids();
    let template = json!({"image": "app:2", "env": [{"name": "A", "value": "b"}]});
    space.set_podset("web", json!({"template": template}));
    let new_pods = || -> Vec<String> {
        let now = space.pod_uids().into_iter();
        now.filter(|(pod, uid)| before[pod] != *uid)
            .map(|(pod, _)| pod)
            .collect()
    };
    crate::harness::eventually("one is replaced", || new_pods().len() == 1);
    space.settle_podsets();
    let first = new_pods();
    assert_eq!(first.len(), 1);
    space.pod_runs(&first[0], "new", true);
    crate::harness::eventually("another is replaced", || new_pods().len() == 2);
}

/// Makes a set whose pods run what a test says.
fn played(name: &str, spec: Value) -> (Operator, Space) {
    let (operator, space) = without_nodes(name);
    play(&space, spec);
    (operator, space)
}

fn play(space: &Namespace, mut spec: Value) {
    spec["template"] = json!({"image": "app:1"});
    let replicas = spec["replicas"].clone();
    space.podset("web", spec);
    let all = |set: &Value, count: &str| set["status"][count] == replicas;
    space.until_podset("web", "its pods are there", |set| all(set, "replicas"));
    for pod in space.pods().keys() {
        space.pod_runs(pod, "old", true);
    }
    space.until_podset("web", "its pods run", |set| all(set, "availableReplicas"));
}

fn images(space: &Namespace) -> Vec<String> {
    let image = |pod: &Value| text(pod, "/spec/containers/0/image").to_owned();
    space.pods().values().map(image).collect()
}

/// Returns the pods that have the new image.
fn updated(space: &Namespace) -> Vec<String> {
    let new = |pod: &Value| text(pod, "/spec/containers/0/image") == "app:2";
    space
        .pods()
        .into_iter()
        .filter(|(_, pod)| new(pod))
        .map(|(name, _)| name)
        .collect()
}

/// Waits until so many pods have the new image, and returns the first of them that does not run it yet.
fn until_updating(space: &Namespace, count: usize) -> String {
    crate::harness::eventually(&format!("{count} are changed"), || updated(space).len() >= count);
    let old = |name: &str| {
        let pod = space.get(POD, name);
        text(&pod, "/status/containerStatuses/0/containerID") == "fake://old"
    };
    updated(space).into_iter().find(|pod| old(pod)).unwrap()
}
