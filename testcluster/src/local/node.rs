//! The node's programs: containerd, the kubelet, kube-proxy.

use std::ffi::{OsStr, OsString};

use anyhow::{Context, Result};
use testcluster::binaries::{Binaries, Program};

use super::daemons::Daemons;
use super::layout::Layout;
use super::sandbox::PROXY_PORT;
use super::tool::Tool;
use super::{containerd, kubelet, network};

/// Starts missing programs of the node.
pub(crate) fn up(layout: &Layout, programs: &Binaries, daemons: &mut Daemons) -> Result<()> {
    let config = containerd::configure(layout)?;
    let containerd = programs.path(Program::Containerd);
    let proxy = OsString::from(format!("http://127.0.0.1:{PROXY_PORT}"));
    let path = path_with(&containerd);
    daemons.ensure(
        "containerd",
        &containerd,
        &["--config".into(), config.display().to_string()],
        &[
            ("PATH", path.as_os_str()),
            ("HTTPS_PROXY", &proxy),
            ("NO_PROXY", "127.0.0.1".as_ref()),
        ],
    )?;
    let ctr = programs.path(Program::Ctr);
    daemons.wait("containerd", 30, || {
        Tool::new(&ctr)
            .arg("--address")
            .arg(containerd::socket())
            .arg("version")
            .succeeds()
    })?;
    kubelet::configure(layout)?;
    daemons.ensure(
        "kubelet",
        &programs.path(Program::Kubelet),
        &kubelet::arguments(layout),
        &[],
    )?;
    let config = kubelet::configure_proxy(layout)?;
    daemons.ensure(
        "kube-proxy",
        &programs.path(Program::KubeProxy),
        &[format!("--config={}", config.display())],
        &[],
    )
}

/// Returns whether the node is ready.
pub(crate) fn ready(kubectl: Tool) -> Result<bool> {
    let path = "-o=jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let status = kubectl
        .args(["get", "node", network::NODE, path])
        .run()
        .context("failed to read the node")?;
    Ok(status.trim() == "True")
}

/// Returns a PATH with the folder of `program` first, so that containerd finds its own shim and not that of Docker.
pub(crate) fn path_with(program: &std::path::Path) -> OsString {
    let folder = program.parent().unwrap_or(std::path::Path::new("/")).as_os_str();
    let system = OsStr::new(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    [folder, system].into_iter().collect()
}
