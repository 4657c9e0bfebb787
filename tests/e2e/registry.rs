//! A registry that wants a password, beside the local cluster's own.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use testcluster::checkout::Checkout;
use testcluster::node::Node;
use testcluster::process::Process;

/// What the node calls it.
pub const HOST: &str = "registry.example.com";
/// An image that it has: the local cluster's nginx.
pub const IMAGE: &str = "registry.example.com/library/nginx:1.29";
/// Who may pull.
pub const USER: &str = "jane";
/// With which password.
pub const PASSWORD: &str = "open-sesame";

const ADDRESS: &str = "127.0.0.1:17501";
const PORT: &str = "17501";

/// The registry, which ends when this is dropped; the node then knows its name no more.
pub struct Registry {
    _process: Process,
    _folder: tempfile::TempDir,
    _name: Name,
}

impl Registry {
    /// Starts it over the images of the local cluster, and returns when it answers.
    pub fn start(checkout: &Checkout) -> Result<Self> {
        let node = Node::running(&checkout.state()).context("the node does not run")?;
        let folder = tempfile::tempdir().context("failed to create a folder")?;
        // In the node's network, where containerd finds it.
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", node.namespace("net").display()))
            .arg("--")
            .arg(checkout.program("testcluster"))
            .arg("--state-dir")
            .arg(checkout.state())
            .args(["node", "registry", "--port", PORT, "--store"])
            .arg(checkout.state().join("registry"))
            .env("REGISTRY_CREDENTIALS", format!("{USER}:{PASSWORD}"));
        let mut process = Process::spawn(&command, &folder.path().join("log")).context("failed to run the registry")?;
        answers(&node, &mut process)?;
        Ok(Self {
            _process: process,
            _folder: folder,
            _name: Name::give(checkout)?,
        })
    }
}

/// The name under which containerd finds the registry; without it the cluster's own would answer for it, and that one
/// wants no password.
struct Name {
    folder: PathBuf,
}

impl Name {
    /// containerd reads this at each pull.
    fn give(checkout: &Checkout) -> Result<Self> {
        let folder = checkout.state().join("containerd/mirrors").join(HOST);
        std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        let text = format!(
            "server = \"http://{ADDRESS}\"\n\n[host.\"http://{ADDRESS}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
        );
        let name = Self { folder };
        write(&name.folder.join("hosts.toml"), &text)?;
        Ok(name)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
}

/// A process has no way to tell that it listens.
fn answers(node: &Node, process: &mut Process) -> Result<()> {
    let started = Instant::now();
    let connects = || node.in_network(|| TcpStream::connect(ADDRESS).is_ok());
    while !connects().context("failed to enter the node's network")? {
        let ended = process.exited().context("failed to look at the registry")?;
        ensure!(
            ended.is_none() && started.elapsed() < Duration::from_secs(20),
            "the registry does not answer on {ADDRESS}: {}",
            process.log_tail(5)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
