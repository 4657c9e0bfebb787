//! The demo, and an app with its page.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use testcluster::http;

use crate::environment::{Environment, TestContext};

/// The address of the local cluster's ingress controller.
pub const INGRESS: &str = "127.0.0.1:8080";

/// Returns an error unless `text` contains all of `words`.
pub fn has(text: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(text.contains(word), "{word:?} is not in:\n{text}");
    }
    Ok(())
}

pub fn demo_prints_a_page_and_can_be_repeated(environment: &Environment, context: &TestContext) -> Result<()> {
    let demo = format!(
        "{} --image {} --namespace {}",
        environment.checkout.program("demo").display(),
        environment.image,
        context.namespace
    );
    let first = environment.shell.run(&demo)?;
    let page = if environment.is_real() {
        "Welcome to nginx!"
    } else {
        "There is no page to show"
    };
    let host = format!("http://nginx.{}/", context.namespace);
    let expected = [
        "NAME",
        "READY",
        "PODS",
        "REASON",
        "URL",
        &host,
        page,
        "Three commands to try next",
    ];
    has(&first, &expected)?;
    has(
        &first,
        &["kubectl appdeploy create nginx --image nginx --port 80 --wait"],
    )?;
    has(&environment.shell.run(&demo)?, &expected)
}

pub fn app_has_five_kinds_of_objects_and_a_page(_: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    let created = shell.run("kubectl appdeploy create shop --image nginx --port 80 --wait 2>&1")?;
    let host = format!("shop.{}", context.namespace);
    has(&created, &["shop is ready", &host])?;
    let objects = shell
        .run("kubectl get pod,svc,deploy,rs,ing --selector app.kubernetes.io/managed-by=appdeploy --output name")?;
    let kinds = [
        "pod/shop-",
        "service/shop",
        "deployment.apps/shop",
        "replicaset.apps/shop-",
        "ingress.networking.k8s.io/shop",
    ];
    has(&objects, &kinds)?;
    ensure!(
        objects.lines().count() == kinds.len(),
        "expected only these kinds:\n{objects}"
    );
    let html = http::page(INGRESS, &host, Duration::from_secs(30))?;
    has(&html, &["Welcome to nginx!"])?;
    // The operator recreates a deleted child.
    shell.run(
        "kubectl delete service shop && kubectl wait service/shop --for=create --timeout=30s && \
         kubectl appdeploy scale shop --replicas 2 && kubectl wait appdeploy/shop \
         --for=jsonpath='{.status.readyReplicas}'=2 --timeout=60s",
    )?;
    shell.run("kubectl appdeploy delete shop")?;
    let left = shell.run("kubectl get appdeploy,svc,deploy,rs,ing --output name")?;
    ensure!(left.trim().is_empty(), "these objects are left: {left}");
    Ok(())
}

pub fn operator_runs_in_a_restricted_namespace(environment: &Environment, _: &TestContext) -> Result<()> {
    let shell = &environment.shell;
    let level = shell.run(
        r"kubectl get namespace appdeploy-system --output jsonpath='{.metadata.labels.pod-security\.kubernetes\.io/enforce}'",
    )?;
    ensure!(level == "restricted", "the namespace enforces {level:?}");
    shell
        .run("kubectl wait pod --namespace appdeploy-system --selector app.kubernetes.io/name=appdeploy-operator --for=condition=Ready --timeout=60s")
        .map(drop)
        .context("the operator is not ready in the restricted namespace")
}
