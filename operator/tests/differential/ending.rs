//! What a schedule can't do at will: a pod that ends slowly, and is out of sight while it does.

use std::sync::Arc;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::differential::rest;
use crate::differential::side::{Rival, Side};
use crate::harness::{Cluster, PATIENCE};

/// The watch of a PodSet's pods selects by label, and does not report the deletion of this pod.
#[test]
fn pod_that_loses_the_label_while_terminating_is_replaced() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder().fake_nodes(1)).with_operator(&[]));
    let sides = Rival::BOTH.map(|rival| Side::start(rival, cluster.namespace(&format!("{rival:?}").to_lowercase()), 2));
    let before = rest(&sides, 2, 0..=0).unwrap();
    let mark = sides[0].space.mark();
    for (side, sight) in sides.iter().zip(&before) {
        let pod = &sight.owned[0];
        side.patch(pod, json!({"metadata": {"finalizers": ["appdeploy.dev/test"]}}));
        side.delete(pod);
        side.label(pod, Value::Null);
    }
    // The PodSet has tried the name, and has found that it is taken.
    let tried = cluster.control_plane.audit().wait_for(mark, PATIENCE, |requests| {
        let refused = requests.clone().by_user_agent_prefix("appdeploy-operator/");
        refused
            .that(|request| request.what() == "create pods" && request.code == 409)
            .count()
            > 0
    });
    tried.unwrap();
    for (side, sight) in sides.iter().zip(&before) {
        side.patch(&sight.owned[0], json!({"metadata": {"finalizers": null}}));
    }
    rest(&sides, 2, 0..=0).unwrap();
}
