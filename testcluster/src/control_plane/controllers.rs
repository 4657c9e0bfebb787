//! The controller manager, with the controllers that a test needs.

use std::path::Path;
use std::process::Command;

use super::apiserver::{CA, SERVICE_ACCOUNTS};
use super::{Error, write_kubeconfig};
use crate::binaries::{Binaries, Program};
use crate::pki::Authority;
use crate::process::Process;

/// Starts the controller manager. It is ready when its controllers do something, which a test
/// awaits anyway.
pub(super) fn start(
    binaries: &Binaries,
    folder: &Path,
    authority: &Authority,
    url: &str,
    controllers: &[String],
) -> Result<Process, Error> {
    let kubeconfig = folder.join("controllers.kubeconfig");
    write_kubeconfig(&kubeconfig, url, authority, "system:kube-controller-manager", &[])?;
    let mut command = Command::new(binaries.path(Program::KubeControllerManager));
    let mut file = |flag: &str, name: &str| {
        command.arg(format!("--{flag}={}", folder.join(name).display()));
    };
    file("kubeconfig", "controllers.kubeconfig");
    file("root-ca-file", CA);
    file("service-account-private-key-file", &format!("{SERVICE_ACCOUNTS}.key"));
    command.arg(format!("--controllers={}", controllers.join(",")));
    command.args([
        // Each controller acts as itself, with the rights that upstream gives it and no more.
        "--use-service-account-credentials",
        "--leader-elect=false",
        // Nobody asks for its health or metrics, so it needs no port.
        "--secure-port=0",
        // By default it writes 20 times a second, which would be all that a test of many measures.
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]);
    Ok(Process::spawn(&command, &folder.join("controllers.log"))?)
}
