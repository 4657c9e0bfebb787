//! The namespaces of the real node: a process tree with its own network, mounts, processes, IPC, host name and cgroups.
//!
//! ```text
//! testcluster node supervise    on the host: forwards ports, watches, removes the cgroups
//! └─ testcluster node unshare   creates the namespaces
//!    └─ testcluster node init   id 1 in them: file system, network, reaping
//!       └─ etcd, kube-apiserver, containerd, kubelet, …
//! ```
//!
//! The kernel kills each of the first three when its parent ends, and everything in the node when `init` ends. The
//! mounts, links, routes and tables of the node are in its namespaces and end with them. Its cgroups are on the host: the
//! supervisor removes them, or the next `up` or `down` if the supervisor was killed, too.

pub(crate) mod cgroups;
mod forward;
mod init;
mod proxy;
mod root;
mod supervise;

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testcluster::node::{FILE, Node};
use testcluster::process::detach;

use super::layout::Layout;
use super::tool::last_lines;

pub(crate) use init::{init, unshare};
pub(crate) use proxy::PORT as PROXY_PORT;
pub(crate) use supervise::supervise;

/// How long the supervisor may take to create the namespaces.
const START: Duration = Duration::from_secs(30);
/// How long a node may take to stop.
const END: Duration = Duration::from_secs(20);

/// Returns the running node, or starts an empty one.
pub(crate) fn ensure(layout: &Layout) -> Result<Node> {
    if let Some(node) = Node::running(&layout.state) {
        return Ok(node);
    }
    clear(layout)?;
    let log = layout.dir("logs")?.join("supervisor.log");
    let _ = std::fs::rename(&log, log.with_extension("log.old"));
    let supervisor = detach(command(layout, &["supervise"])?, &log)?;
    let started = Instant::now();
    loop {
        if let Some(node) = Node::running(&layout.state) {
            return Ok(node);
        }
        if !supervisor.is_alive() || started.elapsed() > START {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            bail!(
                "failed to create the node's namespaces; {} ends with:\n{}",
                log.display(),
                last_lines(&text, 8)
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stops the node, if it runs, and cleans up on the host.
pub(crate) fn end(layout: &Layout) -> Result<()> {
    if let Some(node) = Node::read(&layout.state) {
        if node.init.is_alive() {
            let init = Pid::from_raw(node.init.pid.cast_signed());
            kill(init, Signal::SIGKILL).context("failed to end the node")?;
        }
        let started = Instant::now();
        while node.init.is_alive() || node.supervisor.is_alive() {
            if started.elapsed() > END {
                // It may hang in an uninterruptible call; the processes of the node have received the signal.
                node.supervisor.end(Duration::ZERO)?;
                node.init.end(Duration::ZERO)?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    clear(layout)
}

/// Cleans up after a node that was killed together with its supervisor.
fn clear(layout: &Layout) -> Result<()> {
    if let Some(node) = Node::read(&layout.state) {
        cgroups::remove(&node.cgroups)?;
        let file = layout.at(FILE);
        std::fs::remove_file(&file).with_context(|| format!("failed to remove {}", file.display()))?;
    }
    Ok(())
}

/// Runs `testcluster node ARGUMENTS` in the node, with this process's input and output.
pub(crate) fn run(layout: &Layout, node: &Node, arguments: &[&str]) -> Result<ExitStatus> {
    let mut words = vec!["enter", "--"];
    words.extend(arguments);
    let mut command = command(layout, &words)?;
    command
        .status()
        .with_context(|| format!("failed to enter the node of process {}", node.init.pid))
}

/// Runs `testcluster node ARGUMENTS` in the node, with its output discarded, and returns whether it succeeded.
pub(crate) fn succeeds(layout: &Layout, arguments: &[&str]) -> bool {
    let mut words = vec!["enter", "--"];
    words.extend(arguments);
    command(layout, &words).is_ok_and(|mut command| command.output().is_ok_and(|output| output.status.success()))
}

/// Moves this process into the node, runs `testcluster node ARGUMENTS` there, and returns its exit status.
///
/// Must be called from a process with one thread.
pub(crate) fn enter(layout: &Layout, arguments: &[String]) -> Result<ExitStatus> {
    let node = Node::running(&layout.state).context("the node does not run: `make cluster` starts it")?;
    cgroups::join(&node.entrances, std::process::id())?;
    let kinds = [
        ("net", CloneFlags::CLONE_NEWNET),
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("uts", CloneFlags::CLONE_NEWUTS),
        ("cgroup", CloneFlags::CLONE_NEWCGROUP),
        ("pid", CloneFlags::CLONE_NEWPID),
        // Last: the paths of the others are those of the host.
        ("mnt", CloneFlags::CLONE_NEWNS),
    ];
    let mut files = Vec::new();
    for (kind, flag) in kinds {
        let path = node.namespace(kind);
        let file = File::open(&path).with_context(|| format!("failed to open {}", path.display()))?;
        files.push((kind, flag, file));
    }
    let mut command = command(layout, &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
    for (kind, flag, file) in files {
        setns(file, flag).with_context(|| format!("failed to enter the node's {kind} namespace"))?;
    }
    command.current_dir("/");
    command.status().context("failed to run testcluster in the node")
}

/// Returns a call of this program's `node` command for the same state and cache.
fn command(layout: &Layout, arguments: &[&str]) -> Result<Command> {
    let this = std::env::current_exe().context("failed to find this program")?;
    let mut command = Command::new(this);
    command
        .arg("--state-dir")
        .arg(&layout.state)
        .arg("node")
        .args(arguments)
        .env("APPDEPLOY_CACHE", &layout.cache);
    Ok(command)
}

/// The name of a cluster's cgroups: it differs for each state folder.
fn cgroup_name(state: &Path) -> String {
    let hash = xxhash_rust::xxh3::xxh3_64(state.as_os_str().as_encoded_bytes());
    format!("appdeploy-{hash:016x}")
}
