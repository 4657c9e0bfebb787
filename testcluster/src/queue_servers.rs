//! Servers with the protocol of Amazon SQS, for tests: [`ElasticMq`] and [`Moto`].
//!
//! Each is installed into the cache on first use, listens on one given address only, and is stopped when it is dropped.
//! Pods reach a server on an address of the machine other than loopback.
//!
//! ElasticMQ accepts any credentials, and ignores `MessageRetentionPeriod` and `MaximumMessageSize`. moto checks signatures
//! and permissions, and lets a second `CreateQueue` replace the tags of a queue. Both accept a name again immediately after
//! its deletion. `sqs/tests/it` shows these differences.

mod elasticmq;
mod install;
mod moto;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

pub use elasticmq::ElasticMq;
pub use moto::{AccessKey, Moto};

use crate::http::Request;
use crate::port::free_address;
use crate::process::Process;

/// How long a server may take to be ready.
const TIMEOUT: Duration = Duration::from_secs(90);
/// The pause between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How many ports are tried: another process may bind a free port first.
const TRIES: usize = 3;

/// A running server, which is stopped when this is dropped.
#[derive(Debug)]
pub struct QueueServer {
    process: Process,
    address: SocketAddr,
    _folder: TempDir,
}

impl QueueServer {
    /// Starts the command that `command` returns for an address and a folder for its files, and waits until `path` of it
    /// answers with status 200. The port is a free one.
    fn start(ip: IpAddr, path: &str, command: impl Fn(SocketAddr, &Path) -> Result<Command>) -> Result<Self> {
        for _ in 1..TRIES {
            if let Some(server) = Self::try_start(free(ip), path, &command)? {
                return Ok(server);
            }
        }
        Self::try_start(free(ip), path, &command)?.context("the ports of all tries are in use")
    }

    /// As [`Self::start`], at this address.
    fn start_at(
        address: SocketAddr,
        path: &str,
        command: impl Fn(SocketAddr, &Path) -> Result<Command>,
    ) -> Result<Self> {
        Self::try_start(address, path, &command)?.with_context(|| format!("{address} is in use"))
    }

    /// Returns `None` if another process has taken the port.
    fn try_start(
        address: SocketAddr,
        path: &str,
        command: impl Fn(SocketAddr, &Path) -> Result<Command>,
    ) -> Result<Option<Self>> {
        let folder = tempfile::tempdir().context("failed to create a folder")?;
        let command = command(address, folder.path())?;
        let mut process = Process::spawn(&command, &folder.path().join("log"))?;
        let started = Instant::now();
        loop {
            let answer = Request::get(path).send(address);
            // Checked after the answer, which may be of another process on that port.
            let log = process.log_tail(20);
            if log.to_lowercase().contains("already in use") {
                return Ok(None);
            }
            if let Some(status) = process.exited().context("failed to read the state of a server")? {
                bail!("{} has ended with {status}:\n{log}", process.name());
            }
            match answer {
                Ok(answer) if answer.status == 200 => break,
                _ if started.elapsed() < TIMEOUT => thread::sleep(POLL_INTERVAL),
                Ok(answer) => bail!("{} answers {} on {address}:\n{log}", process.name(), answer.status),
                Err(error) => bail!("{} does not answer on {address}: {error}\n{log}", process.name()),
            }
        }
        Ok(Some(Self {
            process,
            address,
            _folder: folder,
        }))
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the process, to pause it with a signal or to read its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// Returns an address with a port that is probably free.
fn free(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, free_address().port())
}
