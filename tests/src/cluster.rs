//! The cluster: brought up by `testcluster`, with the operator in it.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{Checkout, Shell};

/// What there is to work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// The local one, with a real node: pages answer.
    Real,
    /// The local one, with fake nodes: pods only say that they run, the operator's own included.
    Fake,
    /// The one of the person's kubeconfig.
    Current,
}

impl Cluster {
    /// Brings the local cluster up.
    ///
    /// # Errors
    /// When `testcluster` fails; it has said why.
    pub fn up(checkout: &Checkout) -> Result<Self> {
        testcluster(checkout, &["up"])?;
        Self::local(checkout)
    }

    /// Returns the local cluster, which exists.
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

    /// Names the cluster of the person's kubeconfig, asks whether to do `purpose` there, and checks that it answers.
    ///
    /// # Errors
    /// When the answer is no, or the cluster does not answer.
    pub fn current(checkout: &Checkout, purpose: &str) -> Result<Self> {
        testcluster(checkout, &["up", "--current", "--confirm", purpose])?;
        Ok(Self::Current)
    }

    /// Whether the local cluster is there.
    #[must_use]
    pub fn is_up(checkout: &Checkout) -> bool {
        mode(checkout).is_some()
    }
}

/// Runs a verb of `testcluster` in the person's sight.
///
/// # Errors
/// When it fails; it has said why.
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

/// Packs the operator that Cargo built last as an image, and gives it to the local cluster's registry.
///
/// # Errors
/// When it can't be packed.
pub fn pack_operator(checkout: &Checkout, image: &str) -> Result<()> {
    let program = checkout.program("appdeploy-operator");
    let program = program.to_str().context("the path of the operator is not UTF-8")?;
    testcluster(checkout, &["build-image", "--program", program, image])
}

/// Returns the image of the operator that is installed, if one is.
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

/// Returns the address at which the local cluster's ingress controller answers.
#[must_use]
pub fn ingress(checkout: &Checkout) -> String {
    std::fs::read_to_string(checkout.state().join("ingress")).unwrap_or_default()
}

/// What `testcluster` wrote down about its nodes.
fn mode(checkout: &Checkout) -> Option<String> {
    let text = std::fs::read_to_string(checkout.state().join("mode")).ok()?;
    Some(text.trim().to_owned())
}
