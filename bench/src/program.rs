//! An operator as a process: start, wait until ready, measure, stop.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use testcluster::http::Request;
use testcluster::port::free_address;
use testcluster::process::{Memory, Open, Process};

use crate::contender::Entry;
use crate::usage;

const TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may take to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(60);
/// How often the readiness is polled: more often than the resolution of the results.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The interval for the check for rest: a process that works uses more than a fiftieth of it.
const QUIET: Duration = Duration::from_millis(500);

/// A running operator, which is stopped when this is dropped.
#[derive(Debug)]
pub struct Program {
    process: Process,
    probes: SocketAddr,
    started: Instant,
}

impl Program {
    /// Starts a contender, with additional flags.
    ///
    /// # Errors
    /// When the program does not exist.
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

    /// Waits until it is ready, and returns the time since its start.
    ///
    /// # Errors
    /// When it exits, or takes too long.
    pub fn until_ready(&mut self) -> Result<Duration> {
        while !self.is_ready() {
            self.must_run()?;
            ensure!(
                self.started.elapsed() < TIMEOUT,
                "the operator did not get ready; {}",
                self.end()
            );
            thread::sleep(POLL_INTERVAL);
        }
        Ok(self.started.elapsed())
    }

    /// Waits until it is at rest.
    ///
    /// # Errors
    /// When it exits, or is never at rest.
    pub fn until_quiet(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut still = 0;
        while still < 3 {
            ensure!(
                started.elapsed() < TIMEOUT,
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

    /// Stops it with SIGTERM, as a cluster does.
    ///
    /// # Errors
    /// When it has exited before.
    pub fn stop(mut self) -> Result<()> {
        self.must_run()?;
        self.process.stop(GRACE);
        Ok(())
    }

    /// Kills it, as the kernel does when memory runs out.
    ///
    /// # Errors
    /// When it has exited before.
    pub fn kill(&mut self) -> Result<()> {
        self.process.signal(Signal::SIGKILL)?;
        while self.process.exited()?.is_none() {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the address of its probes.
    #[must_use]
    pub const fn probes(&self) -> SocketAddr {
        self.probes
    }

    /// Returns the processor time that it has used.
    ///
    /// # Errors
    /// When it has exited.
    pub fn cpu(&self) -> Result<Duration> {
        usage::cpu(self.process.pid())
    }

    /// Returns its memory.
    ///
    /// # Errors
    /// When it has exited.
    pub fn memory(&self) -> Result<Memory> {
        Ok(Memory::of(self.process.pid())?)
    }

    /// Returns its open descriptors and its connections to the API server.
    ///
    /// # Errors
    /// When it has exited.
    pub fn open(&self, apiserver: SocketAddr) -> Result<Open> {
        Ok(Open::of(self.process.pid(), apiserver.port())?)
    }

    fn must_run(&mut self) -> Result<()> {
        if let Some(status) = self.process.exited()? {
            bail!("the operator ended by itself with {status}; {}", self.end());
        }
        Ok(())
    }

    /// Returns whether the readiness probe succeeds.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let probe = Request::get("/readyz").send(self.probes);
        probe.is_ok_and(|response| response.status == 200)
    }

    fn end(&self) -> String {
        format!("its log ends with:\n{}", self.process.log_tail(15))
    }
}
