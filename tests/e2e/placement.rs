//! The operator creates the same children inside and outside the cluster.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testcluster::process::Process;

use crate::environment::{Environment, TestContext};

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

/// Fields that differ between objects. The hash covers the owner's UID.
const VOLATILE: [&str; 10] = [
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

pub fn operator_outside_the_cluster_creates_the_same_children(
    environment: &Environment,
    context: &TestContext,
) -> Result<()> {
    let inside = children(context)?;
    environment.shell.run("kubectl appdeploy uninstall")?;
    let outside = with_operator_outside(environment, context).and_then(|operator| {
        let children = children(context);
        drop(operator);
        children
    });
    environment.install()?;
    let (inside, outside) = (format!("{inside:#}"), format!("{:#}", outside?));
    let differences: Vec<_> = inside
        .lines()
        .zip(outside.lines())
        .filter(|(one, other)| one != other)
        .collect();
    ensure!(
        inside == outside,
        "different inside and outside the cluster: {differences:#?}"
    );
    Ok(())
}

/// Runs the operator as `make run` does, until it is dropped.
fn with_operator_outside(environment: &Environment, context: &TestContext) -> Result<Process> {
    let mut command = Command::new(environment.checkout.program("appdeploy-operator"));
    command
        .args(["--bind", "127.0.0.1:8081"])
        .env("KUBECONFIG", environment.checkout.kubeconfig());
    let folder = context.kubeconfig.parent().unwrap_or(Path::new("."));
    Process::spawn(&command, &folder.join("operator.log")).context("failed to run the operator")
}

/// Creates the app, returns its children, and deletes it.
fn children(context: &TestContext) -> Result<Value> {
    context.shell.run(APP)?;
    let text = context
        .shell
        .run("kubectl get deployment/same service/same ingress/same --output json")?;
    context.shell.run("kubectl appdeploy delete same")?;
    let mut objects: Value = serde_json::from_str(&text).context("invalid JSON of kubectl")?;
    without(&mut objects, &VOLATILE);
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
