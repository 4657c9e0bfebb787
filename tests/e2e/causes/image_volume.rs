//! An app with a volume of an image, on a node whose container runtime may not support it.

use anyhow::{Context as _, Result, ensure};

use super::{broken, cause_is_reported};
use crate::environment::{Environment, TestContext};
use crate::story::has;

const CREATE: &str = "kubectl appdeploy create assets --image nginx --port 80 --volume image/busybox:/assets";

const RUNTIME: &str = "kubectl get nodes --output jsonpath='{.items[0].status.nodeInfo.containerRuntimeVersion}'";

const FILES: &str = r"
kubectl wait appdeploy/assets --for=condition=Ready --timeout=2m >&2
kubectl appdeploy exec assets -- ls /assets/bin
";

/// The first containerd with image volumes.
const SINCE: (u32, u32) = (2, 1);

/// With an older containerd in the folder `APPDEPLOY_KUBE_BIN`, the cause says that it is too old. Otherwise, the container has
/// the files of the image.
pub fn missing_image_volumes_are_reported(environment: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    let runtime = shell.run(RUNTIME)?;
    shell.run(CREATE)?;
    if version(&runtime)? >= SINCE {
        return has(&shell.run(FILES)?, &["sh"]);
    }
    let assets = broken(
        "assets",
        "ImageVolumeUnsupported",
        "does not support image volumes: upgrade it to containerd 2.1 or CRI-O 1.31, or use another volume",
        "kubectl appdeploy edit assets",
    );
    cause_is_reported(environment, context, &assets)?;
    let node = shell.run("kubectl get nodes --output jsonpath='{.items[0].metadata.name}'")?;
    let message = shell.run("kubectl get appdeploy assets --output jsonpath='{.status.cause.message}'")?;
    ensure!(message.contains(&format!("node {node} ")), "no {node} in: {message}");
    Ok(())
}

/// Reads the major and the minor version of a runtime such as `containerd://2.1.4`.
fn version(runtime: &str) -> Result<(u32, u32)> {
    let read = || {
        let mut numbers = runtime.split_once("://v").or(runtime.split_once("://"))?.1.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    read().with_context(|| format!("{runtime:?} has no version"))
}
