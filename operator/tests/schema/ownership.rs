//! Owners of fields after server-side apply: a field without a value has none, and a reference has one owner.

use kube::Error;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{APP, Kind, Namespace};

use super::namespace;

/// Applies an object as a field manager, over the fields of others.
fn apply(space: &Namespace, kind: Kind, manager: &str, name: &str, spec: &Value) -> Result<Value, Error> {
    let object =
        json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {"name": name}, "spec": spec});
    let params = PatchParams::apply(manager).force();
    let (api, patch) = (space.api(kind), Patch::Apply(&object));
    let applied = space.cluster.block_on(api.patch(name, &params, &patch));
    applied.map(|object| serde_json::to_value(object).unwrap())
}

#[test]
fn null_is_not_stored() {
    let shop = namespace("nulls");
    let spec = json!({"image": "nginx", "port": null, "host": null, "tls": null, "resources": null,
        "env": [{"name": "A", "value": null, "valueFrom": null}]});
    let created = shop.app("created", spec.clone());
    assert_eq!(
        created["spec"],
        json!({"image": "nginx", "env": [{"name": "A"}], "replicas": 1})
    );
    // An API server does not drop it from what is applied, so that no manager owns it.
    let refused = apply(&shop, APP, "git", "applied", &spec).unwrap_err().to_string();
    assert!(
        refused.contains("spec.port in body must be of type integer"),
        "{refused}"
    );
}

#[test]
fn references_of_two_managers_are_not_merged() {
    let shop = namespace("halves");
    let with = |source: Value, tls: Value| json!({"image": "nginx", "port": 80, "env": [{"name": "A", "valueFrom": source}], "tls": tls});
    let secret = json!({"secretKeyRef": {"name": "db", "key": "password", "optional": true}});
    let first = with(secret, json!({"secretName": "first"}));
    apply(&shop, APP, "first", "shop", &first).unwrap();
    for source in [
        json!({"configMapKeyRef": {"name": "db", "key": "password"}}),
        json!({"secretKeyRef": {"name": "other", "key": "password"}}),
    ] {
        let second = with(source.clone(), json!({"secretName": "second"}));
        let app = apply(&shop, APP, "second", "shop", &second).unwrap();
        assert_eq!(app["spec"]["env"][0]["valueFrom"], source);
        assert_eq!(app["spec"]["tls"], json!({"secretName": "second"}));
        apply(&shop, APP, "first", "shop", &first).unwrap();
    }
}
