//! The real node: containerd, the kubelet, kube-proxy; and how all of it is taken away again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testcluster::binaries::{Binaries, Program};

use super::daemons::Daemons;
use super::layout::{self, Layout, RUN};
use super::tool::Tool;
use super::{containerd, kubelet, machine, network};

/// The programs of the node, in the order in which they end: whoever restarts others comes first.
const DAEMONS: [&str; 3] = ["kubelet", "kube-proxy", "containerd"];

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
    let other = Layout { state: PathBuf::from(text.trim()), ..layout.clone() };
    if other.state != layout.state && Daemons::load(&other).states().any(|(_, _, alive)| alive) {
        bail!("a cluster runs from {} already: end that one first (`make cluster-down` there)", other.state.display());
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
    let sockets = shim_sockets();
    for id in leftovers(layout).into_iter().chain(machine::pod_processes()) {
        let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
    }
    wait_until("containers to end", || {
        leftovers(layout).is_empty() && machine::pod_processes().is_empty()
    })?;
    unmount(layout)?;
    network::down(layout)?;
    machine::remove_cgroups()?;
    for socket in sockets {
        let _ = std::fs::remove_file(socket);
    }
    for entry in std::fs::read_dir(containerd::CNI_RESULTS)
        .into_iter()
        .flatten()
        .flatten()
    {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(&format!("{}-", containerd::NETWORK))
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    for dir in [
        Path::new(RUN),
        &layout.at("containerd"),
        &layout.at("kubelet"),
        &layout.at("cni"),
    ] {
        layout::remove(dir)?;
    }
    // Ours only if nobody else has a use for them: they go if they are empty.
    for dir in [
        containerd::CNI_RESULTS,
        "/var/lib/cni",
        "/run/containerd/s",
        "/run/containerd",
    ] {
        let _ = std::fs::remove_dir(dir);
    }
    Ok(())
}

/// Returns processes of the node that no file knows: shims, and daemons whose record is lost. They run one of our
/// programs and name one of our folders. (Not kubectl and ctr: a person may be using them.)
fn leftovers(layout: &Layout) -> Vec<i32> {
    let bin = layout.cache.join("bin");
    let state = format!("{}/", layout.state.display());
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|id| {
            let Ok(program) = std::fs::read_link(format!("/proc/{id}/exe")) else {
                return false;
            };
            let name = program
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let node = ["containerd", "containerd-shim-runc-v2", "kubelet", "kube-proxy"];
            let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words);
            program.starts_with(&bin)
                && node.contains(&name.trim_end_matches(" (deleted)"))
                && (words.contains(&format!("{RUN}/")) || words.contains(&state))
        })
        .collect()
}

/// Returns the shims' sockets, which containerd keeps outside its state folder: each shim's folder tells its own.
fn shim_sockets() -> Vec<String> {
    let tasks = layout::run("containerd/io.containerd.runtime.v2.task/k8s.io");
    std::fs::read_dir(tasks)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("bootstrap.json")).ok())
        .filter_map(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
        .filter_map(|value| Some(value.get("address")?.as_str()?.strip_prefix("unix://")?.to_owned()))
        .collect()
}

/// Unmounts all that is mounted under our folders. Must leave nothing: the folders are deleted next, and through a
/// mount that would delete somebody else's files.
fn unmount(layout: &Layout) -> Result<()> {
    let state = layout.state.canonicalize().unwrap_or_else(|_| layout.state.clone());
    for _ in 0..5 {
        let mounts = mounts_under(&[Path::new(RUN), &state]);
        if mounts.is_empty() {
            return Ok(());
        }
        // The latest first, as they may lie on each other.
        for mount in mounts.iter().rev() {
            let _ =
                umount2(mount.as_str(), MntFlags::empty()).or_else(|_| umount2(mount.as_str(), MntFlags::MNT_DETACH));
        }
    }
    let rest = mounts_under(&[Path::new(RUN), &state]);
    if rest.is_empty() {
        return Ok(());
    }
    bail!(
        "failed to unmount {}; `umount -l {}` may say why",
        rest.join(", "),
        rest.join(" ")
    )
}

fn mounts_under(roots: &[&Path]) -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    parse_mounts(&text, roots)
}

/// Reads the mount points under `roots` from a mountinfo; spaces in a path are written as octal there.
fn parse_mounts(text: &str, roots: &[&Path]) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|path| path.replace("\\040", " ").replace("\\134", "\\"))
        .filter(|path| roots.iter().any(|root| Path::new(path).starts_with(root)))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_below_our_folders_are_ours() {
        let text = "1 2 0:1 / / rw - ext4 a rw\n2 3 0:2 / /run/appdeploy/ns/a\\040b rw - nsfs n rw\n\
                    3 3 0:3 / /run/appdeployed rw - tmpfs t rw";
        assert_eq!(
            parse_mounts(text, &[Path::new("/run/appdeploy")]),
            ["/run/appdeploy/ns/a b"]
        );
    }
}
