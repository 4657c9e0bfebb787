//! Rules for all fields of the definitions, including new ones.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::path::Path;

use serde_json::Value;

const FILES: [&str; 3] = ["appdeploys", "podsets", "appqueues"];

fn text(plural: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/crd");
    std::fs::read_to_string(folder.join(format!("{plural}.yaml"))).unwrap()
}

/// Returns the schema of a kind.
fn schema(plural: &str) -> Value {
    let mut definition: Value = serde_yaml::from_str(&text(plural)).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}

/// Calls a function with each nested schema and its path.
fn visit(schema: &Value, path: &str, seen: &mut dyn FnMut(&str, &Value)) {
    seen(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        visit(field, &format!("{path}.{name}"), seen);
    }
    for (below, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[below].is_object() {
            visit(&schema[below], &format!("{path}{mark}"), seen);
        }
    }
}

#[test]
fn no_field_accepts_null() {
    for plural in FILES {
        visit(&schema(plural), plural, &mut |path, schema| {
            assert!(schema.get("nullable").is_none(), "{path}");
        });
    }
}

/// The API server estimates the cost of a rule from the maximum size of the value.
#[test]
fn sizes_of_all_fields_of_a_spec_are_limited() {
    for plural in FILES {
        let schema = &schema(plural)["properties"]["spec"];
        visit(schema, plural, &mut |path, schema| {
            let has = |limit: &str| schema.get(limit).is_some();
            let is_bounded = match schema["type"].as_str() {
                Some("string") => has("maxLength") || has("enum"),
                Some("array") => has("maxItems"),
                Some("object") => has("properties") || has("maxProperties"),
                Some(_) => true,
                None => has("maxLength"),
            };
            assert!(is_bounded, "{path} has no limit: {schema}");
        });
    }
}

/// A new rule on a field is not checked for stored objects while the field does not change. A new rule on the whole spec is
/// checked on each update, so that stored objects could not be scaled. It is possible only if no object without a new field
/// breaks it.
#[test]
fn no_rule_is_added_to_a_whole_spec() {
    let rules = |plural: &str| schema(plural)["properties"]["spec"]["x-kubernetes-validations"].clone();
    let of_apps = rules("appdeploys");
    let fields: Vec<&str> = of_apps
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["message"].as_str().unwrap().split(": ").next().unwrap())
        .collect();
    let known = [
        "host, path, ingressClassName and tls need a port to lead to",
        "host, path, ingressClassName and tls publish the application",
        "a health check needs a port to ask",
        // About `probes`, which is newer than the other fields.
        "healthCheck is the short form of probes",
        // The others are about newer fields, too.
        "preStopSleepSeconds must be smaller than terminationGracePeriodSeconds (default 30), or the application is killed \
         before it can end; lower it, or raise the grace period",
        "automountServiceAccountToken needs a ServiceAccount",
        "initContainers and sidecars have no name in common",
        "mounts of initContainers and sidecars name volumes of the spec",
        "mounts of initContainers and sidecars can only write to an emptyDir",
        "volumes need a mountPath, unless mounts of initContainers or sidecars name them",
        "metrics need a port to read",
        "metrics.port has the name metrics, which one of ports has",
        "ports are in addition to port",
    ];
    assert_eq!(fields, known, "put a new rule on the field that it is about");
    assert_eq!(rules("podsets"), Value::Null);
    assert_eq!(rules("appqueues"), Value::Null);
}

/// `kubectl apply` stores a copy of an object in an annotation. All annotations together may have 256 KiB.
#[test]
fn definitions_fit_into_an_annotation() {
    for plural in FILES {
        let size = text(plural).len();
        assert!(size < 200 * 1024, "{plural} has {size} bytes");
    }
}
