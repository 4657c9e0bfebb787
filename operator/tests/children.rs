//! An application's children are made, kept as they are wanted, and go with it.
//!
//! The garbage collector and the autoscaler run; no controller makes pods, so nothing else writes children.

mod chain;
mod containers;
mod drift;
mod dropped;
mod fight;
mod kinds;
mod large;
mod pod_monitor;
mod rollout;
mod scale;
mod service_account;
mod table;
mod volumes;

use kube::api::{DeleteParams, Patch};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, Kind, Namespace, QUIET, SERVICE, Shared, is_long, is_observed, ready, text, uid,
    web,
};

const CHILDREN: [Kind; 3] = [DEPLOYMENT, SERVICE, INGRESS];

fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    let start = || {
        let builder = ControlPlane::builder()
            .controller_manager(&["garbagecollector", "horizontalpodautoscaling"])
            // P18: on by default in OpenShift; an owner reference that blocks needs a right of its own.
            .apiserver_flag("--enable-admission-plugins=OwnerReferencesPermissionEnforcement");
        Cluster::start(builder).with_operator(&[])
    };
    SHARED.get(start).namespace(name)
}

#[test]
fn children_have_owner_and_labels_and_the_app_has_no_finalizer() {
    let shop = namespace("owner");
    let app = shop.settled_app("shop", web());
    // P14: nothing that owner references do needs a finalizer, which would hold a deletion up.
    assert_eq!(app["metadata"].get("finalizers"), None);
    let owner = json!([{"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "shop", "uid": uid(&app),
        "controller": true, "blockOwnerDeletion": true}]);
    let labels = json!({"app.kubernetes.io/managed-by": "appdeploy", "app.kubernetes.io/name": "shop",
        "appdeploy.dev/app": "shop"});
    for kind in CHILDREN {
        let child = shop.get(kind, "shop");
        assert_eq!(child["metadata"]["ownerReferences"], owner, "{kind:?}");
        assert_eq!(child["metadata"]["labels"], labels, "{kind:?}");
    }
    let selector = json!({"appdeploy.dev/app": "shop"});
    assert_eq!(
        shop.get(DEPLOYMENT, "shop")["spec"]["selector"]["matchLabels"],
        selector
    );
    assert_eq!(shop.get(SERVICE, "shop")["spec"]["selector"], selector);
}

#[test]
fn deleted_child_is_recreated() {
    let shop = namespace("deleted");
    shop.settled_app("shop", web());
    for kind in CHILDREN {
        let before = shop.get(kind, "shop");
        shop.delete(kind, "shop");
        let after = shop.until_back(kind, &before);
        assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    }
}

#[test]
fn children_deleted_together_are_recreated_together() {
    let shop = namespace("together");
    shop.settled_app("shop", web());
    let before = CHILDREN.map(|kind| shop.get(kind, "shop"));
    for kind in CHILDREN {
        shop.delete(kind, "shop");
    }
    for (kind, before) in CHILDREN.into_iter().zip(&before) {
        shop.until_back(kind, before);
    }
}

#[test]
fn children_that_are_no_longer_wanted_are_pruned() {
    let shop = namespace("prune");
    shop.settled_app("shop", web());
    shop.set("shop", json!({"expose": "Cluster"}));
    shop.until_gone(INGRESS, "shop");
    let app = shop.until_reported("shop");
    assert_eq!(text(&app, "/status/url"), "http://shop.prune.svc:80/");
    assert!(!shop.get(SERVICE, "shop").is_null());

    shop.set("shop", json!({"port": null, "expose": null}));
    shop.until_gone(SERVICE, "shop");
    let app = shop.until(APP, "shop", "it has no URL", |app| {
        is_observed(app) && text(app, "/status/url").is_empty()
    });
    assert_eq!(app["status"].get("addresses"), None);
    assert!(!shop.get(DEPLOYMENT, "shop").is_null());

    shop.set("shop", json!({"port": 80}));
    shop.until_there(SERVICE, "shop");
    shop.until_there(INGRESS, "shop");
}

#[test]
fn children_are_deleted_after_their_owner_in_the_background() {
    go_with_their_owner(&namespace("background"), &DeleteParams::background());
}

#[test]
fn children_are_deleted_before_their_owner_in_the_foreground() {
    go_with_their_owner(&namespace("foreground"), &DeleteParams::foreground());
}

fn go_with_their_owner(shop: &Namespace, params: &DeleteParams) {
    shop.settled_app("shop", web());
    let mark = shop.mark();
    shop.delete_with(APP, "shop", params);
    shop.until_gone(APP, "shop");
    for kind in CHILDREN {
        shop.until_gone(kind, "shop");
    }
    // No child is recreated while the owner is being deleted: only its status may be written.
    let asked = shop.asked_since(mark).without("appdeploys");
    assert_eq!(asked.count(), 0, "{:?}", asked.tally());
}

#[test]
fn orphaned_children_are_not_changed() {
    let shop = namespace("orphan");
    shop.settled_app("shop", web());
    let before = CHILDREN.map(|kind| shop.get(kind, "shop"));
    shop.delete_with(APP, "shop", &DeleteParams::orphan());
    shop.until_gone(APP, "shop");
    shop.settle();
    for (kind, before) in CHILDREN.into_iter().zip(&before) {
        let after = shop.get(kind, "shop");
        assert_eq!(uid(&after), uid(before), "{kind:?}");
        assert_eq!(after["spec"], before["spec"], "{kind:?}");
        assert_eq!(after["metadata"].get("ownerReferences"), None, "{kind:?}");
    }
}

/// E9: by UID, not by name. The children of the old one are in the way until the garbage collector has them.
#[test]
fn recreated_app_gets_new_children() {
    let shop = namespace("recreated");
    shop.settled_app("shop", web());
    for round in 0..if is_long() { 200 } else { 5 } {
        shop.delete(APP, "shop");
        let app = shop.app("shop", web());
        for kind in CHILDREN {
            shop.until(
                kind,
                "shop",
                &format!("it is the new app's in round {round}"),
                |child| {
                    text(child, "/metadata/ownerReferences/0/uid") == uid(&app)
                        && child["metadata"].get("deletionTimestamp").is_none()
                },
            );
        }
        shop.until(APP, "shop", "the conflict is over", |app| {
            is_observed(app) && text(app, "/status/cause/reason") != "NameConflict"
        });
    }
}

/// E7: a terminating child is not written, and no other one of its name is created; its deletion wakes the app.
#[test]
fn child_with_a_finalizer_is_waited_for() {
    let shop = namespace("held");
    shop.settled_app("shop", web());
    let before = shop.get(SERVICE, "shop");
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    shop.patch(SERVICE, "shop", Patch::Merge(hold));
    let mark = shop.mark();
    shop.delete(SERVICE, "shop");
    std::thread::sleep(QUIET);
    // Except the Event about the deletion.
    let asked = shop.asked_since(mark).without("appdeploys").without("events");
    assert_eq!(asked.count(), 0, "{:?}", asked.tally());

    shop.patch(SERVICE, "shop", Patch::Merge(json!({"metadata": {"finalizers": null}})));
    shop.until_back(SERVICE, &before);
}

/// While a finalizer holds the Deployment, a new image can't be rolled out: the pods that are ready are not those of the spec.
#[test]
fn deployment_held_by_a_finalizer_is_not_ready_for_the_new_spec() {
    let shop = namespace("held-rollout");
    shop.settled_app("shop", json!({"image": "nginx:1"}));
    shop.pods_become_ready("shop");
    shop.until(APP, "shop", "it is ready", |app| ready(app) == ("True", "Available"));
    let before = shop.get(DEPLOYMENT, "shop");
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    shop.patch(DEPLOYMENT, "shop", Patch::Merge(hold));
    shop.delete(DEPLOYMENT, "shop");
    shop.patch(APP, "shop", Patch::Merge(json!({"spec": {"image": "nginx:2"}})));
    let app = shop.until(APP, "shop", "the new spec was seen", |app| {
        app["status"]["observedGeneration"] == 2
    });
    assert_eq!(ready(&app), ("False", "ChildDeleting"));
    let message =
        "Deployment shop is being deleted and waits for the finalizer example.com/hold; it is created again after that";
    assert_eq!(text(&app, "/status/cause/message"), message);

    shop.patch(
        DEPLOYMENT,
        "shop",
        Patch::Merge(json!({"metadata": {"finalizers": null}})),
    );
    shop.until_back(DEPLOYMENT, &before);
    shop.pods_become_ready("shop");
    shop.until(APP, "shop", "it is ready again", |app| {
        ready(app) == ("True", "Available")
    });
}

/// A5, E7: the status of an app with a finalizer of another client reports the deletion, and the app gets no children any more.
#[test]
fn terminating_app_gets_no_children() {
    let shop = namespace("terminating");
    let mut app = json!({"metadata": {"name": "shop", "finalizers": ["example.com/hold"]}});
    app["spec"] = web();
    shop.create(APP, app);
    shop.until_reported("shop");
    shop.delete(APP, "shop");
    let deleting = |app: &Value| ready(app) == ("False", "Deleting");
    shop.until(APP, "shop", "its status reports the deletion", deleting);
    shop.delete(DEPLOYMENT, "shop");
    std::thread::sleep(QUIET);
    assert!(shop.get(DEPLOYMENT, "shop").is_null());
    shop.patch(APP, "shop", Patch::Merge(json!({"metadata": {"finalizers": null}})));
    shop.until_gone(APP, "shop");
}
