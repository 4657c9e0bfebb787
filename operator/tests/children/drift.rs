//! Fields of the operator are restored after a manual change; fields of other managers are kept.

use kube::api::Patch;
use serde_json::{Value, json};

use crate::children::{CHILDREN, namespace};
use crate::harness::{APP, DEPLOYMENT, INGRESS, Kind, SERVICE, is_observed, text, uid, web};

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

/// F10, and F13 in the rows of the label by which the operator's watches select: without it they report a child as deleted.
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
            "{path} was restored by recreating the child"
        );
    }
}

/// The patch that restores a field leaves the fields of the operator in the entry of managedFields in which a later change finds
/// them.
#[test]
fn field_can_be_dropped_after_another_was_restored() {
    let shop = namespace("then");
    shop.settled_app(
        "shop",
        json!({"image": "nginx", "env": [{"name": "MODE", "value": "live"}]}),
    );
    let before = shop.get(DEPLOYMENT, "shop");
    let drift = json!({"metadata": {"labels": {"appdeploy.dev/app": "other"}}, "spec": {"replicas": 5}});
    let drifted = shop.patch(DEPLOYMENT, "shop", Patch::Merge(drift));
    assert_ne!(wish(&drifted), wish(&before));
    shop.until(DEPLOYMENT, "shop", "it is as before", |child| {
        wish(child) == wish(&before)
    });
    shop.set("shop", json!({"image": "nginx", "env": null}));
    shop.until(DEPLOYMENT, "shop", "the variable was removed", |child| {
        child.pointer("/spec/template/spec/containers/0/env").is_none()
    });
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
fn removed_selector_label_is_restored() {
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

/// Fields of other managers are kept: the sidecar of a mesh, an annotation of a team.
#[test]
fn fields_of_other_managers_are_kept_and_cost_no_write() {
    let shop = namespace("unowned");
    shop.settled_app("shop", web());
    let mark = shop.mark();
    let annotation = json!({"metadata": {"annotations": {"example.com/team": "blue"}, "labels": {"team": "blue"}}});
    for kind in CHILDREN {
        shop.patch(kind, "shop", Patch::Merge(annotation.clone()));
    }
    let sidecar = json!({"spec": {"template": {"spec": {"containers": [{"name": "mesh", "image": "mesh:1"}]}}}});
    shop.patch(DEPLOYMENT, "shop", Patch::Strategic(sidecar));
    shop.settle();
    assert_eq!(shop.asked_since(mark).tally(), std::collections::BTreeMap::new());

    shop.set(
        "shop",
        json!({"image": "nginx:1.28", "host": "shop.example.com", "port": 8080}),
    );
    shop.until(APP, "shop", "the change is seen", |app| {
        is_observed(app) && app["metadata"]["generation"] == 2
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
