//! An app as large as an API server takes it.

use serde_json::{Value, json};

use crate::harness::{DEPLOYMENT, text};
use crate::namespace;

/// G6: what is too long for an annotation does not keep the app from running, and what is too long for a Deployment is told.
#[test]
fn a_huge_spec_runs_or_is_told() {
    let shop = namespace("huge");
    let variables = |count: usize, length: usize| -> Vec<Value> {
        let value = "x".repeat(length);
        (0..count)
            .map(|number| json!({"name": format!("V{number}"), "value": value}))
            .collect()
    };
    shop.settled_app("long", json!({"image": "nginx", "env": variables(512, 700)}));
    let deployment = shop.until_there(DEPLOYMENT, "long");
    let env = deployment.pointer("/spec/template/spec/containers/0/env").unwrap();
    assert_eq!(env.as_array().unwrap().len(), 512);

    // About as many bytes as etcd takes. Its Deployment has more of them, for it says also who owns each field.
    let app = shop.settled_app("longest", json!({"image": "nginx", "args": ["x".repeat(1_450_000)]}));
    let made = !shop.get(DEPLOYMENT, "longest").is_null();
    let told = !text(&app, "/status/cause/message").is_empty();
    assert!(made != told, "{:#}", app["status"]);
    shop.settled_app("small", json!({"image": "nginx"}));
    shop.until_there(DEPLOYMENT, "small");
}
