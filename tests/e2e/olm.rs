//! Installs the operator with OLM, from a catalog with the bundle.

#[path = "../packages/olm/parts.rs"]
#[expect(clippy::unwrap_used, clippy::panic, reason = "shared with tests, which may panic")]
mod parts;

use anyhow::{Context as _, Result};

use crate::environment::{Environment, TestContext};
use crate::story::has;
use parts::{HOME, Parts, definitions, subscription};

/// Removes what OLM has installed, while OLM runs: its objects have a finalizer.
const UNSUBSCRIBE: &str = "kubectl delete subscription,csv,installplan,operatorgroup --all -n appdeploy-system --ignore-not-found --timeout=2m";

/// Removes the other objects of this test.
const CLEAN: &str = r"
kubectl delete namespace appdeploy-system olm --ignore-not-found --timeout=2m
kubectl get crd --output name | grep operators.coreos.com | xargs --no-run-if-empty kubectl delete --timeout=2m
kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterroles,clusterrolebindings \
  --selector olm.managed=true --ignore-not-found
";

pub fn app_works_with_an_operator_from_olm(environment: &Environment, context: &TestContext) -> Result<()> {
    let admin = &environment.shell;
    admin.run("kubectl appdeploy uninstall")?;
    let outcome = installed(environment, context);
    admin.run(CLEAN).context("failed to clean up after OLM")?;
    environment.install()?;
    outcome
}

fn installed(environment: &Environment, context: &TestContext) -> Result<()> {
    let admin = &environment.shell;
    admin.run(&format!(
        "kubectl apply --server-side --filename {} && kubectl wait --for=condition=Established crd --all --timeout=60s
         kubectl create namespace olm && kubectl create namespace {HOME}",
        definitions().display()
    ))?;
    let config = environment.checkout.root().join("config");
    let parts = Parts::start(&environment.checkout.kubeconfig(), &config, Some(&environment.image));
    let outcome = works(environment, context, &parts);
    admin
        .run(UNSUBSCRIBE)
        .context("failed to remove the operator with OLM")?;
    outcome
}

fn works(environment: &Environment, context: &TestContext, parts: &Parts) -> Result<()> {
    let admin = &environment.shell;
    let apply = |manifest: &str| admin.run(&format!("kubectl apply --filename - <<'END'\n{manifest}\nEND"));
    apply(&parts.catalog())?;
    apply(&subscription(&[]))?;
    let version = packages::VERSION;
    admin
        .run(&format!(
            "kubectl wait csv/appdeploy-operator.v{version} -n {HOME} --for=create --timeout=3m &&
             kubectl wait csv/appdeploy-operator.v{version} -n {HOME} --for=jsonpath='{{.status.phase}}'=Succeeded --timeout=3m"
        ))
        .with_context(|| format!("the logs of OLM:\n{}", parts.logs()))?;
    let host = format!("hello.{}", context.namespace);
    context.shell.run(&format!(
        "kubectl appdeploy create hello --image nginx --port 80 --replicas 2 --wait
         until curl --fail --silent --header 'Host: {host}' http://127.0.0.1:8080/ | grep --quiet 'Welcome to nginx!'; do sleep 0.5; done"
    ))?;
    // The webhooks answer, with a certificate from OLM.
    let refused = admin.run(&format!(
        "kubectl appdeploy create thief --namespace default --image nginx --port 80 --host {host} 2>&1 || true"
    ))?;
    has(&refused, &["the operator rejected it"])?;
    context.shell.run("kubectl appdeploy delete hello").map(drop)
}
