//! What is done to make the operator need a right to PodMonitors, and what is waited for when it has the right.

use serde_json::{Value, json};

use crate::harness::{DEPLOYMENT, Namespace, POD_MONITOR, web};
use crate::rights::deeds::app_says;

fn spec() -> Value {
    let mut spec = web();
    spec["metrics"] = json!({});
    spec
}

pub fn make_monitor(space: &Namespace) {
    space.app("shop", spec());
}

pub fn has_monitor(space: &Namespace) {
    for kind in [POD_MONITOR, DEPLOYMENT] {
        space.until_there(kind, "shop");
    }
    app_says(space, "");
}

pub fn monitor_follows_its_api(space: &Namespace) {
    space.cluster.install_pod_monitors();
    has_monitor(space);
}

pub fn monitor_is_recreated(space: &Namespace) {
    has_monitor(space);
    let before = space.get(POD_MONITOR, "shop");
    space.delete(POD_MONITOR, "shop");
    space.until_back(POD_MONITOR, &before);
}

pub fn take_the_name_of_the_monitor(space: &Namespace) {
    space.create(POD_MONITOR, json!({"metadata": {"name": "shop"}, "spec": {}}));
    make_monitor(space);
}

pub fn change_the_monitor(space: &Namespace) {
    space.settled_app("shop", spec());
    space.set("shop", json!({"metrics": {"path": "/prom"}}));
}

pub fn monitor_is_changed(space: &Namespace) {
    space.until(POD_MONITOR, "shop", "it is changed", |monitor| {
        monitor["spec"]["podMetricsEndpoints"][0]["path"] == "/prom"
    });
}

pub fn drop_the_monitor(space: &Namespace) {
    space.settled_app("shop", spec());
    space.set("shop", json!({"metrics": null}));
}

pub fn monitor_is_deleted(space: &Namespace) {
    space.until_gone(POD_MONITOR, "shop");
}
