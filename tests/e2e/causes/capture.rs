//! Records the objects that a cause is derived from, for the tests of `model`: `make causes`.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::environment::{Environment, TestContext};

/// The variable with the folder in the checkout. Without it nothing is recorded.
const FOLDER: &str = "E2E_CAUSES";

/// Records an app with the objects that its cause is derived from.
pub fn record(environment: &Environment, context: &TestContext, name: &str, namespace: &str) -> Result<()> {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return Ok(());
    };
    let get = |what: &str| -> Result<Value> {
        let listed = context
            .shell
            .run(&format!("kubectl get {what} --namespace {namespace} --output json"))?;
        serde_json::from_str(&listed).context("invalid JSON of kubectl")
    };
    let items = |what: &str| -> Result<Value> { Ok(get(what)?["items"].take()) };
    let now = context.shell.run("date +%s")?;
    let now: i64 = now.trim().parse().context("date did not print a number")?;
    let app = get(&format!("appdeploy {name}"))?;
    let children: Vec<Value> = ["deployment", "service", "ingress"]
        .iter()
        .map(|kind| get(&format!("{kind} {name} --ignore-not-found")))
        .filter_map(Result::ok)
        .collect();
    let pods = items(&format!("pods --selector appdeploy.dev/app={name}"))?;
    let mut events = Vec::new();
    for pod in pods.as_array().into_iter().flatten() {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let about = items(&format!(
            "events --field-selector involvedObject.uid={uid},type=Warning"
        ))?;
        events.extend(about.as_array().into_iter().flatten().cloned());
    }
    let classes = items("ingressclasses")?;
    let fixture = json!({
        "now": now, "app": app, "children": children, "pods": pods, "events": events, "ingressClasses": classes,
    });
    let file = environment
        .checkout
        .root()
        .join(Path::new(&folder))
        .join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(&without_status(fixture))? + "\n";
    std::fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))
}

/// Removes the status, which the tests compute.
fn without_status(mut fixture: Value) -> Value {
    if let Some(app) = fixture["app"].as_object_mut() {
        app.remove("status");
    }
    fixture
}
