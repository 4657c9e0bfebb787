//! The cluster, started by `testcluster`, with the operator.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Checkout, Shell};

/// A cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// The local one, with a real node: pages answer.
    Real,
    /// The local one, with fake nodes: pods only report that they run, including the operator's.
    Fake,
    /// The one of the user's kubeconfig.
    Current,
}

impl Cluster {
    /// Starts the local cluster.
    ///
    /// # Errors
    /// When `testcluster` fails, which prints the reason.
    pub fn up(checkout: &Checkout) -> Result<Self> {
        testcluster(checkout, &["up"])?;
        Self::local(checkout)
    }

    /// Returns the existing local cluster.
    ///
    /// # Errors
    /// When there is none.
    pub fn local(checkout: &Checkout) -> Result<Self> {
        match mode(checkout).as_deref() {
            Some("real") => Ok(Self::Real),
            Some(_) => Ok(Self::Fake),
            None => bail!("no local cluster: `make cluster` brings one up"),
        }
    }

    /// Prints the cluster of the user's kubeconfig, asks whether to do `purpose` there, and checks that it answers.
    ///
    /// # Errors
    /// When the user answers no, or the cluster does not answer.
    pub fn current(checkout: &Checkout, purpose: &str) -> Result<Self> {
        testcluster(checkout, &["up", "--current", "--confirm", purpose])?;
        Ok(Self::Current)
    }

    /// Returns whether the local cluster exists.
    #[must_use]
    pub fn is_up(checkout: &Checkout) -> bool {
        mode(checkout).is_some()
    }
}

/// Runs a command of `testcluster` with visible output.
///
/// # Errors
/// When it fails, which prints the reason.
pub fn testcluster(checkout: &Checkout, arguments: &[&str]) -> Result<()> {
    let status = Command::new(checkout.program("testcluster"))
        .args(arguments)
        .current_dir(checkout.root())
        .status()
        .context("failed to start testcluster")?;
    if !status.success() {
        bail!("`testcluster {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}

/// Builds an image of the operator that Cargo built last, and pushes it to the local cluster's registry.
///
/// # Errors
/// When it can't be built.
pub fn pack_operator(checkout: &Checkout, image: &str) -> Result<()> {
    let program = checkout.program("appdeploy-operator");
    let program = program.to_str().context("the path of the operator is not UTF-8")?;
    testcluster(checkout, &["build-image", "--program", program, image])
}

/// Returns the image of the installed operator, if there is one.
#[must_use]
pub fn operator_image(shell: &Shell) -> Option<String> {
    let image = shell
        .run(
            "kubectl get deployment appdeploy-operator --namespace appdeploy-system --ignore-not-found \
             --output jsonpath='{.spec.template.spec.containers[0].image}'",
        )
        .ok()?;
    Some(image).filter(|image| !image.is_empty())
}

/// Returns the address of the local cluster's ingress controller.
#[must_use]
pub fn ingress(checkout: &Checkout) -> String {
    std::fs::read_to_string(checkout.state().join("ingress")).unwrap_or_default()
}

/// Returns the mode of the nodes that `testcluster` has recorded.
fn mode(checkout: &Checkout) -> Option<String> {
    let text = std::fs::read_to_string(checkout.state().join("mode")).ok()?;
    Some(text.trim().to_owned())
}
