//! The third way to install: OLM itself, from a catalog with the bundle.

#[path = "../packages/olm/parts.rs"]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "it is shared with tests, where a failure may be a panic"
)]
mod parts;

use anyhow::{Context as _, Result};

use crate::story::has;
use crate::world::{Space, World};
use parts::{HOME, Parts, definitions, subscription};

/// Removes what OLM has installed, while it is there: it guards it with a finalizer.
const UNSUBSCRIBE: &str = "kubectl delete subscription,csv,installplan,operatorgroup --all -n appdeploy-system --ignore-not-found --timeout=2m";

/// Removes the rest of what this test has added.
const CLEAN: &str = r"
kubectl delete namespace appdeploy-system olm --ignore-not-found --timeout=2m
kubectl get crd --output name | grep operators.coreos.com | xargs --no-run-if-empty kubectl delete --timeout=2m
kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterroles,clusterrolebindings \
  --selector olm.managed=true --ignore-not-found
";

/// The same app as in the other two ways works in this one.
pub fn olm_installs_it_and_an_app_works(world: &World, space: &Space) -> Result<()> {
    let admin = &world.shell;
    admin.run("kubectl appdeploy uninstall")?;
    let outcome = installed(world, space);
    admin.run(CLEAN).context("failed to clean up after OLM")?;
    world.install()?;
    outcome
}

fn installed(world: &World, space: &Space) -> Result<()> {
    let admin = &world.shell;
    admin.run(&format!(
        "kubectl apply --server-side --filename {} && kubectl wait --for=condition=Established crd --all --timeout=60s
         kubectl create namespace olm && kubectl create namespace {HOME}",
        definitions().display()
    ))?;
    let config = world.checkout.root().join("config");
    let parts = Parts::start(&world.checkout.kubeconfig(), &config, Some(&world.image));
    let outcome = works(world, space, &parts);
    admin.run(UNSUBSCRIBE).context("failed to have OLM remove it")?;
    outcome
}

fn works(world: &World, space: &Space, parts: &Parts) -> Result<()> {
    let admin = &world.shell;
    let apply = |manifest: &str| admin.run(&format!("kubectl apply --filename - <<'END'\n{manifest}\nEND"));
    apply(&parts.catalog())?;
    apply(&subscription(&[]))?;
    let version = packages::VERSION;
    admin
        .run(&format!(
            "kubectl wait csv/appdeploy-operator.v{version} -n {HOME} --for=create --timeout=3m &&
             kubectl wait csv/appdeploy-operator.v{version} -n {HOME} --for=jsonpath='{{.status.phase}}'=Succeeded --timeout=3m"
        ))
        .with_context(|| format!("OLM says:\n{}", parts.logs()))?;
    let host = format!("hello.{}", space.namespace);
    space.shell.run(&format!(
        "kubectl appdeploy create hello --image nginx --port 80 --replicas 2 --wait
         until curl --fail --silent --header 'Host: {host}' http://127.0.0.1:8080/ | grep --quiet 'Welcome to nginx!'; do sleep 0.5; done"
    ))?;
    // Its webhooks answer, by a certificate that OLM has made.
    let refused = admin.run(&format!(
        "kubectl appdeploy create thief --namespace default --image nginx --port 80 --host {host} 2>&1 || true"
    ))?;
    has(&refused, &["the operator refuses it"])?;
    space.shell.run("kubectl appdeploy delete hello").map(drop)
}
