//! Conditions have the limits of `metav1.Condition`, so that clients that check them can read each one.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{APP, PODSET};

use super::namespace;

#[test]
fn conditions_have_the_limits_of_kubernetes() {
    let shop = namespace("conditions");
    shop.app("shop", json!({"image": "nginx"}));
    shop.create(PODSET, json!({"metadata": {"name": "shop"}, "spec": {}}));
    let condition = |field: &str, value: Value| {
        let mut condition = json!({"type": "example.com/Scanned", "status": "True", "reason": "Clean", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        condition[field] = value;
        json!({"status": {"conditions": [condition]}})
    };
    for kind in [APP, PODSET] {
        let write = |patch: &Value| {
            let api = shop.api(kind);
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            let written = api.patch_subresource("status", "shop", &params, &patch);
            shop.cluster.block_on(written).map(|_| ())
        };
        write(&condition("message", json!("fine"))).unwrap();
        for (field, value) in [
            ("type", json!("not a type")),
            ("type", json!("a".repeat(317))),
            ("status", json!("Maybe")),
            ("reason", json!("")),
            ("reason", json!("not a reason")),
            ("message", json!("a".repeat(32_769))),
            ("observedGeneration", json!(-1)),
        ] {
            let refused = write(&condition(field, value)).unwrap_err().to_string();
            assert!(refused.contains(field), "{refused}");
        }
    }
}
