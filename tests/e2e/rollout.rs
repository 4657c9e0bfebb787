//! Rollouts of an application that gets requests.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};

use crate::environment::{Environment, TestContext};
use crate::load::{Load, Outcome};

/// The changes, each of which replaces all pods.
const CHANGES: [&str; 3] = [
    "kubectl appdeploy set image web=nginx:1.29 --wait",
    "kubectl appdeploy restart web --wait",
    "kubectl appdeploy undo web --wait",
];

/// Without the sleep, nginx may end before the node's proxy has learned that the pod gets no more requests.
pub fn rollout_drops_no_request(environment: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    shell.run(
        r#"kubectl appdeploy apply -f - <<'END'
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: {name: web}
spec: {image: "nginx:1.28", port: 80, replicas: 2, expose: Cluster, preStopSleepSeconds: 5}
END
kubectl wait appdeploy/web --for=condition=Ready --timeout=2m"#,
    )?;
    let address = shell.run("kubectl get service web --output jsonpath='{.spec.clusterIP}'")?;
    let service: SocketAddr = format!("{address}:80")
        .parse()
        .with_context(|| format!("{address:?}"))?;
    let load = Load::start(&environment.node()?, service, Vec::new());
    for change in CHANGES {
        shell.run(&format!(
            "old=$(kubectl get pods --selector appdeploy.dev/app=web --output name) && {change} &&
            kubectl wait $old --for=delete --timeout=2m"
        ))?;
    }
    let Outcome { requests, dropped, .. } = load.stop()?;
    context.note(&format!("{dropped} of {requests} requests dropped; "));
    ensure!(requests > 100, "there were only {requests} requests");
    ensure!(dropped == 0, "{dropped} of {requests} requests were dropped");
    Ok(())
}
