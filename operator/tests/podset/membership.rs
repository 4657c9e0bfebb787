//! Which pods belong to a set: those with its label that no other object controls.

use kube::api::{DeleteParams, Patch, PropagationPolicy};
use serde_json::{Value, json};

use crate::harness::{Namespace, POD, PODSET, QUIET, count_of, pods_of, text, uid};
use crate::podset::{bare, operator_of, stray, with_nodes, without_nodes};

/// Rows 6 and 10.
#[test]
fn pod_that_loses_the_label_is_released_and_adopted_again_with_it() {
    let space = with_nodes("label");
    let set = space.ready_podset("web", json!({"replicas": 2}));
    let before = without_owner(&space, "web-1");
    space.label_pod("web-1", crd::label::PODSET, json!(null));
    space.until_pods("web", &["web-0", "web-2"]);
    space.until_podset_ready("web");
    let pod = space.get(POD, "web-1");
    assert_eq!(pod["metadata"].get("ownerReferences"), None);
    let released_from = &pod["metadata"]["annotations"][crd::annotation::RELEASED_FROM];
    assert_eq!(released_from, uid(&set));
    assert_eq!(without_owner(&space, "web-1"), before);

    give_up_first(&space, "web-2");
    space.label_pod("web-1", crd::label::PODSET, json!("web"));
    space.until_pods("web", &["web-0", "web-1"]);
    let set = space.until_podset_ready("web");
    let pod = space.get(POD, "web-1");
    assert_eq!(uid(&pod), uid(&before), "it is still the same");
    let owners = pod["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(text(&owners[0], "/uid"), uid(&set));
    space.until_gone(POD, "web-2");
}

/// Rows 6 and 10.
#[test]
fn pod_with_the_label_of_another_set_is_adopted_by_it() {
    let space = with_nodes("hands");
    space.ready_podset("a", json!({"replicas": 2}));
    let other = space.ready_podset("b", json!({}));
    give_up_first(&space, "b-0");
    let before = space.get(POD, "a-1");
    space.label_pod("a-1", crd::label::PODSET, json!("b"));
    space.until_pods("a", &["a-0", "a-2"]);
    space.until_pods("b", &["a-1"]);
    for set in ["a", "b"] {
        space.until_podset_ready(set);
    }
    let after = space.get(POD, "a-1");
    assert_eq!(uid(&after), uid(&before));
    assert_eq!(text(&after, "/metadata/ownerReferences/0/uid"), uid(&other));
    let pods: Vec<String> = space.pods().into_keys().collect();
    assert_eq!(pods, ["a-0", "a-1", "a-2"]);
}

/// Rows 6 and 10. A pod without the owner reference and with the label is an orphan.
#[test]
fn pod_that_loses_only_its_owner_is_adopted_again() {
    let (_operator, space) = without_nodes("orphan-by-hand");
    let set = space.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let mark = space.mark();
    let none: Patch<Value> = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    space.patch(POD, "web-1", none);
    space.until(POD, "web-1", "it is adopted again", |pod| {
        text(pod, "/metadata/ownerReferences/0/uid") == uid(&set)
    });
    let expected = [("get podsets".to_owned(), 1), ("patch pods".to_owned(), 1)];
    let asked = space.asked_since(mark);
    let asked = asked.that(|request| request.resource != "podsets" || request.subresource.is_empty());
    assert_eq!(asked.tally(), expected.into());
}

/// Rows 5 and 6. An adopted pod is patched with its UID, and its template is not compared.
#[test]
fn orphans_are_adopted_together_after_one_read_of_the_set() {
    let space = bare("orphans");
    let label = json!({"appdeploy.dev/podset": "web"});
    for pod in ["x", "y", "z"] {
        space.create(POD, stray(pod, label.clone()));
    }
    // Neither of these is anybody's to take.
    space.create(POD, stray("over", label.clone()));
    space.patch_status(POD, "over", json!({"phase": "Succeeded"}));
    space.create(POD, stray("ending", label));
    space.hold(POD, "ending");
    space.delete(POD, "ending");
    space.create(POD, stray("unlabelled", json!({})));
    let others = ["over", "ending", "unlabelled"];
    let before = others.map(|pod| space.bytes(POD, pod));
    space.podset("web", json!({"replicas": 3}));

    let mark = space.mark();
    let _operator = operator_of(&space);
    let set = space.until_pods("web", &["x", "y", "z"]);
    space.settle_podsets();
    let expected = [("get podsets", 1), ("patch pods", 3), ("patch podsets/status", 1)];
    let expected = expected.map(|(what, count)| (what.to_owned(), count));
    let asked = space.asked_since(mark).that(|request| request.verb != "list");
    assert_eq!(asked.tally(), expected.into());
    for pod in ["x", "y", "z"] {
        assert_eq!(text(&space.get(POD, pod), "/metadata/ownerReferences/0/uid"), uid(&set));
    }
    assert_eq!(count_of(&set, "updatedReplicas"), 3);
    assert_eq!(others.map(|pod| space.bytes(POD, pod)), before);
}

/// An editor of a set must not run an image of their choice with the volumes and rights of a third-party pod.
#[test]
fn adopted_pod_is_changed_in_place_only_if_it_is_as_the_set_would_create_it() {
    let space = with_nodes("adopted-image");
    space.ready_podset("web", json!({"replicas": 1, "template": {"image": "app:1"}}));
    let own = space.get(POD, "web-0");
    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    space
        .cluster
        .block_on(space.api(PODSET).delete("web", &orphan))
        .unwrap();
    space.until_gone(PODSET, "web");
    space.until(POD, "web-0", "it is an orphan", |pod| {
        pod["metadata"].get("ownerReferences").is_none()
    });
    let annotations = own["metadata"]["annotations"].clone();
    let mut forged = stray("forged", json!({"appdeploy.dev/podset": "web"}));
    forged["metadata"]["annotations"] = annotations;
    forged["spec"]["containers"][0]["image"] = json!("app:1");
    forged["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "s", "optional": true}}]);
    space.create(POD, forged);
    let mut plain = stray("plain", json!({"appdeploy.dev/podset": "web"}));
    plain["spec"]["containers"][0]["image"] = json!("app:1");
    space.create(POD, plain);
    space.podset("web", json!({"replicas": 3, "template": {"image": "app:1"}}));
    space.until_pods("web", &["web-0", "forged", "plain"]);
    space.until_podset_ready("web");

    space.set_podset("web", json!({"template": {"image": "app:2"}}));
    space.until_pods("web", &["web-0", "web-1", "web-2"]);
    let updated = space.until_podset_ready("web");
    assert_eq!(count_of(&updated, "updatedReplicas"), 3);
    let kept = space.get(POD, "web-0");
    assert_eq!(uid(&kept), uid(&own), "it was created by the set");
    assert_eq!(text(&kept, "/spec/containers/0/image"), "app:2");
    for pod in ["forged", "plain"] {
        space.until_gone(POD, pod);
    }
}

/// Row 6. A watch by label reports it as deleted, and no create finds its name taken.
#[test]
fn adopted_pod_that_loses_the_label_is_released() {
    let (_operator, space) = without_nodes("taken-in");
    space.create(POD, stray("x", json!({"appdeploy.dev/podset": "web"})));
    space.podset_of("web", json!({}), &["x"]);
    space.label_pod("x", crd::label::PODSET, json!(null));
    space.until_pods("web", &["web-0"]);
    space.until(POD, "x", "it is released", |pod| {
        pod["metadata"].get("ownerReferences").is_none()
    });
}

/// Rows 5 and 12. The set has said that it is being deleted before the orphan is there.
#[test]
fn terminating_set_adopts_and_releases_nothing() {
    let (_operator, space) = without_nodes("deleted-adopts");
    space.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    space.hold(PODSET, "web");
    space.delete(PODSET, "web");
    space.until(PODSET, "web", "its status reports it", |set| {
        crate::harness::ready(set).1 == "Deleting"
    });
    let mark = space.mark();
    space.create(POD, stray("orphan", json!({"appdeploy.dev/podset": "web"})));
    space.label_pod("web-1", crd::label::PODSET, json!(null));
    let before = ["orphan", "web-1"].map(|pod| space.bytes(POD, pod));
    space.until_pods("web", &["web-0"]);
    space.settle_podsets();
    let asked = space.asked_since(mark);
    assert_eq!(asked.tally().into_keys().collect::<Vec<_>>(), ["patch podsets/status"]);
    assert_eq!(["orphan", "web-1"].map(|pod| space.bytes(POD, pod)), before);
}

/// An evicted pod that was orphaned with its set holds a name that the next set of that name needs.
#[test]
fn finished_orphans_of_a_set_are_adopted_and_replaced() {
    let (_operator, space) = without_nodes("finished-orphan");
    let mut orphan = stray("web-0", json!({"appdeploy.dev/podset": "web"}));
    orphan["metadata"]["annotations"] = json!({crd::annotation::TEMPLATE_HASH: "old"});
    let orphan = space.create(POD, orphan);
    space.patch_status(POD, "web-0", json!({"phase": "Failed", "reason": "Evicted"}));
    space.podset("web", json!({}));
    let pod = space.until_back(POD, &orphan);
    let set = space.until_pods("web", &["web-0"]);
    assert_eq!(text(&pod, "/metadata/ownerReferences/0/uid"), uid(&set));
}

/// Row 9.
#[test]
fn pod_that_is_terminating_in_its_first_event_counts_as_deleted() {
    let (operator, space) = without_nodes("first-seen");
    space.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    operator.terminate();
    space.hold(POD, "web-1");
    space.delete(POD, "web-1");
    let mark = space.mark();
    let _operator = operator_of(&space);
    let set = space.until_podset("web", "its status reports it", |set| {
        count_of(set, "terminatingReplicas") == 1
    });
    assert_eq!(pods_of(&set), ["web-0"]);
    std::thread::sleep(QUIET);
    let asked = space.asked_since(mark).on("pods");
    let asked = asked.that(|request| request.verb != "list");
    assert_eq!(asked.tally(), [].into(), "its name is waited for, and nothing is tried");
    space.remove_finalizers(POD, "web-1");
    space.until_pods("web", &["web-0", "web-1"]);
}

/// Makes a pod the first to be given up among equals.
fn give_up_first(space: &Namespace, pod: &str) {
    let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
    space.patch(POD, pod, Patch::Merge(cost));
}

/// Returns a pod without its owner.
fn without_owner(space: &Namespace, pod: &str) -> Value {
    let mut pod = space.get(POD, pod);
    let meta = pod["metadata"].as_object_mut().unwrap();
    for field in ["resourceVersion", "managedFields", "ownerReferences"] {
        meta.remove(field);
    }
    meta["labels"].as_object_mut().unwrap().remove(crd::label::PODSET);
    meta["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(crd::annotation::RELEASED_FROM);
    pod
}
