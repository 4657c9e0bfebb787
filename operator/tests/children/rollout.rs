//! Restarts and pauses: what a person asks for without another spec.

use kube::api::Patch;
use serde_json::json;

use crate::children::namespace;
use crate::harness::{APP, DEPLOYMENT, web};

#[test]
fn restart_replaces_the_pods_and_is_in_the_status() {
    const AT: &str = "2026-01-02T03:04:05Z";
    let shop = namespace("restart");
    shop.settled_app("shop", web());
    let annotations = json!({"appdeploy.dev/restarted-at": AT});
    shop.patch(
        APP,
        "shop",
        Patch::Merge(json!({"metadata": {"annotations": annotations}})),
    );
    let app = shop.until(APP, "shop", "the status is about the restart", |app| {
        app["status"]["restartedAt"] == AT
    });
    assert_eq!(app["metadata"]["generation"], 1);
    let deployment = shop.get(DEPLOYMENT, "shop");
    assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"], annotations);
}

#[test]
fn pause_of_an_app_pauses_its_deployment() {
    let shop = namespace("pause");
    shop.settled_app("shop", web());
    assert_eq!(shop.get(DEPLOYMENT, "shop")["spec"].get("paused"), None);
    shop.patch(APP, "shop", Patch::Merge(json!({"spec": {"paused": true}})));
    shop.until(DEPLOYMENT, "shop", "it is paused", |it| it["spec"]["paused"] == true);
    shop.patch(
        APP,
        "shop",
        Patch::Merge(json!({"spec": {"paused": null, "image": "nginx:1.28"}})),
    );
    let resumed = shop.until(DEPLOYMENT, "shop", "it is resumed", |it| {
        it["spec"].get("paused").is_none()
    });
    assert_eq!(
        resumed["spec"]["template"]["spec"]["containers"][0]["image"],
        "nginx:1.28"
    );
}

/// An API server rejects the defaults of the other type, and an apply does not remove them.
#[test]
fn type_of_rollouts_can_be_changed_and_removed() {
    let shop = namespace("strategy");
    shop.settled_app("shop", web());
    for (rollout, strategy) in [
        (json!({"type": "Recreate"}), json!({"type": "Recreate"})),
        (
            json!({"type": "RollingUpdate", "maxSurge": 2}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "25%"}}),
        ),
        (
            json!({"type": "Recreate", "maxSurge": null}),
            json!({"type": "Recreate"}),
        ),
        (
            json!(null),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
        ),
    ] {
        shop.patch(APP, "shop", Patch::Merge(json!({"spec": {"rollout": rollout}})));
        shop.until(DEPLOYMENT, "shop", "it has the strategy", |it| {
            it["spec"]["strategy"] == strategy
        });
    }
    assert_eq!(shop.get(DEPLOYMENT, "shop")["spec"]["progressDeadlineSeconds"], 600);
}
