//! An app in a user namespace, on a node that may not support it.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{broken, cause_is_reported};
use crate::environment::{Environment, TestContext};
use crate::story::has;

const CREATE: &str = r"
kubectl apply --filename - <<'END'
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata: { name: isolated }
spec: { image: nginx, port: 80, hostUsers: false }
END
";

/// The users of a container that has the users of the node: all of them, each with its own number.
const OF_THE_NODE: &str = "0 0 4294967295";

const USERS: &str = r"
kubectl wait appdeploy/isolated --for=condition=Ready --timeout=2m >&2
kubectl appdeploy exec isolated -- cat /proc/self/uid_map | xargs
";

/// The runtime of a node reports whether it supports user namespaces. Without them the cause says so, with them root in the
/// container is another user of the node.
pub fn missing_user_namespace_is_reported(environment: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    shell.run(CREATE)?;
    if is_supported(&shell.run("kubectl get nodes --output json")?)? {
        let users = shell.run(USERS)?;
        ensure!(
            users.trim() != OF_THE_NODE,
            "the pod has the users of the node: {users}"
        );
        return has(&users, &["0 "]);
    }
    let isolated = broken(
        "isolated",
        "ContainerFailed",
        "the node can't run the pods in a user namespace (hostUsers: false): ",
        "kubectl appdeploy edit isolated",
    );
    cause_is_reported(environment, context, &isolated)
}

/// Whether the default runtime of the node, which has no name, supports user namespaces.
fn is_supported(nodes: &str) -> Result<bool> {
    let nodes: Value = serde_json::from_str(nodes).context("invalid JSON of kubectl")?;
    let handlers = nodes["items"][0]["status"]["runtimeHandlers"].as_array();
    let mut handlers = handlers.into_iter().flatten();
    let default = handlers.find(|handler| handler["name"].as_str().unwrap_or_default().is_empty());
    Ok(default.is_some_and(|handler| handler["features"]["userNamespaces"] == true))
}
