//! An object that is being deleted is checked like any other as long as its finalizers keep it. Removing them never waits for
//! an operator, see `away`.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::admission::asking;
use crate::harness::{APP, INGRESS, Namespace, web};

const GUARD: &str = "example.com/guard";

fn on(host: &str) -> Value {
    let mut spec = web();
    spec["host"] = json!(host);
    spec
}

/// Patches an app, and returns what the API server has against it.
fn refusal(space: &Namespace, name: &str, params: &PatchParams, patch: &Patch<Value>) -> String {
    let api = space.api(APP);
    let patched = space.cluster.block_on(api.patch(name, params, patch));
    patched.map_or_else(|error| error.to_string(), |object| format!("stored: {object:?}"))
}

#[test]
fn spec_of_an_app_in_deletion_is_checked() {
    let asking = asking();
    let [here, there] = ["deletion-here", "deletion-there"].map(|name| asking.cluster.namespace(name));
    here.settled_app("shop", on("mine.example.com"));
    there.settled_app("shop", on("theirs.example.com"));
    there.until_there(INGRESS, "shop");
    here.patch(APP, "shop", Patch::Merge(json!({"metadata": {"finalizers": [GUARD]}})));
    here.delete(APP, "shop");
    let merge = |host: &str| Patch::Merge(json!({"spec": {"host": host}}));
    let taken = refusal(&here, "shop", &PatchParams::default(), &merge("theirs.example.com"));
    assert!(
        taken.contains("theirs.example.com is used by an AppDeploy of another namespace"),
        "{taken}"
    );
    let outside = refusal(&here, "shop", &PatchParams::default(), &merge("mine.example.org"));
    assert!(
        outside.contains("mine.example.org is not allowed in this cluster"),
        "{outside}"
    );
    here.patch(APP, "shop", Patch::Merge(json!({"metadata": {"finalizers": null}})));
    here.until_gone(APP, "shop");
}

/// A create drops a deletion timestamp, an apply that creates the object keeps it.
#[test]
fn app_that_is_created_in_deletion_is_checked() {
    let asking = asking();
    let space = asking.cluster.namespace("deletion-created");
    let object = |host: &str| {
        Patch::Apply(
            json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "spec": on(host),
            "metadata": {"name": "shop", "finalizers": [GUARD], "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        )
    };
    let refused = refusal(
        &space,
        "shop",
        &PatchParams::apply("tenant"),
        &object("created.example.org"),
    );
    assert!(
        refused.contains("created.example.org is not allowed in this cluster"),
        "{refused}"
    );
    assert!(space.get(APP, "shop").is_null());
}
