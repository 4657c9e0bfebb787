//! Objects that were stored before a rule existed can still be read, scaled and changed: a rule on a field is not checked
//! while that field stays as it is. A rule on the whole spec has no such exception.

use std::sync::Arc;

use kube::CustomResourceExt as _;
use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, config, eventually};
use crate::schema::bad_specs;

/// Removes the limits of a field of a spec, and its rules, except the `kept` ones.
fn remove_limits(schema: &mut Value, kept: &[&str]) {
    const LIMITS: [&str; 9] = [
        "enum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minimum",
        "pattern",
        "x-kubernetes-validations",
    ];
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, _| !LIMITS.contains(&name.as_str()) || kept.contains(&name.as_str()));
            fields.values_mut().for_each(|field| remove_limits(field, kept));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_limits(item, kept)),
        _ => {}
    }
}

#[test]
fn stored_objects_that_break_a_newer_rule_can_be_scaled_and_changed() {
    let cluster = Arc::new(Cluster::without_crd(ControlPlane::builder()));
    let mut older = serde_json::to_value(crd::AppDeploy::crd()).unwrap();
    let fields = &mut older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for (name, field) in fields.as_object_mut().unwrap() {
        // The API server estimates the costs of the rules of the whole spec, which are about these fields, from their sizes.
        let is_in_a_rule = ["initContainers", "sidecars", "volumes"].contains(&name.as_str());
        remove_limits(field, if is_in_a_rule { &["maxItems", "maxLength"] } else { &[] });
    }
    cluster.apply_crd(APP, &older.to_string());
    let shop = cluster.namespace("shop");
    // Some are of a wrong type or break a rule of the whole spec, so that no version stored them.
    let specs = bad_specs().into_iter().map(|(spec, _)| spec);
    let all: Vec<_> = specs
        .enumerate()
        .filter_map(|(number, spec)| {
            let name = format!("shop-{number}");
            let object = json!({"metadata": {"name": name}, "spec": spec});
            shop.try_create(APP, object).is_ok().then_some((name, spec))
        })
        .collect();
    assert!(all.len() >= 50, "{} of them", all.len());
    cluster.apply_crd(APP, &config("crd/appdeploys.yaml"));
    // The rules count from here on.
    eventually("the new schema is served", || {
        let new = json!({"metadata": {"generateName": "new-"}, "spec": all[0].1});
        shop.try_create(APP, new).is_err()
    });
    for (name, spec) in all {
        if spec.get("replicas").is_none() {
            shop.kubectl(&["scale", "appdeploy", &name, "--replicas=3"]);
        }
        let change = json!({"spec": {"paused": true}, "metadata": {"labels": {"a": "b"}}});
        shop.patch(APP, &name, Patch::Merge(change));
        shop.patch_status(APP, &name, json!({"replicas": 3}));
        let app = shop.get(APP, &name);
        assert_eq!(app["spec"]["paused"], true, "{name}: {spec}");
    }
}
