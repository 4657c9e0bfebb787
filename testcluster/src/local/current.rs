//! The cluster of the person's own kubeconfig: only looked at, never changed.

use anyhow::{Result, bail};

use super::tool::{self, Tool};

/// Checks that the cluster answers, and says which one it is.
pub(crate) fn check() -> Result<String> {
    let Some(kubectl) = tool::find("kubectl") else {
        bail!(
            "kubectl is not installed, which CLUSTER=current asks about your cluster: https://kubernetes.io/docs/tasks/tools/"
        )
    };
    let context = Tool::new(&kubectl).args(["config", "current-context"]).run();
    let Ok(context) = context.map(|name| name.trim().to_owned()) else {
        bail!("your kubeconfig has no current context: `kubectl config use-context NAME` chooses one")
    };
    if let Err(error) = Tool::new(&kubectl)
        .args(["get", "--raw", "/readyz", "--request-timeout=10s"])
        .run()
    {
        return Err(error.context(format!("the cluster of your context {context:?} does not answer")));
    }
    Ok(format!("The cluster of your context {context:?} answers."))
}
