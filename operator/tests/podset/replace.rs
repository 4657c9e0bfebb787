//! Pods of choice are replaced: the new one first.

use serde_json::{Value, json};

use crate::harness::{Namespace, POD, condition, count_of, eventually, pods_of, ready, text, uid};
use crate::podset::{pod_writes, with_nodes, without_nodes};

/// Returns the entries for some pods.
fn chosen_of(space: &Namespace, names: &[&str]) -> Vec<Value> {
    let entry = |name: &&str| json!({"name": name, "uid": uid(&space.get(POD, name))});
    names.iter().map(entry).collect()
}

/// Also with an operator that is started in between: the new pod itself names the pod that it replaces.
#[test]
fn chosen_pod_is_kept_until_its_successor_is_ready() {
    let (operator, space) = without_nodes("replace");
    space.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    for pod in ["web-0", "web-1"] {
        space.pod_runs(pod, "one", true);
    }
    space.until_podset_ready("web");
    let chosen = space.get(POD, "web-0");
    space.set_podset("web", json!({"replacePods": chosen_of(&space, &["web-0"])}));
    let set = space.until_pods("web", &["web-0", "web-1", "web-2"]);
    let message = text(condition(&set, "Ready").unwrap(), "/message");
    assert_eq!(message, "replacing web-0: web-2 is starting");
    let successor = space.get(POD, "web-2");
    assert_eq!(
        successor["metadata"]["annotations"][crd::annotation::REPLACES],
        uid(&chosen)
    );
    space.pod_runs("web-2", "one", false);
    operator.kill();
    let mark = space.mark();
    let _operator = crate::podset::operator_of(&space);
    space.settle_podsets();
    assert_eq!(
        pod_writes(space.asked_since(mark)).tally(),
        [].into(),
        "the new one is not ready"
    );
    assert_eq!(uid(&space.get(POD, "web-0")), uid(&chosen));

    space.pod_runs("web-2", "one", true);
    space.until_gone(POD, "web-0");
    space.until_pods("web", &["web-1", "web-2"]);
    let set = space.until_podset_ready("web");
    assert_eq!(pods_of(&set), ["web-1", "web-2"]);

    // The entry is about the pod that was deleted: another pod may have its name, and stays.
    space.set_podset("web", json!({"replicas": 3}));
    space.until_pods("web", &["web-0", "web-1", "web-2"]);
    space.pod_runs("web-0", "one", true);
    space.until_podset_ready("web");
}

#[test]
fn chosen_pods_are_replaced_one_after_the_other() {
    let space = with_nodes("replace-all");
    space.ready_podset("web", json!({"replicas": 2}));
    let mark = space.mark();
    let mut chosen = chosen_of(&space, &["web-0", "web-1"]);
    chosen.push(json!({"name": "no-such-pod", "uid": "11111111-2222-3333-4444-555555555555"}));
    space.set_podset("web", json!({"replacePods": chosen}));
    space.until_pods("web", &["web-1", "web-2"]);
    space.until_podset_ready("web");
    let asked = pod_writes(space.asked_since(mark));
    let verbs: Vec<&str> = asked.iter().map(|request| &*request.verb).collect();
    assert_eq!(verbs, ["create", "delete", "create", "delete"]);
}

/// If the new pod does not start, the running one stays; if the user changes the set again, the new one is deleted.
#[test]
fn cancelled_replacement_keeps_the_chosen_pod() {
    let (_operator, space) = without_nodes("replace-back");
    space.podset_of("web", json!({}), &["web-0"]);
    space.pod_runs("web-0", "one", true);
    let before = space.until_podset_ready("web");
    space.set_podset("web", json!({"replacePods": chosen_of(&space, &["web-0"])}));
    space.until_pods("web", &["web-0", "web-1"]);
    space.set_podset("web", json!({"replacePods": null}));
    let set = space.until_pods("web", &["web-0"]);
    assert_eq!(ready(&set), ready(&before));
    eventually("the new one was deleted", || space.get(POD, "web-1").is_null());
    let all = |set: &Value| count_of(set, "availableReplicas") == 1;
    space.until_podset("web", "it serves", all);
}
