//! An operator of several namespaces, in one of which it lacks rights: it manages the others. The Role is deleted with its namespace, so
//! this happens to each such operator.

use std::sync::Arc;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{Cluster, DEPLOYMENT, INGRESS, Namespace, Operator, POD, SERVICE, Shared, eventually, text};
use crate::rights::deeds::{app_says, has_children, has_pod, make_app, make_set};
use crate::rights::lacking::{Right, granted, without};

fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| Cluster::start(ControlPlane::builder()))
}

/// Grants a user rights in a namespace alone.
fn grant(space: &Namespace, user: &str, rules: &[Value]) {
    let api = "rbac.authorization.k8s.io/v1";
    let meta = json!({"name": user, "namespace": space.name});
    let role = json!({"apiVersion": api, "kind": "Role", "metadata": meta, "rules": rules});
    let binding = json!({"apiVersion": api, "kind": "RoleBinding", "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    let control_plane = &space.cluster.control_plane;
    for object in [role, binding] {
        control_plane.apply(&object.to_string()).unwrap();
    }
    // A right needs a moment until it counts.
    eventually("the operator has its rights", || {
        let asked = ["auth", "can-i", "list", "services", "-n", &space.name, "--as", user];
        control_plane.kubectl(&asked).is_ok()
    });
}

/// Starts an operator of two namespaces.
fn operator(spaces: [&Namespace; 2], user: &str) -> Operator {
    let control_plane = &spaces[0].cluster.control_plane;
    let kubeconfig = control_plane.kubeconfig_for(user, &[]).unwrap();
    let namespaces = spaces.map(|space| &*space.name).join(",");
    Operator::spawn(control_plane.folder(), &kubeconfig, &["--watch-namespace", &namespaces])
}

/// Waits until an app and a pod set are as wanted.
fn works(space: &Namespace) {
    has_children(space);
    has_pod(space);
}

#[test]
fn forbidden_namespace_does_not_delay_others() {
    let cluster = cluster();
    let [open, closed] = ["open", "closed"].map(|name| cluster.namespace(name));
    let (user, rules) = ("operator-of-one", granted(&cluster));
    grant(&open, user, &rules);
    for space in [&open, &closed] {
        make_app(space);
        make_set(space);
    }
    let operator = operator([&open, &closed], user);
    works(&open);
    operator.until_ready();
    for kind in ["appdeploys", "podsets", "podset-pods", "deployments"] {
        let failing = format!("appdeploy_watch_failing{{resource=\"{kind}\"}} 1");
        operator.until("/metrics", "what can't be seen is counted", |_, body| {
            body.contains(&failing)
        });
    }
    for (kind, name) in [(DEPLOYMENT, "shop"), (SERVICE, "shop"), (POD, "set-0")] {
        assert!(closed.get(kind, name).is_null(), "{} {name}", kind.name());
    }
    // There is nothing to restart.
    grant(&closed, user, &rules);
    works(&closed);
}

#[test]
fn kind_forbidden_in_one_namespace_does_not_delay_others() {
    let cluster = cluster();
    let [whole, half] = ["whole", "half"].map(|name| cluster.namespace(name));
    let (user, rules) = ("operator-of-one-and-a-half", granted(&cluster));
    let right = Right {
        verb: "list",
        group: "networking.k8s.io",
        resource: "ingresses",
    };
    grant(&whole, user, &rules);
    grant(&half, user, &without(&rules, right));
    let operator = operator([&whole, &half], user);
    operator.until_ready();
    for space in [&whole, &half] {
        make_app(space);
        make_set(space);
    }
    works(&whole);
    has_pod(&half);
    app_says(&half, "WatchFailed");
    let app = half.get(crate::harness::APP, "shop");
    let message = text(&app, "/status/cause/message");
    assert!(
        message.contains(&right.to_string()) && message.contains("in the namespace \"half\""),
        "{message}"
    );
    assert!(!half.get(SERVICE, "shop").is_null());
    assert!(half.get(INGRESS, "shop").is_null(), "nothing is written blindly");
    grant(&half, user, &rules);
    works(&half);
}
