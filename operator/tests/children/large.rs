//! An app as large as an API server takes it.

use serde_json::{Value, json};

use crate::children::namespace;
use crate::harness::{APP, DEPLOYMENT};

/// G6: what is too long for an annotation does not keep the app from running, and what is larger than allowed is refused.
#[test]
fn large_spec_is_reconciled_and_a_larger_one_is_rejected() {
    let shop = namespace("huge");
    let variables = |count: usize, length: usize| -> Vec<Value> {
        let value = "x".repeat(length);
        (0..count)
            .map(|number| json!({"name": format!("V{number}"), "value": value}))
            .collect()
    };
    let long = json!({"image": "nginx", "env": variables(512, 350), "args": ["x".repeat(40_000)]});
    assert!(
        long.to_string().len() > 200 * 1024,
        "too long to be recorded in an annotation"
    );
    shop.settled_app("long", long);
    let deployment = shop.until_there(DEPLOYMENT, "long");
    let env = deployment.pointer("/spec/template/spec/containers/0/env").unwrap();
    assert_eq!(env.as_array().unwrap().len(), 512);
    let longer = json!({"metadata": {"name": "longer"}, "spec": {"image": "nginx", "args": ["x".repeat(1_450_000)]}});
    let refused = shop.try_create(APP, longer).unwrap_err().to_string();
    assert!(refused.contains("spec.args"), "{refused}");
}
