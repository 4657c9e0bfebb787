//! The ServiceAccount that an app has for itself.

use std::collections::BTreeMap;

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, Namespace, PODSET, SERVICE_ACCOUNT, Shared, condition, ready, text, uid,
};

/// An operator without webhooks that accepts all fields.
fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED
        .get(|| Cluster::start(ControlPlane::builder()).with_operator(&["--allow-unchecked-fields"]))
        .namespace(name)
}

fn with_annotations(annotations: Value) -> Value {
    json!({"image": "nginx:1", "serviceAccount": {"annotations": annotations}, "automountServiceAccountToken": true})
}

fn account_of(deployment: &Value) -> &str {
    text(deployment, "/spec/template/spec/serviceAccountName")
}

/// Marks the Deployment as rolled out, also after its next changes.
fn roll_out(shop: &Namespace) {
    let status = json!({"observedGeneration": 1000, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    shop.patch_status(DEPLOYMENT, "shop", status);
}

#[test]
fn own_service_account_follows_the_spec() {
    let shop = namespace("own-account");
    let mark = shop.mark();
    let app = shop.settled_app("shop", with_annotations(json!({"a.io/role": "x", "a.io/tenant": "y"})));
    let account = shop.until_there(SERVICE_ACCOUNT, "shop");
    assert_eq!(text(&account, "/metadata/ownerReferences/0/uid"), uid(&app));
    assert_eq!(account["metadata"]["annotations"]["a.io/role"], "x");
    let deployment = shop.until_there(DEPLOYMENT, "shop");
    assert_eq!(account_of(&deployment), "shop");
    shop.settle();
    let costs = |of: &[(&str, usize)]| -> BTreeMap<String, usize> {
        of.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect()
    };
    assert_eq!(
        shop.asked_since(mark).tally(),
        costs(&[
            ("create serviceaccounts", 1),
            ("create deployments", 1),
            ("patch appdeploys/status", 1)
        ]),
        "one write more than without"
    );

    // Drift is repaired. What others add stays.
    let drift = json!({"metadata": {"annotations": {"a.io/role": "z", "theirs": "1"}}, "imagePullSecrets": [{"name": "theirs"}]});
    shop.patch(SERVICE_ACCOUNT, "shop", Patch::Merge(drift));
    let repaired = shop.until(SERVICE_ACCOUNT, "shop", "it is repaired", |account| {
        account["metadata"]["annotations"]["a.io/role"] == "x"
    });
    assert_eq!(repaired["metadata"]["annotations"]["theirs"], "1");
    shop.set(
        "shop",
        json!({"serviceAccount": {"annotations": {"a.io/role": "w", "a.io/tenant": null}}}),
    );
    let changed = shop.until(SERVICE_ACCOUNT, "shop", "it is changed", |account| {
        account["metadata"]["annotations"]["a.io/role"] == "w"
    });
    let annotations = &changed["metadata"]["annotations"];
    assert_eq!(
        (&annotations["a.io/tenant"], &annotations["theirs"]),
        (&Value::Null, &json!("1"))
    );
    assert_eq!(changed["imagePullSecrets"], json!([{"name": "theirs"}]));

    // A steady app costs no write, and a lost ServiceAccount is created again.
    shop.settle();
    let mark = shop.mark();
    shop.patch(APP, "shop", Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})));
    shop.settle();
    assert_eq!(shop.asked_since(mark).tally(), BTreeMap::new());
    shop.delete(SERVICE_ACCOUNT, "shop");
    shop.until_back(SERVICE_ACCOUNT, &changed);

    // The pods of the previous revision need it until they are replaced.
    shop.set(
        "shop",
        json!({"serviceAccount": null, "automountServiceAccountToken": null}),
    );
    shop.until(DEPLOYMENT, "shop", "the pods have no account", |deployment| {
        account_of(deployment).is_empty()
    });
    shop.settle();
    assert!(!shop.get(SERVICE_ACCOUNT, "shop").is_null());
    roll_out(&shop);
    shop.until_gone(SERVICE_ACCOUNT, "shop");
}

/// The pods would have its rights.
#[test]
fn pods_do_not_run_as_a_third_party_service_account() {
    let shop = namespace("taken-account");
    shop.create(
        SERVICE_ACCOUNT,
        json!({"metadata": {"name": "shop", "annotations": {"a.io/role": "admin"}}}),
    );
    let before = shop.bytes(SERVICE_ACCOUNT, "shop");
    let app = shop.settled_app("shop", with_annotations(json!({"a.io/role": "x"})));
    assert_eq!(ready(&app), ("False", "NameConflict"));
    let message = text(condition(&app, "Ready").unwrap(), "/message");
    assert!(
        message.starts_with("ServiceAccount shop exists and is not managed by appdeploy"),
        "{message}"
    );
    shop.settle();
    assert!(shop.get(DEPLOYMENT, "shop").is_null());
    assert_eq!(shop.bytes(SERVICE_ACCOUNT, "shop"), before);
    shop.delete(SERVICE_ACCOUNT, "shop");
    shop.until(SERVICE_ACCOUNT, "shop", "it is the app's own", |account| {
        account["metadata"]["annotations"]["a.io/role"] == "x"
    });
    let deployment = shop.until_there(DEPLOYMENT, "shop");
    assert_eq!(account_of(&deployment), "shop");
}

#[test]
fn pod_set_has_no_service_account_of_its_own() {
    let shop = namespace("set-account");
    let refused = shop.try_create(
        PODSET,
        json!({"metadata": {"name": "set"}, "spec": {"template": with_annotations(json!({}))}}),
    );
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("set spec.template.serviceAccount.name"), "{message}");
}
