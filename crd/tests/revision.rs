//! The revision increases with each change of the schema, so that an older definition does not replace a newer one.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

#[path = "../examples/manifests/revision.rs"]
mod revision;

use std::path::Path;

use revision::Revision;
use serde_json::{Value, json};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn recorded() -> Revision {
    read("revision").parse().unwrap()
}

#[test]
fn manifests_have_the_revision_of_their_schema() {
    let definitions = ["appdeploys", "podsets", "appqueues"]
        .map(|plural| serde_yaml::from_str::<Value>(&read(&format!("../config/crd/{plural}.yaml"))).unwrap());
    assert_eq!(
        recorded().of(&definitions),
        recorded(),
        "the schema has changed: run `make manifests`"
    );
    for definition in definitions {
        let annotations = &definition["metadata"]["annotations"];
        assert_eq!(
            annotations[crd::annotation::SCHEMA_REVISION],
            recorded().number.to_string()
        );
        // Prevents Flux and Argo CD from deleting definitions that are no longer in Git.
        assert_eq!(annotations["kustomize.toolkit.fluxcd.io/prune"], "disabled");
        assert_eq!(
            annotations["argocd.argoproj.io/sync-options"],
            "Prune=false,Delete=false"
        );
    }
}

#[test]
fn only_a_change_of_the_schema_is_a_new_revision() {
    let definition = |schema: Value| {
        let versions = json!([{"name": "v1", "schema": {"openAPIV3Schema": schema}}]);
        json!({"metadata": {"name": "x"}, "spec": {"versions": versions}})
    };
    let first = recorded().of(&[definition(json!({"properties": {"a": {"type": "string"}}}))]);
    assert_eq!(first.number, recorded().number + 1);
    let mut labelled = definition(json!({"properties": {"a": {"type": "string"}}}));
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(first.of(&[labelled]), first);
    for other in [
        json!({"properties": {"a": {"type": "integer"}}}),
        json!({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        json!({"properties": {"a": {"description": "What it is.", "type": "string"}}}),
        json!({"properties": {}}),
    ] {
        assert_eq!(first.of(&[definition(other)]).number, first.number + 1);
    }
    let read: Revision = first.to_string().parse().unwrap();
    assert_eq!(read, first);
}
