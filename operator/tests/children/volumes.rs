//! Volumes, ServiceAccounts and nodes of pods, as a real API server stores them.

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, DEPLOYMENT, Namespace, POD, PODSET, Shared, condition, ready, text};

/// An operator without webhooks that accepts all fields.
fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED
        .get(|| Cluster::start(ControlPlane::builder()).with_operator(&["--allow-unchecked-fields"]))
        .namespace(name)
}

fn every_field() -> Value {
    json!({"image": "nginx:1", "serviceAccount": {"name": "shop"}, "automountServiceAccountToken": true, "hostUsers": false,
        "placement": {"nodeSelector": {"disktype": "ssd"}, "tolerations": [{"key": "gpu", "value": "a"}]}, "volumes": [
        {"name": "config", "mountPath": "/config", "configMap": {"name": "shop", "optional": true,
            "items": [{"key": "a", "path": "a/b"}]}},
        {"name": "keys", "mountPath": "/keys", "secret": {"secretName": "shop"}},
        {"name": "cache", "mountPath": "/cache", "emptyDir": {"medium": "Memory", "sizeLimit": "0.5Gi"}},
        {"name": "inbox", "mountPath": "/inbox", "readOnly": true, "emptyDir": {}},
        {"name": "assets", "mountPath": "/assets", "image": {"reference": "assets:1"}}]})
}

/// Returns what the pods of a Deployment have of a list, by a field.
fn list(deployment: &Value, pointer: &str, key: &str) -> Vec<String> {
    let items = deployment.pointer(pointer).and_then(Value::as_array);
    let items = items.into_iter().flatten();
    items.map(|item| text(item, &format!("/{key}")).to_owned()).collect()
}

const MOUNTS: &str = "/spec/template/spec/containers/0/volumeMounts";

#[test]
fn steady_app_with_every_field_costs_no_write() {
    let shop = namespace("every-field");
    shop.settled_app("shop", every_field());
    let before = shop.until_there(DEPLOYMENT, "shop");
    let pod = &before["spec"]["template"]["spec"];
    assert_eq!(
        list(&before, MOUNTS, "mountPath"),
        ["/config", "/keys", "/cache", "/inbox", "/assets"]
    );
    assert_eq!(
        pod["volumes"][2]["emptyDir"],
        json!({"medium": "Memory", "sizeLimit": "512Mi"})
    );
    assert_eq!(pod["volumes"][4]["image"]["reference"], "assets:1");
    assert_eq!(
        (&pod["serviceAccountName"], &pod["automountServiceAccountToken"]),
        (&json!("shop"), &json!(true))
    );
    assert_eq!(
        (&pod["nodeSelector"], &pod["tolerations"], &pod["hostUsers"]),
        (
            &json!({"disktype": "ssd"}),
            &json!([{"key": "gpu", "value": "a"}]),
            &json!(false)
        )
    );
    shop.patch(APP, "shop", Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})));
    shop.settle();
    let after = shop.get(DEPLOYMENT, "shop");
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
}

/// A volume has one source, and Kubernetes merges mounts by their path: what is no longer wanted must be removed.
#[test]
fn changed_volume_replaces_the_old_one() {
    let shop = namespace("changed-volume");
    let volume = |path: &str, kind: &str, source: Value| json!({"name": "v", "mountPath": path, kind: source});
    shop.settled_app(
        "shop",
        json!({"image": "nginx:1", "volumes": [volume("/a", "emptyDir", json!({}))]}),
    );
    for (path, kind, source) in [
        ("/a", "configMap", json!({"name": "shop"})),
        ("/b", "configMap", json!({"name": "shop"})),
        ("/b", "emptyDir", json!({})),
        ("/b", "secret", json!({"secretName": "shop"})),
    ] {
        shop.set("shop", json!({"volumes": [volume(path, kind, source)]}));
        shop.until(
            DEPLOYMENT,
            "shop",
            &format!("it has the {kind} at {path}"),
            |deployment| {
                let volume = &deployment["spec"]["template"]["spec"]["volumes"][0];
                let fields = volume.as_object().map_or(0, serde_json::Map::len);
                volume[kind].is_object() && fields == 2 && list(deployment, MOUNTS, "mountPath") == [path]
            },
        );
    }
    shop.set("shop", json!({"volumes": null}));
    shop.until(DEPLOYMENT, "shop", "it has no volume", |deployment| {
        let pod = &deployment["spec"]["template"]["spec"];
        pod["volumes"].is_null() && list(deployment, MOUNTS, "mountPath").is_empty()
    });
}

/// Node selectors and tolerations belong to one manager as a whole: with another label, the pods would have no node.
#[test]
fn nodes_of_the_pods_are_changed_restored_and_removed() {
    let shop = namespace("nodes");
    let placement = |fields: Value| json!({"placement": fields});
    shop.settled_app("shop", json!({"image": "nginx:1"}));
    let until = |what: &str, selector: Value, tolerations: Value| {
        shop.until(DEPLOYMENT, "shop", what, |deployment| {
            let pod = &deployment["spec"]["template"]["spec"];
            (&pod["nodeSelector"], &pod["tolerations"]) == (&selector, &tolerations)
        });
    };
    let gpu = json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]);
    shop.set(
        "shop",
        placement(json!({"nodeSelector": {"disktype": "ssd"}, "tolerations": gpu})),
    );
    until("it has both", json!({"disktype": "ssd"}), gpu.clone());
    let drift = json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}, "tolerations": []}}}});
    shop.patch(DEPLOYMENT, "shop", Patch::Merge(drift));
    until("both are restored", json!({"disktype": "ssd"}), gpu.clone());
    shop.set(
        "shop",
        placement(json!({"nodeSelector": {"disktype": null, "zone": "a"}})),
    );
    until("it has another label", json!({"zone": "a"}), gpu.clone());
    shop.set("shop", placement(json!({"nodeSelector": null})));
    until("it has no label", Value::Null, gpu);
    shop.set("shop", placement(Value::Null));
    until("it has neither", Value::Null, Value::Null);
    // Without them in the spec, those of another manager are kept.
    let theirs = json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}});
    shop.patch(DEPLOYMENT, "shop", Patch::Merge(theirs));
    shop.set("shop", json!({"replicas": 2}));
    shop.until(DEPLOYMENT, "shop", "it has two pods", |deployment| {
        deployment["spec"]["replicas"] == 2
    });
    until("the label is kept", json!({"zone": "b"}), Value::Null);
}

#[test]
fn removed_mount_is_restored() {
    let shop = namespace("removed-mount");
    shop.settled_app("shop", every_field());
    let removed = json!([{"op": "remove", "path": format!("{MOUNTS}/2")}]);
    let removed: Patch<()> = Patch::Json(serde_json::from_value(removed).unwrap());
    shop.patch(DEPLOYMENT, "shop", removed);
    shop.until(DEPLOYMENT, "shop", "the mount is back", |deployment| {
        list(deployment, MOUNTS, "mountPath").contains(&"/cache".to_owned())
    });
}

#[test]
fn pods_of_a_pod_set_have_the_fields() {
    let shop = namespace("set-fields");
    shop.kubectl(&["create", "serviceaccount", "shop"]);
    shop.podset("set", json!({"template": every_field()}));
    let pod = shop.until_there(POD, "set-0");
    let mounts = list(&pod, "/spec/containers/0/volumeMounts", "mountPath");
    for path in ["/config", "/keys", "/cache", "/inbox", "/assets"] {
        assert!(mounts.contains(&path.to_owned()), "{mounts:?}");
    }
    assert_eq!(pod["spec"]["serviceAccountName"], "shop");
    assert_eq!(pod["spec"]["nodeSelector"], json!({"disktype": "ssd"}));
    assert_eq!(pod["spec"]["hostUsers"], false);
    // The API server adds its own tolerations. They are no reason to replace the pod.
    assert_eq!(pod["spec"]["tolerations"][0], json!({"key": "gpu", "value": "a"}));
    shop.settle();
    assert_eq!(
        shop.get(POD, "set-0")["metadata"]["uid"],
        pod["metadata"]["uid"],
        "the pod is kept"
    );
}

/// Without webhooks the rights of authors are not reviewed.
#[test]
fn fields_that_need_a_review_are_refused_without_webhooks() {
    let shop = super::namespace("unreviewed");
    let fields = |fields: Value| {
        let mut spec = fields;
        spec["image"] = json!("nginx:1");
        spec
    };
    let account = json!({"serviceAccount": {"name": "shop"}});
    let image = json!({"volumes": [{"name": "a", "mountPath": "/a", "image": {"reference": "assets:1"}}]});
    let fields_and_paths = [
        (account, "serviceAccount"),
        (image, "volumes[a].image"),
        (
            json!({"initContainers": [{"name": "a", "image": "a"}]}),
            "initContainers",
        ),
        (json!({"placement": {"nodeSelector": {"a": "b"}}}), "placement"),
        (json!({"sidecars": [{"name": "a", "image": "a"}]}), "sidecars"),
    ];
    for (number, (spec, path)) in fields_and_paths.into_iter().enumerate() {
        let name = format!("shop-{number}");
        let app = shop.settled_app(&name, fields(spec.clone()));
        assert_eq!(ready(&app), ("False", "InvalidSpec"));
        let message = text(condition(&app, "Ready").unwrap(), "/message");
        assert!(
            message.contains(&format!("spec.{path}: the operator runs without webhooks")),
            "{message}"
        );
        assert!(message.contains("--allow-unchecked-fields"), "{message}");
        assert!(shop.get(DEPLOYMENT, &name).is_null());
        let set = format!("set-{number}");
        shop.podset(&set, json!({"template": fields(spec)}));
        let set = shop.until(PODSET, &set, "it is refused", |set| {
            ready(set) == ("False", "InvalidSpec")
        });
        let message = text(condition(&set, "Ready").unwrap(), "/message");
        assert!(message.contains(&format!("spec.template.{path}: ")), "{message}");
    }
    assert_eq!(shop.list(POD), [Value::Null; 0]);
    // References are accepted: anyone who may create Deployments could use them, too.
    shop.settled_app(
        "plain",
        fields(json!({"volumes": [{"name": "a", "mountPath": "/a", "secret": {"secretName": "a"}}]})),
    );
    shop.until_there(DEPLOYMENT, "plain");
}
