//! What the demo shows.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use testcluster::http;

use crate::world::{Space, World};

/// Where the local cluster's ingress controller answers.
pub const INGRESS: &str = "127.0.0.1:8080";

/// Fails unless `text` has all of `words`.
pub fn has(text: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(text.contains(word), "{word:?} is not in:\n{text}");
    }
    Ok(())
}

pub fn the_demo_ends_with_a_page_and_can_be_repeated(world: &World, space: &Space) -> Result<()> {
    let demo = format!(
        "{} --image {} --namespace {}",
        world.checkout.program("demo").display(),
        world.image,
        space.namespace
    );
    let first = world.shell.run(&demo)?;
    let page = if world.is_real() {
        "Welcome to nginx!"
    } else {
        "There is no page to show"
    };
    let host = format!("http://nginx.{}/", space.namespace);
    let ends_well = [
        "NAME",
        "READY",
        "PODS",
        "REASON",
        "URL",
        &host,
        page,
        "Three commands to try next",
    ];
    has(&first, &ends_well)?;
    has(
        &first,
        &["kubectl appdeploy create nginx --image nginx --port 80 --wait"],
    )?;
    has(&world.shell.run(&demo)?, &ends_well)
}

pub fn an_app_is_five_kinds_of_objects_and_a_page(_: &World, space: &Space) -> Result<()> {
    let shell = &space.shell;
    let created = shell.run("kubectl appdeploy create shop --image nginx --port 80 --wait 2>&1")?;
    let host = format!("shop.{}", space.namespace);
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
        "there is more than that:\n{objects}"
    );
    let html = http::page(INGRESS, &host, Duration::from_secs(30))?;
    has(&html, &["Welcome to nginx!"])?;
    // What was deleted behind the operator's back comes back.
    shell.run(
        "kubectl delete service shop && kubectl wait service/shop --for=create --timeout=30s && \
         kubectl appdeploy scale shop --replicas 2 && kubectl wait appdeploy/shop \
         --for=jsonpath='{.status.readyReplicas}'=2 --timeout=60s",
    )?;
    shell.run("kubectl appdeploy delete shop")?;
    let left = shell.run("kubectl get appdeploy,svc,deploy,rs,ing --output name")?;
    ensure!(left.trim().is_empty(), "this is left: {left}");
    Ok(())
}

pub fn the_operator_runs_in_a_restricted_namespace(world: &World, _: &Space) -> Result<()> {
    let shell = &world.shell;
    let level = shell.run(
        r"kubectl get namespace appdeploy-system --output jsonpath='{.metadata.labels.pod-security\.kubernetes\.io/enforce}'",
    )?;
    ensure!(level == "restricted", "the namespace enforces {level:?}");
    shell
        .run("kubectl wait pod --namespace appdeploy-system --selector app.kubernetes.io/name=appdeploy-operator --for=condition=Ready --timeout=60s")
        .map(drop)
        .context("the operator is not ready there")
}
