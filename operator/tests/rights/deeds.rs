//! What is done to make the operator need a right, and what is waited for when it has the right.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    APP, CLASS, DEPLOYMENT, INGRESS, Kind, Namespace, POD, PODSET, SERVICE, is_observed, text, uid, web,
};

pub fn make_app(space: &Namespace) {
    space.app("shop", web());
}

pub fn change(space: &Namespace, spec: Value) {
    space.settled_app("shop", web());
    space.set("shop", spec);
}

pub fn becomes(space: &Namespace, kind: Kind, pointer: &str, wanted: impl Into<Value>) {
    let wanted = Some(wanted.into());
    space.until(kind, "shop", "it is as wanted", |child| {
        child.pointer(pointer) == wanted.as_ref()
    });
}

pub fn app_is_reported(space: &Namespace) {
    space.until_reported("shop");
}

pub fn has_children(space: &Namespace) {
    for kind in [DEPLOYMENT, SERVICE, INGRESS] {
        space.until_there(kind, "shop");
    }
    app_says(space, "");
}

pub fn children_are_recreated(space: &Namespace) {
    has_children(space);
    for kind in [DEPLOYMENT, SERVICE, INGRESS] {
        let before = space.get(kind, "shop");
        space.delete(kind, "shop");
        space.until_back(kind, &before);
    }
}

/// Waits until the cause has this reason, or there is none.
pub fn app_says(space: &Namespace, reason: &str) {
    let says = |app: &Value| is_observed(app) && text(app, "/status/cause/reason") == reason;
    space.until(APP, "shop", &format!("the cause is {reason:?}"), says);
}

/// Waits until an app says what its health check got for an answer, although nothing happens to it: a question that got
/// none is asked again.
pub fn answer_is_reported(space: &Namespace) {
    space.until(APP, "first", "the answer is reported", |app| {
        text(app, "/status/cause/message").ends_with("503")
    });
}

pub fn lose_a_child(space: &Namespace) {
    make_app(space);
    has_children(space);
    space.delete(SERVICE, "shop");
}

pub fn take_the_name(space: &Namespace, kind: Kind) {
    let labels = json!({"app": "legacy"});
    let container = json!({"name": "legacy", "image": "legacy"});
    let spec = match kind.name() {
        "Deployment" => json!({"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}),
        "Service" => json!({"ports": [{"port": 9000}]}),
        _ => json!({"defaultBackend": {"service": {"name": "legacy", "port": {"number": 9000}}}}),
    };
    space.create(kind, json!({"metadata": {"name": "shop"}, "spec": spec}));
    make_app(space);
}

pub fn warn(space: &Namespace, name: &str) {
    let resources = json!({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}});
    space.app(name, json!({"image": "nginx", "resources": resources}));
    space.until(APP, name, "its status reports it", |app| {
        text(app, "/status/cause/reason") == "Rejected"
    });
}

/// Has the operator warn of the same again.
pub fn warn_again(space: &Namespace, name: &str) {
    for (limit, reason) in [(1, ""), (2, "Rejected")] {
        space.set(name, json!({"resources": {"limits": {"example.com/gpu": limit}}}));
        space.until(APP, name, "its status reports it", |app| {
            is_observed(app) && text(app, "/status/cause/reason") == reason
        });
    }
}

/// Has the operator warn of the same for so long that it counts an Event: one is written once in ten seconds.
pub fn warn_again_and_again(space: &Namespace) {
    warn(space, "first");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        warn_again(space, "first");
    }
}

pub fn make_app_of_a_class(space: &Namespace) {
    let mut spec = web();
    spec["ingressClassName"] = json!("lane");
    space.app("shop", spec);
    space.until_there(INGRESS, "shop");
    let name = format!("{}-lane", space.name);
    space.create(
        CLASS,
        json!({"metadata": {"name": name}, "spec": {"controller": "example.com/lane"}}),
    );
}

/// Only an operator that can list the classes knows that this one is missing.
pub fn knows_the_class(space: &Namespace) {
    space.pods_become_ready("shop");
    app_says(space, "NoIngressClass");
    space.create(
        CLASS,
        json!({"metadata": {"name": "lane"}, "spec": {"controller": "example.com/lane"}}),
    );
    space.until(APP, "shop", "the class is seen", |app| {
        text(app, "/status/conditions/0/reason") == "AddressPending"
    });
}

pub fn make_set(space: &Namespace) {
    space.podset("set", json!({"replicas": 1}));
}

pub fn set_is_reported(space: &Namespace) {
    space.until_pods("set", &["set-0"]);
}

pub fn set_says(space: &Namespace, reason: &str) {
    let says = |set: &Value| text(set, "/status/cause/reason") == reason;
    space.until(PODSET, "set", &format!("the cause is {reason:?}"), says);
}

pub fn has_pod(space: &Namespace) {
    space.until_there(POD, "set-0");
    set_is_reported(space);
}

pub fn pod_is_recreated(space: &Namespace) {
    has_pod(space);
    let before = space.get(POD, "set-0");
    space.delete(POD, "set-0");
    space.until_back(POD, &before);
}

pub fn scale_down(space: &Namespace) {
    space.podset_of("set", json!({"replicas": 2}), &["set-0", "set-1"]);
    space.set_podset("set", json!({"replicas": 1}));
}

fn pod(space: &Namespace, name: &str, labels: Value) {
    let spec = json!({"containers": [{"name": "app", "image": "app"}]});
    space.create(POD, json!({"metadata": {"name": name, "labels": labels}, "spec": spec}));
}

pub fn take_the_pods_name(space: &Namespace) {
    pod(space, "set-0", json!({}));
    make_set(space);
}

pub fn leave_a_stray_pod(space: &Namespace) {
    pod(space, "stray", json!({crd::label::PODSET: "set"}));
    make_set(space);
}

/// It is the pod of the set, or was deleted after that, because the set had created another. A pod that it has not adopted is never
/// deleted.
pub fn stray_is_adopted(space: &Namespace) {
    let owner = space.get(PODSET, "set");
    space.until(POD, "stray", "it is adopted", |pod| {
        pod.is_null() || text(pod, "/metadata/ownerReferences/0/uid") == uid(&owner)
    });
}
