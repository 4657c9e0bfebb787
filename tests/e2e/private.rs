//! An app with an image of a private registry.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use testcluster::http;

use crate::environment::{Environment, TestContext};
use crate::registry::{HOST, IMAGE, PASSWORD, Registry, USER};
use crate::story::{INGRESS, has};

const CAUSE: &str = "kubectl get appdeploy shop --output jsonpath='{.status.cause.message}'";
const NEXT: &str = "kubectl get appdeploy shop --output jsonpath='{.status.cause.next}'";

pub fn suggested_commands_lead_to_a_page_from_a_private_registry(
    environment: &Environment,
    context: &TestContext,
) -> Result<()> {
    let _registry = Registry::start(&environment.checkout)?;
    let shell = &context.shell;
    // Always pulled: an image that an earlier app has pulled needs no password.
    shell.run(&format!(
        "kubectl appdeploy create shop --image {IMAGE} --image-pull-policy Always --port 80"
    ))?;
    let status = denied(context, "imagePullSecrets names no Secret")?;
    has(
        &status,
        &["ImagePullDenied", HOST, "kubectl appdeploy set image shop=IMAGE"],
    )?;

    // The Secret does not exist yet.
    shell
        .run(r#"kubectl patch appdeploy shop --type merge -p '{"spec":{"imagePullSecrets":[{"name":"regcred"}]}}'"#)?;
    let status = denied(context, "got none: Secret regcred does not exist")?;
    has(
        &status,
        &["ImagePullDenied", IMAGE, "kubectl create secret docker-registry"],
    )?;

    // The suggested command with user and password filled in.
    let suggested = shell.run(NEXT)?;
    let with = |password: &str| {
        suggested
            .replace("=USER", &format!("={USER}"))
            .replace("=PASSWORD", &format!("={password}"))
    };
    shell.run(&with("guessed"))?;
    let status = denied(context, "does not take the password in Secret regcred")?;
    has(
        &status,
        &[
            "ImagePullDenied",
            IMAGE,
            "kubectl create secret docker-registry regcred",
        ],
    )?;
    let again = shell.run(NEXT)?;
    ensure!(again == suggested, "a different command for the same Secret: {again}");

    // The same command updates an existing Secret.
    shell.run(&with(PASSWORD))?;
    shell
        .run("kubectl wait appdeploy/shop --for=condition=Ready --timeout=5m")
        .context("not ready with the correct password")?;
    let html = http::page(INGRESS, &format!("shop.{}", context.namespace), Duration::from_secs(30))?;
    has(&html, &["Welcome to nginx!"])?;
    shell.run("kubectl appdeploy delete shop").map(drop)
}

/// Waits until the cause contains `words`, and returns the output of `status`.
fn denied(context: &TestContext, words: &str) -> Result<String> {
    // The kubelet backs off after failed pulls.
    let wait = format!("for i in $(seq 300); do {CAUSE} | grep --quiet {words:?} && exit; sleep 1; done; exit 1");
    context.shell.run(&wait).with_context(|| {
        let cause = context.shell.run(CAUSE).unwrap_or_default();
        format!("the cause has no {words:?}: {cause}")
    })?;
    context.shell.run("COLUMNS=400 kubectl appdeploy status shop")
}
