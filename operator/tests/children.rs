//! An application's children are made, kept as they are wanted, and go with it.
//!
//! The garbage collector and the autoscaler run; no controller makes pods, so nothing else writes children.

#[path = "harness/harness.rs"]
mod harness;

use kube::api::{DeleteParams, Patch};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use harness::{
    APP, Cluster, DEPLOYMENT, EVENT, HPA, INGRESS, Kind, Namespace, QUIET, SERVICE, Shared, text, told, uid, web,
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
fn children_carry_their_owner_and_labels_and_the_owner_no_finalizer() {
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
fn a_deleted_child_comes_back() {
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
fn children_deleted_together_come_back_together() {
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

/// What a person can change of a child that is not theirs to change: where, and to what.
fn drifts() -> Vec<(Kind, &'static str, Value)> {
    let label = "/metadata/labels/appdeploy.dev~1app";
    let managed_by = "/metadata/labels/app.kubernetes.io~1managed-by";
    let hash = "/metadata/annotations/appdeploy.dev~1desired-hash";
    vec![
        (DEPLOYMENT, "/spec/template/spec/containers/0/image", json!("evil")),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/ports/0/containerPort",
            json!(81),
        ),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/ports/0/name",
            json!("other"),
        ),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/env/0/value",
            json!("test"),
        ),
        (DEPLOYMENT, "/spec/template/spec/containers/0/args/0", json!("--quiet")),
        (
            DEPLOYMENT,
            "/spec/template/spec/containers/0/securityContext/allowPrivilegeEscalation",
            json!(true),
        ),
        (
            DEPLOYMENT,
            "/spec/template/spec/automountServiceAccountToken",
            json!(true),
        ),
        (DEPLOYMENT, "/spec/replicas", json!(5)),
        (DEPLOYMENT, label, json!("other")),
        (DEPLOYMENT, hash, json!("0")),
        (
            DEPLOYMENT,
            "/metadata/annotations/appdeploy.dev~1revision-spec",
            json!("{}"),
        ),
        (DEPLOYMENT, managed_by, json!("helm")),
        (SERVICE, "/spec/ports/0/port", json!(81)),
        (SERVICE, "/spec/ports/0/targetPort", json!(81)),
        (SERVICE, "/spec/ports/0/name", json!("other")),
        (SERVICE, "/spec/selector/appdeploy.dev~1app", json!("other")),
        (SERVICE, "/spec/type", json!("NodePort")),
        (SERVICE, label, json!("other")),
        (SERVICE, hash, json!("0")),
        (SERVICE, managed_by, json!("helm")),
        (INGRESS, "/spec/rules/0/host", json!("evil.example.com")),
        (INGRESS, "/spec/rules/0/http/paths/0/path", json!("/admin")),
        (
            INGRESS,
            "/spec/rules/0/http/paths/0/backend/service/name",
            json!("other"),
        ),
        (INGRESS, label, json!("other")),
        (INGRESS, hash, json!("0")),
        (INGRESS, managed_by, json!("helm")),
    ]
}

/// F10, and F13 in the rows of the label by which the operator's watches select: without it a child is gone
/// from their view, as if it were deleted.
#[test]
fn every_owned_field_is_restored() {
    let shop = namespace("drift");
    let mut spec = web();
    spec["env"] = json!([{"name": "MODE", "value": "live"}]);
    spec["args"] = json!(["--verbose"]);
    shop.settled_app("shop", spec);
    for (kind, path, drift) in drifts() {
        let before = shop.get(kind, "shop");
        let patch = json!([{"op": "replace", "path": path, "value": drift}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        let drifted = shop.patch(kind, "shop", patch);
        assert_eq!(drifted.pointer(path), Some(&drift), "{path}");
        let restored = shop.until(kind, "shop", &format!("{path} is as before"), |child| {
            wish(child) == wish(&before)
        });
        assert_eq!(
            uid(&restored),
            uid(&before),
            "{path} was restored by making the child anew"
        );
    }
}

/// Everything that a person or the operator can own of an object.
fn wish(object: &Value) -> Value {
    let meta = &object["metadata"];
    let mut spec = object["spec"].clone();
    // Given by the API server with the type NodePort, and taken away with it.
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("externalTrafficPolicy");
    }
    json!([meta["labels"], meta["annotations"], meta["ownerReferences"], spec])
}

#[test]
fn a_removed_selector_label_is_put_back() {
    let shop = namespace("label");
    shop.settled_app("shop", web());
    for kind in CHILDREN {
        let before = shop.get(kind, "shop");
        let none = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
        shop.patch(kind, "shop", Patch::Merge(none));
        let after = shop.until(kind, "shop", "the label is back", |child| wish(child) == wish(&before));
        assert_eq!(uid(&after), uid(&before));
    }
}

/// What somebody adds beside the operator's fields is theirs: a mesh's sidecar, a team's annotation.
#[test]
fn what_others_add_stays_and_is_not_fought_over() {
    let shop = namespace("unowned");
    shop.settled_app("shop", web());
    let mark = shop.mark();
    let annotation = json!({"metadata": {"annotations": {"example.com/team": "blue"}, "labels": {"team": "blue"}}});
    for kind in CHILDREN {
        shop.patch(kind, "shop", Patch::Merge(annotation.clone()));
    }
    let sidecar = json!({"spec": {"template": {"spec": {"containers": [{"name": "mesh", "image": "mesh:1"}]}}}});
    shop.patch(DEPLOYMENT, "shop", Patch::Strategic(sidecar));
    std::thread::sleep(QUIET);
    assert_eq!(shop.asked_since(mark).tally(), std::collections::BTreeMap::new());

    shop.set(
        "shop",
        json!({"image": "nginx:1.28", "host": "shop.example.com", "port": 8080}),
    );
    shop.until(APP, "shop", "the change is seen", |app| {
        told(app) && app["metadata"]["generation"] == 2
    });
    for kind in CHILDREN {
        let child = shop.get(kind, "shop");
        assert_eq!(child["metadata"]["annotations"]["example.com/team"], "blue", "{kind:?}");
        assert_eq!(child["metadata"]["labels"]["team"], "blue", "{kind:?}");
    }
    let deployment = shop.get(DEPLOYMENT, "shop");
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let mut images: Vec<&str> = containers.iter().map(|container| text(container, "/image")).collect();
    images.sort_unstable();
    assert_eq!(images, ["mesh:1", "nginx:1.28"]);
}

#[test]
fn children_that_are_no_longer_wanted_are_pruned() {
    let shop = namespace("prune");
    shop.settled_app("shop", web());
    shop.set("shop", json!({"expose": "Service"}));
    shop.until_gone(INGRESS, "shop");
    let app = shop.until_told("shop");
    assert_eq!(text(&app, "/status/url"), "http://shop.prune.svc:80/");
    assert!(!shop.get(SERVICE, "shop").is_null());

    shop.set("shop", json!({"port": null, "expose": null}));
    shop.until_gone(SERVICE, "shop");
    let app = shop.until(APP, "shop", "it has no URL", |app| {
        told(app) && text(app, "/status/url").is_empty()
    });
    assert_eq!(app["status"].get("address"), None);
    assert!(!shop.get(DEPLOYMENT, "shop").is_null());

    shop.set("shop", json!({"port": 80}));
    shop.until_there(SERVICE, "shop");
    shop.until_there(INGRESS, "shop");
}

#[test]
fn children_go_with_their_owner() {
    for (name, params) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
    ] {
        let shop = namespace(name);
        shop.settled_app("shop", web());
        let mark = shop.mark();
        shop.delete_with(APP, "shop", &params);
        shop.until_gone(APP, "shop");
        for kind in CHILDREN {
            shop.until_gone(kind, "shop");
        }
        // Nothing is made anew while the owner goes: only its status may still be told.
        let asked = shop.asked_since(mark).without("appdeploys");
        assert_eq!(asked.count(), 0, "{name}: {:?}", asked.tally());
    }
}

#[test]
fn orphans_stay_as_they_are() {
    let shop = namespace("orphan");
    shop.settled_app("shop", web());
    let before = CHILDREN.map(|kind| shop.get(kind, "shop"));
    shop.delete_with(APP, "shop", &DeleteParams::orphan());
    shop.until_gone(APP, "shop");
    std::thread::sleep(QUIET);
    for (kind, before) in CHILDREN.into_iter().zip(&before) {
        let after = shop.get(kind, "shop");
        assert_eq!(uid(&after), uid(before), "{kind:?}");
        assert_eq!(after["spec"], before["spec"], "{kind:?}");
        assert_eq!(after["metadata"].get("ownerReferences"), None, "{kind:?}");
    }
}

/// E9: by UID, not by name. The children of the old one are in the way until the garbage collector has them.
#[test]
fn an_app_made_anew_under_its_name_gets_children_of_its_own() {
    let shop = namespace("anew");
    shop.settled_app("shop", web());
    for round in 0..5 {
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
            told(app) && text(app, "/status/cause/reason") != "NameConflict"
        });
    }
}

#[test]
fn the_scale_subresource_scales_the_deployment() {
    let shop = namespace("scale");
    shop.settled_app("shop", web());
    shop.kubectl(&["scale", "appdeploy/shop", "--replicas=3"]);
    shop.until(DEPLOYMENT, "shop", "it has three replicas", |it| {
        it["spec"]["replicas"] == 3
    });
    assert_eq!(shop.get(APP, "shop")["status"]["selector"], "appdeploy.dev/app=shop");
}

#[test]
fn an_autoscaler_of_the_app_is_obeyed() {
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
fn who_scales_the_deployment_is_overruled_and_told() {
    let shop = namespace("rival");
    shop.settled_app("shop", web());
    for replicas in ["--replicas=3", "--replicas=7"] {
        shop.kubectl(&["scale", "deployment/shop", replicas]);
        shop.until(DEPLOYMENT, "shop", "it has one replica again", |it| {
            it["spec"]["replicas"] == 1
        });
    }
    harness::eventually("an Event tells of it", || !shop.events_about("shop").is_empty());
    assert_eq!(
        shop.events_about("shop"),
        ["ScaledByAnother"],
        "once, however often it happens"
    );
    let event = &shop.list(EVENT)[0];
    assert!(
        text(event, "/message").starts_with("kubectl has scaled Deployment shop"),
        "{event:#}"
    );
}
