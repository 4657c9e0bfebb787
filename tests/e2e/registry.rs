//! A registry that requires a password, next to the local cluster's own.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use testcluster::checkout::Checkout;
use testcluster::node::Node;
use testcluster::process::Process;

/// Its host on the node.
pub const HOST: &str = "registry.example.com";
/// The local cluster's nginx in this registry.
pub const IMAGE: &str = "registry.example.com/library/nginx:1.29";
/// The user who may pull.
pub const USER: &str = "jane";
/// The password of that user.
pub const PASSWORD: &str = "open-sesame";

const ADDRESS: &str = "127.0.0.1:17501";
const PORT: &str = "17501";

/// The registry. It is stopped, and its host removed from the node, when this is dropped.
pub struct Registry {
    _process: Process,
    _folder: tempfile::TempDir,
    _mirror: Mirror,
}

impl Registry {
    /// Starts it with the images of the local cluster, and waits until it accepts connections.
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
        wait_until_listening(&node, &mut process)?;
        Ok(Self {
            _process: process,
            _folder: folder,
            _mirror: Mirror::add(checkout)?,
        })
    }
}

/// The entry by which containerd finds the registry. Without it, containerd uses the cluster's own registry, which requires no
/// password.
struct Mirror {
    folder: PathBuf,
}

impl Mirror {
    /// Adds the entry, which containerd reads at each pull.
    fn add(checkout: &Checkout) -> Result<Self> {
        let folder = checkout.state().join("containerd/mirrors").join(HOST);
        std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        let text = format!(
            "server = \"http://{ADDRESS}\"\n\n[host.\"http://{ADDRESS}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
        );
        let mirror = Self { folder };
        write(&mirror.folder.join("hosts.toml"), &text)?;
        Ok(mirror)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
}

fn wait_until_listening(node: &Node, process: &mut Process) -> Result<()> {
    let started = Instant::now();
    let connects = || node.in_network(|| TcpStream::connect(ADDRESS).is_ok());
    while !connects().context("failed to enter the node's network")? {
        let ended = process.exited().context("failed to read the state of the registry")?;
        ensure!(
            ended.is_none() && started.elapsed() < Duration::from_secs(20),
            "the registry does not listen on {ADDRESS}: {}",
            process.log_tail(5)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
