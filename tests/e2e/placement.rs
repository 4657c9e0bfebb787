//! The operator makes the same of an app, wherever it runs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testcluster::process::Process;

use crate::world::{Space, World};

const APP: &str = r"
kubectl apply --filename - <<'END'
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata:
  name: same
spec:
  image: nginx
  port: 80
  replicas: 2
  env:
  - { name: COLOUR, value: blue }
  resources:
    requests: { cpu: 10m, memory: 16Mi }
    limits: { memory: 64Mi }
  healthCheck: { path: / }
END
kubectl wait appdeploy/same --for=condition=Ready --timeout=2m
";

/// What differs from object to object; the hash does because it covers the owner's UID.
const THEIRS: [&str; 10] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "status",
    "clusterIP",
    "clusterIPs",
    "deployment.kubernetes.io/revision",
    "appdeploy.dev/desired-hash",
];

pub fn outside_and_inside_make_the_same(world: &World, space: &Space) -> Result<()> {
    let inside = children(space)?;
    world.shell.run("kubectl appdeploy uninstall")?;
    let outside = with_operator_outside(world, space).and_then(|operator| {
        let made = children(space);
        drop(operator);
        made
    });
    world.install()?;
    let (inside, outside) = (format!("{inside:#}"), format!("{:#}", outside?));
    let differences: Vec<_> = inside
        .lines()
        .zip(outside.lines())
        .filter(|(one, other)| one != other)
        .collect();
    ensure!(inside == outside, "inside and outside the cluster: {differences:#?}");
    Ok(())
}

/// Runs the operator as `make run` does, until it is dropped.
fn with_operator_outside(world: &World, space: &Space) -> Result<Process> {
    let mut command = Command::new(world.checkout.program("appdeploy-operator"));
    command
        .args(["--bind", "127.0.0.1:8081"])
        .env("KUBECONFIG", world.checkout.kubeconfig());
    let folder = space.kubeconfig.parent().unwrap_or(Path::new("."));
    Process::spawn(&command, &folder.join("operator.log")).context("failed to run the operator")
}

/// Creates the app, returns what was made of it, and deletes it.
fn children(space: &Space) -> Result<Value> {
    space.shell.run(APP)?;
    let text = space
        .shell
        .run("kubectl get deployment/same service/same ingress/same --output json")?;
    space.shell.run("kubectl appdeploy delete same")?;
    let mut objects: Value = serde_json::from_str(&text).context("kubectl printed no JSON")?;
    without(&mut objects, &THEIRS);
    Ok(objects["items"].take())
}

fn without(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(&name.as_str()));
            fields.values_mut().for_each(|value| without(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without(item, names)),
        _ => {}
    }
}
