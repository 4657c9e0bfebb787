//! The real node: containerd, the kubelet, kube-proxy; and how all of it is taken away again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use testcluster::binaries::{Binaries, Program};

use super::daemons::Daemons;
use super::layout::{self, Layout, RUN};
use super::tool::Tool;
use super::{containerd, kubelet, leftovers, machine, network};

/// The programs of the node, in the order in which they end: whoever restarts others comes first.
const DAEMONS: [&str; 3] = ["kubelet", "kube-proxy", "containerd"];
/// What holds a container; it lives on without containerd, and no file knows it.
const SHIM: &str = "containerd-shim-runc-v2";

/// Gives the machine to this cluster: whatever an earlier node left is gone, the node's address is there.
pub(crate) fn prepare(layout: &Layout, daemons: &mut Daemons) -> Result<()> {
    if !daemons.alive("containerd") {
        // Containers may live on without containerd, mounts and links without anybody.
        clear(layout, daemons)?;
    }
    layout::create(Path::new(RUN))?;
    std::fs::write(owner(), layout.state.display().to_string()).context("failed to claim the machine")?;
    network::up(layout)?;
    machine::create_cgroups()
}

/// Sees to it that no other node has this machine: its addresses and kube-proxy's tables are there only once.
pub(crate) fn claim(layout: &Layout) -> Result<()> {
    if !Path::new(RUN).exists() {
        if network::foreign_proxy() {
            bail!("another Kubernetes node runs on this machine (kube-proxy's tables are there): end it first");
        }
        return Ok(());
    }
    let text = std::fs::read_to_string(owner()).unwrap_or_default();
    let other = Layout {
        state: PathBuf::from(text.trim()),
        ..layout.clone()
    };
    if other.state != layout.state && Daemons::load(&other).states().any(|(_, _, alive)| alive) {
        bail!(
            "a cluster runs from {} already: end that one first (`make cluster-down` there)",
            other.state.display()
        );
    }
    Ok(())
}

/// Tells whether this cluster has the machine.
pub(crate) fn owns(layout: &Layout) -> bool {
    std::fs::read_to_string(owner()).is_ok_and(|text| Path::new(text.trim()) == layout.state)
}

/// The file that says which checkout's cluster has this machine.
fn owner() -> PathBuf {
    layout::run("owner")
}

/// Starts what does not run of the node.
pub(crate) fn up(layout: &Layout, programs: &Binaries, daemons: &mut Daemons) -> Result<()> {
    let config = containerd::configure(layout)?;
    let containerd = programs.path(Program::Containerd);
    daemons.ensure(
        "containerd",
        &containerd,
        &["--config".into(), config.display().to_string()],
        &[],
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

/// Ends the node and removes all that it made of the machine: containers, mounts, links, tables, cgroups, sockets.
/// Images and the rest of containerd's store go too: half of it would be worse than none.
pub(crate) fn clear(layout: &Layout, daemons: &mut Daemons) -> Result<()> {
    for name in DAEMONS {
        daemons.end(name)?;
    }
    let sockets = leftovers::shim_sockets();
    let processes = || {
        let mut ids = leftovers::processes(layout, &[SHIM]);
        ids.extend(leftovers::processes(layout, &DAEMONS));
        ids.extend(machine::pod_processes());
        ids
    };
    leftovers::end(processes());
    wait_until("containers to end", || processes().is_empty())?;
    leftovers::unmount(layout)?;
    network::down(layout)?;
    machine::remove_cgroups()?;
    for socket in sockets {
        let _ = std::fs::remove_file(socket);
    }
    for dir in [
        Path::new(RUN),
        &layout.at("containerd"),
        &layout.at("kubelet"),
        &layout.at("cni"),
    ] {
        layout::remove(dir)?;
    }
    leftovers::remove_files();
    Ok(())
}

fn wait_until(what: &str, done: impl Fn() -> bool) -> Result<()> {
    for _ in 0..100 {
        if done() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("waited 10 s in vain for {what}; `ps -ef` shows what is left")
}

/// Returns whether the node is ready.
pub(crate) fn ready(kubectl: Tool) -> Result<bool> {
    let path = "-o=jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let status = kubectl
        .args(["get", "node", kubelet::NODE, path])
        .run()
        .context("failed to read the node")?;
    Ok(status.trim() == "True")
}
