//! An app from a registry that wants a password.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use testcluster::http;

use crate::registry::{HOST, IMAGE, PASSWORD, Registry, USER};
use crate::story::{INGRESS, has};
use crate::world::{Space, World};

const CAUSE: &str = "kubectl get appdeploy shop --output jsonpath='{.status.cause.message}'";
const NEXT: &str = "kubectl get appdeploy shop --output jsonpath='{.status.cause.next}'";

pub fn each_sentence_leads_one_step_closer_to_the_page(world: &World, space: &Space) -> Result<()> {
    let _registry = Registry::start(&world.checkout)?;
    let shell = &space.shell;
    // Always: an image that an earlier app has pulled would need no password.
    shell.run(&format!(
        "kubectl appdeploy create shop --image {IMAGE} --image-pull-policy Always --port 80"
    ))?;
    let told = denied(space, "imagePullSecrets names no Secret")?;
    has(
        &told,
        &["ImagePullDenied", HOST, "kubectl appdeploy set image shop=IMAGE"],
    )?;

    // What one writes in that editor. There is no Secret of the name yet.
    shell
        .run(r#"kubectl patch appdeploy shop --type merge -p '{"spec":{"imagePullSecrets":[{"name":"regcred"}]}}'"#)?;
    let told = denied(space, "got none: Secret regcred does not exist")?;
    has(
        &told,
        &["ImagePullDenied", IMAGE, "kubectl create secret docker-registry"],
    )?;

    // The suggested command, as it stands there but for what only the person knows.
    let suggested = shell.run(NEXT)?;
    let with = |password: &str| {
        suggested
            .replace("=USER", &format!("={USER}"))
            .replace("=PASSWORD", &format!("={password}"))
    };
    shell.run(&with("guessed"))?;
    let told = denied(space, "does not take the password in Secret regcred")?;
    has(
        &told,
        &[
            "ImagePullDenied",
            IMAGE,
            "kubectl create secret docker-registry regcred",
        ],
    )?;
    let again = shell.run(NEXT)?;
    ensure!(again == suggested, "another command for the same Secret: {again}");

    // It mends a Secret that is there as well.
    shell.run(&with(PASSWORD))?;
    shell
        .run("kubectl wait appdeploy/shop --for=condition=Ready --timeout=5m")
        .context("the right password did not help")?;
    let html = http::page(INGRESS, &format!("shop.{}", space.namespace), Duration::from_secs(30))?;
    has(&html, &["Welcome to nginx!"])?;
    shell.run("kubectl appdeploy delete shop").map(drop)
}

/// Waits until the app says `words`, and returns what a person reads then.
fn denied(space: &Space, words: &str) -> Result<String> {
    // The kubelet waits longer after each pull that failed.
    let wait = format!("for i in $(seq 300); do {CAUSE} | grep --quiet {words:?} && exit; sleep 1; done; exit 1");
    space.shell.run(&wait).with_context(|| {
        let told = space.shell.run(CAUSE).unwrap_or_default();
        format!("the app never said {words:?}, but: {told}")
    })?;
    space.shell.run("COLUMNS=400 kubectl appdeploy status shop")
}
