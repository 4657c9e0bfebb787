//! Takes what a cause is read from out of the cluster, for the tests of `model`: `make causes`.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::world::{Space, World};

/// The folder to write to, below the checkout. Without it nothing is kept.
const FOLDER: &str = "E2E_CAUSES";

/// Writes down an app with all that its cause is read from.
pub fn keep(world: &World, space: &Space, name: &str, namespace: &str) -> Result<()> {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return Ok(());
    };
    let get = |what: &str| -> Result<Value> {
        let listed = space
            .shell
            .run(&format!("kubectl get {what} --namespace {namespace} --output json"))?;
        serde_json::from_str(&listed).context("kubectl has printed no JSON")
    };
    let items = |what: &str| -> Result<Value> { Ok(get(what)?["items"].take()) };
    let now = space.shell.run("date +%s")?;
    let now: i64 = now.trim().parse().context("date has printed no number")?;
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
    let file = world
        .checkout
        .root()
        .join(Path::new(&folder))
        .join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(&without_status(fixture))? + "\n";
    std::fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))
}

/// What the operator has said is what the tests find out.
fn without_status(mut fixture: Value) -> Value {
    if let Some(app) = fixture["app"].as_object_mut() {
        app.remove("status");
    }
    fixture
}
