//! A registry that wants a password, beside the local cluster's own.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use testcluster::binaries::{Binaries, Component, Program, Quiet};
use testcluster::process::Process;
use tests::Checkout;

/// What the node calls it.
pub const HOST: &str = "registry.example.com";
/// An image that it has: the local cluster's nginx.
pub const IMAGE: &str = "registry.example.com/library/nginx:1.29";
/// Who may pull.
pub const USER: &str = "jane";
/// With which password.
pub const PASSWORD: &str = "open-sesame";

const ADDRESS: &str = "127.0.0.1:17501";
/// The password by bcrypt, the one hash that the registry knows.
const HTPASSWD: &str = "jane:$2y$05$abcdefghijklmnopqrstuutXu9KzOt.1yBoZUeFWoT/914/JfszCO\n";

/// The registry, which ends when this is dropped; the node then knows its name no more.
pub struct Registry {
    _process: Process,
    _folder: tempfile::TempDir,
    _name: Name,
}

impl Registry {
    /// Starts it over the images of the local cluster, and returns when it answers.
    pub fn start(checkout: &Checkout) -> Result<Self> {
        let binaries =
            Binaries::ensure(&[Component::Registry], &mut Quiet).context("failed to find the registry's program")?;
        let folder = tempfile::tempdir().context("failed to create a folder")?;
        let htpasswd = folder.path().join("htpasswd");
        write(&htpasswd, HTPASSWD)?;
        let config = folder.path().join("config.yaml");
        write(
            &config,
            &format!(
                "version: 0.1\nlog: {{ level: warn }}\n\
                 storage:\n  filesystem: {{ rootdirectory: '{}' }}\n\
                 http: {{ addr: '{ADDRESS}' }}\n\
                 auth:\n  htpasswd: {{ realm: private, path: '{}' }}\n",
                checkout.state().join("registry/store").display(),
                htpasswd.display()
            ),
        )?;
        let mut command = Command::new(binaries.path(Program::Registry));
        command.arg("serve").arg(&config);
        let mut process = Process::spawn(&command, &folder.path().join("log")).context("failed to run the registry")?;
        answers(&mut process)?;
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
fn answers(process: &mut Process) -> Result<()> {
    let started = Instant::now();
    while TcpStream::connect(ADDRESS).is_err() {
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
