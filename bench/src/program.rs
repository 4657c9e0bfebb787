//! An operator as a process: it is started, asked whether it is ready, looked at, and ended.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use testcluster::port::free_address;
use testcluster::process::Process;

use crate::contender::Entry;
use crate::usage::{self, Memory, Open};

const PATIENCE: Duration = Duration::from_secs(120);
/// How long it may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(60);
/// How often it is asked whether it is ready: more often than the times that are told are exact.
const GLANCE: Duration = Duration::from_millis(2);
/// A process that works uses more than a fiftieth of this.
const QUIET: Duration = Duration::from_millis(500);

/// A running operator, which ends when this is dropped.
#[derive(Debug)]
pub struct Program {
    process: Process,
    probes: SocketAddr,
    started: Instant,
}

impl Program {
    /// Starts a contender.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn start(entry: &Entry, kubeconfig: &Path, log: &Path) -> Result<Self> {
        Self::start_with(entry, kubeconfig, log, &[])
    }

    /// Starts a contender with further flags.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn start_with(entry: &Entry, kubeconfig: &Path, log: &Path, flags: &[&str]) -> Result<Self> {
        let program = entry.program.as_ref().context("the floor has no program")?;
        let probes = free_address();
        let mut command = Command::new(program);
        command.args(entry.arguments(kubeconfig, probes, free_address()));
        command.args(flags);
        Ok(Self {
            started: Instant::now(),
            process: Process::spawn(&command, log)?,
            probes,
        })
    }

    /// Waits until it is ready, and returns how long that took from its start.
    ///
    /// # Errors
    /// When it ends, or takes too long.
    pub fn until_ready(&mut self) -> Result<Duration> {
        while !self.is_ready() {
            self.must_run()?;
            ensure!(
                self.started.elapsed() < PATIENCE,
                "the operator did not get ready; {}",
                self.end()
            );
            thread::sleep(GLANCE);
        }
        Ok(self.started.elapsed())
    }

    /// Waits until it has nothing to do.
    ///
    /// # Errors
    /// When it ends, or always has something to do.
    pub fn until_quiet(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut still = 0;
        while still < 3 {
            ensure!(
                started.elapsed() < PATIENCE,
                "the operator does not come to rest; {}",
                self.end()
            );
            let before = self.cpu()?;
            thread::sleep(QUIET);
            still = if self.cpu()?.saturating_sub(before) > QUIET / 50 {
                0
            } else {
                still + 1
            };
        }
        self.must_run()
    }

    /// Ends it as a cluster does: it is asked to.
    ///
    /// # Errors
    /// When it has ended by itself before.
    pub fn stop(mut self) -> Result<()> {
        self.must_run()?;
        self.process.stop(GRACE);
        Ok(())
    }

    /// Returns its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns where it answers probes.
    #[must_use]
    pub const fn probes(&self) -> SocketAddr {
        self.probes
    }

    /// Returns the processor time that it has used.
    ///
    /// # Errors
    /// When it is gone.
    pub fn cpu(&self) -> Result<Duration> {
        usage::cpu(self.process.pid())
    }

    /// Returns its memory.
    ///
    /// # Errors
    /// When it is gone.
    pub fn memory(&self) -> Result<Memory> {
        usage::memory(self.process.pid())
    }

    /// Returns what it has open; connections are those to the API server.
    ///
    /// # Errors
    /// When it is gone.
    pub fn open(&self, apiserver: SocketAddr) -> Result<Open> {
        usage::open(self.process.pid(), apiserver.port())
    }

    fn must_run(&mut self) -> Result<()> {
        if let Some(status) = self.process.exited()? {
            bail!("the operator ended by itself with {status}; {}", self.end());
        }
        Ok(())
    }

    /// Asks whether it is ready: all of HTTP that a probe needs.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let ask = || -> io::Result<bool> {
            let mut stream = TcpStream::connect(self.probes)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(
                stream,
                "GET /readyz HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer.split(' ').nth(1) == Some("200"))
        };
        ask().unwrap_or(false)
    }

    fn end(&self) -> String {
        format!("its log ends with:\n{}", self.process.log_tail(15))
    }
}
