//! A queue service next to the local cluster, as `make queue-server` starts it.

use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use testcluster::process::Process;

use crate::environment::Environment;

const ADDRESS: &str = "10.213.0.1:9324";

/// How long the start may take, with a download.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The service. It is stopped when this is dropped.
pub struct QueueServer {
    _process: Process,
    _folder: tempfile::TempDir,
}

impl QueueServer {
    /// Starts it, and waits until it accepts connections.
    pub fn start(environment: &Environment) -> Result<Self> {
        let checkout = &environment.checkout;
        let folder = tempfile::tempdir().context("failed to create a folder")?;
        let mut command = Command::new(checkout.program("testcluster"));
        command.arg("--state-dir").arg(checkout.state()).arg("queue-server");
        // It is always installed, as on a machine where nothing is cached.
        command.env("APPDEPLOY_CACHE", folder.path().join("cache"));
        let mut process =
            Process::spawn(&command, &folder.path().join("log")).context("failed to run the queue server")?;
        let (node, start) = (environment.node()?, Instant::now());
        while node.in_network(|| TcpStream::connect(ADDRESS)).flatten().is_err() {
            let exited = process
                .exited()
                .context("failed to read the state of the queue server")?;
            ensure!(
                exited.is_none() && start.elapsed() < TIMEOUT,
                "the queue server does not listen on {ADDRESS}:\n{}",
                process.log_tail(20)
            );
            thread::sleep(Duration::from_millis(100));
        }
        Ok(Self {
            _process: process,
            _folder: folder,
        })
    }
}
