//! The cluster with a real node, from the host's side.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};
use testcluster::binaries::{Binaries, Component, Lines, PREBUILT, Program, Quiet};
use testcluster::node::Node;

use super::layout::Layout;
use super::mode::Mode;
use super::tool::Tool;
use super::ui::Ui;
use super::{Wish, containerd, credentials, images, ingress, layout, marker, network, packages, sandbox};

/// Starts the cluster in its own namespaces. Builds run as this user; only packages and the node itself need root.
pub(crate) fn up(layout: &Layout, wish: Wish, ui: &Ui) -> Result<()> {
    packages::ensure_node(layout, ui)?;
    Binaries::ensure(Mode::Real.components(), &mut Lines::stderr())?;
    ingress::ensure(&layout.cache, ui)?;
    images::ensure(layout, ui)?;
    layout.write("mode", Mode::Real.name())?;
    credentials::ensure(layout)?;
    mirrors(layout, wish)?;
    // Root writes there, and so does this user.
    layout.dir("logs")?;
    as_root(layout, &["node", "start"])?;
    let node = Node::running(&layout.state).context("the node has ended")?;
    credentials::write_kubeconfig(layout, node.api_port)?;
    layout.write("ingress", &format!("127.0.0.1:{}", node.ingress_port))?;
    if node.ingress_port != ingress::PORT {
        ui.say(&format!(
            "Port {} of 127.0.0.1 is in use: Ingresses answer on port {}.",
            ingress::PORT,
            node.ingress_port
        ));
    }
    Ok(())
}

/// Starts the node, or its missing programs. Needs root.
pub(crate) fn start(layout: &Layout, ui: &Ui) -> Result<()> {
    if Node::running(&layout.state).is_none() {
        forget(layout)?;
    }
    let node = ui.step("namespaces of the node", || sandbox::ensure(layout))?;
    if !sandbox::run(layout, &node, &["up"])?.success() {
        bail!(
            "the cluster did not come up; its logs are in {}",
            layout.at("logs").display()
        );
    }
    Ok(())
}

/// Runs this program as root, with sudo if this user is not root.
pub(crate) fn as_root(layout: &Layout, arguments: &[&str]) -> Result<()> {
    let this = std::env::current_exe().context("failed to find this program")?;
    let root = nix::unistd::Uid::effective().is_root();
    let mut command = Command::new(if root { "env" } else { "sudo" });
    if !root {
        command.args(["--", "env"]);
    }
    let mut cache = OsString::from("APPDEPLOY_CACHE=");
    cache.push(&layout.cache);
    command.arg(cache);
    // sudo clears the environment, and root must find the same programs.
    for name in PREBUILT {
        if let Some(folder) = std::env::var_os(name).filter(|value| !value.is_empty()) {
            let mut setting = OsString::from(format!("{name}="));
            setting.push(std::path::absolute(folder).context("failed to find the folder of programs")?);
            command.arg(setting);
        }
    }
    command.arg(this).arg("--state-dir").arg(&layout.state).args(arguments);
    let status = command.status().context("failed to start sudo")?;
    if !status.success() {
        bail!("`testcluster {}` as root ended with {status}", arguments.join(" "));
    }
    Ok(())
}

/// Configures whether the node also pulls from public registries.
pub(crate) fn mirrors(layout: &Layout, wish: Wish) -> Result<()> {
    containerd::mirrors(layout, wish.public_registries)
}

/// Returns whether all of the cluster runs.
pub(crate) fn healthy(layout: &Layout) -> bool {
    if Node::running(&layout.state).is_none() {
        return false;
    }
    if nix::unistd::Uid::effective().is_root() {
        return sandbox::succeeds(layout, &["check"]);
    }
    // Without root the state of the programs can't be read.
    Binaries::ensure(&[Component::ControlPlane], &mut Quiet).is_ok_and(|programs| {
        Tool::new(programs.path(Program::Kubectl))
            .arg("--kubeconfig")
            .arg(layout.kubeconfig())
            .args(["wait", "--for=condition=Ready", "node", network::NODE, "--timeout=3s"])
            .succeeds()
    })
}

/// Stops the node, and deletes the state folder, which has files of root. Needs root.
pub(crate) fn end(layout: &Layout) -> Result<()> {
    sandbox::end(layout)?;
    marker::remove(&layout.state)
}

/// Deletes the state of containers of an earlier node: no container survives its node.
fn forget(layout: &Layout) -> Result<()> {
    let _ = std::fs::remove_file(layout.at("processes.json"));
    for name in ["containerd/root", "containerd/opt", "kubelet", "root"] {
        let folder = layout.at(name);
        if folder.exists() {
            marker::check_mounts(&folder)?;
            layout::remove(&folder)?;
        }
    }
    Ok(())
}
