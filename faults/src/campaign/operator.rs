//! The operator, as a process that can be killed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use testcluster::ControlPlane;
use testcluster::http::Request;
use testcluster::port::free_address;
use testcluster::process::Process;

use super::webhooks::Webhooks;
use fault_proxy::Proxy;

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The lease duration of operators with leader election: the shortest that is allowed.
const LEASE: &str = "3s";

/// The parameters of an operator.
#[derive(Debug, Clone)]
pub struct Place {
    /// The namespace of the run.
    pub namespace: String,
    /// The namespaces that it manages.
    pub watched: Vec<String>,
    /// The address and the certificate of its webhooks, if it serves any.
    pub webhooks: Option<Webhooks>,
    /// Whether there are AppQueues, whose queue service is on this machine.
    pub has_queues: bool,
}

/// A running operator, which is killed when this is dropped.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    probes: SocketAddr,
}

impl Operator {
    /// Starts an operator for one namespace, behind a proxy, with an optional seeded bug. An operator with a name takes
    /// part in leader election.
    pub fn start(
        program: &Path,
        control_plane: &ControlPlane,
        proxy: &Proxy,
        place: &Place,
        bug: Option<&str>,
        name: Option<&str>,
    ) -> Result<Self> {
        let Place {
            namespace,
            watched,
            webhooks,
            has_queues,
        } = place;
        let probes = free_address();
        let mut command = Command::new(program);
        command
            .arg("--kubeconfig")
            .arg(proxy.kubeconfig())
            .args(["--bind", &probes.to_string()])
            .args(["--debug-bind", &free_address().to_string()])
            .args(["--watch-namespace", &watched.join(",")])
            .envs(bug.map(|bug| ("APPDEPLOY_SEEDED_BUG", bug)));
        if let Some(Webhooks { bind, certificates }) = webhooks {
            command
                .args(["--webhooks", "--webhook-bind", &bind.to_string()])
                .arg("--webhook-cert-dir")
                .arg(certificates);
        }
        if *has_queues {
            command.args(["--allow-local-queue-endpoints", "--external-resync-period=1s"]);
        }
        if let Some(name) = name {
            command
                .args(["--leader-elect", "--leader-elect-lease-duration", LEASE])
                .args(["--namespace", namespace])
                .env("HOSTNAME", name);
        }
        let log = control_plane.fresh_path(&format!("operator-{namespace}"), "log");
        let process = Process::spawn(&command, &log).context("failed to start the operator")?;
        Ok(Self { process, probes })
    }

    /// Waits until its caches are synced; returns whether they are.
    pub fn until_ready(&mut self, timeout: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < timeout && self.is_running() {
            let probe = Request::get("/readyz").send(self.probes);
            if probe.is_ok_and(|response| response.status == 200) {
                return true;
            }
            thread::sleep(POLL_INTERVAL);
        }
        false
    }

    /// Kills it, as a node that loses power does.
    pub fn kill(&mut self) -> Result<()> {
        // It may have exited in the meantime, which is reported elsewhere.
        let _ = self.process.signal(Signal::SIGKILL);
        let started = Instant::now();
        while self.is_running() {
            ensure!(
                started.elapsed() < Duration::from_secs(10),
                "the operator can't be killed"
            );
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns whether it runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.exited(), Ok(None))
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    /// Returns whether it has exited because it lost the Lease: it must be restarted, and stand by.
    pub fn is_deposed(&mut self) -> bool {
        !self.is_running() && self.log_tail(3).contains("another operator leads")
    }

    /// Returns the lines about panics.
    pub fn panics(&self) -> Vec<String> {
        let log = self.process.log_tail(usize::MAX);
        log.lines()
            .filter(|line| line.contains("panicked"))
            .map(str::to_owned)
            .collect()
    }
}
