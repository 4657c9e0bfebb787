//! The number of pods is that of the AppDeploy, whatever other clients set.

use serde_json::json;

use crate::children::namespace;
use crate::harness::{APP, DEPLOYMENT, HPA, eventually, text, web};

#[test]
fn scale_subresource_scales_the_deployment() {
    let shop = namespace("scale");
    shop.settled_app("shop", web());
    shop.kubectl(&["scale", "appdeploy/shop", "--replicas=3"]);
    shop.until(DEPLOYMENT, "shop", "it has three replicas", |it| {
        it["spec"]["replicas"] == 3
    });
    assert_eq!(shop.get(APP, "shop")["status"]["selector"], "appdeploy.dev/app=shop");
}

#[test]
fn autoscaler_of_the_app_scales_the_deployment() {
    let shop = namespace("autoscaled");
    shop.settled_app("shop", web());
    shop.create(
        HPA,
        json!({"metadata": {"name": "shop"}, "spec": {"minReplicas": 4, "maxReplicas": 6,
            "scaleTargetRef": {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "shop"}}}),
    );
    shop.until(APP, "shop", "the autoscaler has set its minimum", |app| {
        app["spec"]["replicas"] == 4
    });
    shop.until(DEPLOYMENT, "shop", "it has four replicas", |it| {
        it["spec"]["replicas"] == 4
    });
}

#[test]
fn scaling_of_the_deployment_is_reverted_and_reported() {
    let shop = namespace("rival");
    shop.settled_app("shop", web());
    for replicas in ["--replicas=3", "--replicas=7"] {
        shop.kubectl(&["scale", "deployment/shop", replicas]);
        shop.until(DEPLOYMENT, "shop", "it has one replica again", |it| {
            it["spec"]["replicas"] == 1
        });
    }
    eventually("an Event reports it", || !shop.events_about("shop").is_empty());
    assert_eq!(
        shop.events_about("shop"),
        ["ScaledByAnother"],
        "once, however often it happens"
    );
    let event = &shop.app_events("shop")[0];
    assert!(
        text(event, "/message").starts_with("kubectl has scaled Deployment shop"),
        "{event:#}"
    );
}
