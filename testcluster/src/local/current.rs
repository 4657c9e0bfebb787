//! The cluster of the user's own kubeconfig. It is checked here, and never changed.

use anyhow::{Context, Result, bail};
use testcluster::consent::{Unattended, ask};

use super::tool::{self, Tool};

/// Checks that the cluster answers, and returns its context and server. Asks first if there is a `purpose`.
pub(crate) fn check(purpose: Option<&str>) -> Result<String> {
    let Some(kubectl) = tool::find("kubectl") else {
        bail!("kubectl is not installed, and CLUSTER=current needs it: https://kubernetes.io/docs/tasks/tools/")
    };
    let context = Tool::new(&kubectl).args(["config", "current-context"]).run();
    let Ok(context) = context.map(|name| name.trim().to_owned()) else {
        bail!("your kubeconfig has no current context: `kubectl config use-context NAME` chooses one")
    };
    let server = Tool::new(&kubectl)
        .args([
            "config",
            "view",
            "--minify",
            "--output=jsonpath={.clusters[0].cluster.server}",
        ])
        .run()
        .context("failed to read your kubeconfig")?;
    let cluster = format!("the cluster of your context {context:?} at {}", server.trim());
    if let Some(purpose) = purpose
        && !ask(&format!("{purpose} {cluster}?"), Unattended::Stop)?
    {
        bail!("nothing was changed");
    }
    if let Err(error) = Tool::new(&kubectl)
        .args(["get", "--raw", "/readyz", "--request-timeout=10s"])
        .run()
    {
        return Err(error.context(format!("{cluster} does not answer")));
    }
    Ok(format!("Using {cluster}."))
}
