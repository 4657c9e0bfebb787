//! Which pods go first.

use kube::api::Patch;
use serde_json::json;

use crate::harness::{POD, count_of, text};
use crate::podset::{stray, with_nodes};

/// Row 11. Each is worse than those that stay, in a way that matters less than that of the one before.
#[test]
fn pods_are_deleted_in_the_order_of_a_replica_set() {
    let space = with_nodes("order");
    space.ready_podset("web", json!({"replicas": 4}));
    let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
    space.patch(POD, "web-0", Patch::Merge(cost));
    let unready = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    space.patch_status(POD, "web-1", unready);
    space.until_podset("web", "one is not ready", |set| count_of(set, "readyReplicas") == 3);

    // This node does not exist. The pod is surplus as soon as it is listed, and is deleted before the others.
    let mut nowhere = stray("nowhere", json!({"appdeploy.dev/podset": "web"}));
    nowhere["spec"]["nodeSelector"] = json!({"no": "such-node"});
    let nowhere = space.create(POD, nowhere);
    assert_eq!(text(&nowhere, "/spec/nodeName"), "");
    space.until_gone(POD, "nowhere");
    space.until_pods("web", &["web-0", "web-1", "web-2", "web-3"]);

    space.set_podset("web", json!({"replicas": 3}));
    space.until_pods("web", &["web-0", "web-2", "web-3"]);
    space.set_podset("web", json!({"replicas": 2}));
    space.until_pods("web", &["web-2", "web-3"]);
}
