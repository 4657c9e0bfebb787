//! The operator, as the process that people run.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testcluster::http::Request;
use testcluster::port::free_address;
use testcluster::process::{Memory, Open, Process};

use super::{GLANCE, PATIENCE};

/// A running operator; it ends when this is dropped.
pub struct Operator {
    process: Mutex<Process>,
    pub bind: SocketAddr,
    pub debug_bind: SocketAddr,
}

impl Operator {
    /// Starts an operator with its log in `folder`.
    pub fn spawn(folder: &Path, kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::spawn_on(folder, kubeconfig, free_address(), flags)
    }

    /// Starts an operator that was built elsewhere.
    pub fn spawn_program(program: &Path, folder: &Path, kubeconfig: &Path, flags: &[&str]) -> Self {
        Self::spawn_at(program, folder, kubeconfig, free_address(), flags)
    }

    /// Starts an operator that is to answer probes at `bind`.
    pub fn spawn_on(folder: &Path, kubeconfig: &Path, bind: SocketAddr, flags: &[&str]) -> Self {
        let ours = Path::new(env!("CARGO_BIN_EXE_appdeploy-operator"));
        Self::spawn_at(ours, folder, kubeconfig, bind, flags)
    }

    fn spawn_at(program: &Path, folder: &Path, kubeconfig: &Path, bind: SocketAddr, flags: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let debug_bind = free_address();
        let mut command = Command::new(program);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--bind", &bind.to_string(), "--debug-bind", &debug_bind.to_string()])
            .args(["--log-level", "info,operator=debug"])
            .args(flags);
        let log = folder.join(format!("operator-{}.log", NUMBER.fetch_add(1, Ordering::Relaxed)));
        Self {
            process: Process::spawn(&command, &log).unwrap().into(),
            bind,
            debug_bind,
        }
    }

    /// Waits until it has seen everything.
    pub fn until_ready(&self) {
        self.until("/readyz", "it is ready", |status, _| status == 200);
    }

    /// Waits until it answers as wanted, and returns the body.
    pub fn until(&self, path: &str, what: &str, wanted: impl Fn(u16, &str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let answer = send(self.bind, "GET", path, "");
            if let Ok((status, body)) = &answer
                && wanted(*status, body)
            {
                return body.clone();
            }
            let ended = self.process().exited().unwrap();
            assert!(
                started.elapsed() < PATIENCE && ended.is_none(),
                "not within {PATIENCE:?}: {what}\n{path} answers {answer:?}, {ended:?}\n{}",
                self.log_tail(40)
            );
            std::thread::sleep(GLANCE);
        }
    }

    /// Asks for probes and metrics.
    pub fn get(&self, path: &str) -> (u16, String) {
        send(self.bind, "GET", path, "").unwrap()
    }

    /// Sends a request to the address that is open to all, for something that it must not serve.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        send(self.bind, method, path, body).unwrap()
    }

    /// Asks where only this machine may.
    pub fn debug(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        send(self.debug_bind, method, path, body).unwrap()
    }

    /// Sends SIGTERM, and returns how it ended and how long that took.
    pub fn terminate(&self) -> (ExitStatus, Duration) {
        let started = Instant::now();
        self.process().signal(Signal::SIGTERM).unwrap();
        (self.until_ended(), started.elapsed())
    }

    /// Ends it as a node that loses its power does.
    pub fn kill(&self) {
        self.process().signal(Signal::SIGKILL).unwrap();
        self.until_ended();
    }

    pub fn signal(&self, signal: Signal) {
        self.process().signal(signal).unwrap();
    }

    pub fn until_ended(&self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process().exited().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end:\n{}", self.log_tail(40));
            std::thread::sleep(GLANCE);
        }
    }

    pub fn is_running(&self) -> bool {
        self.process().exited().unwrap().is_none()
    }

    /// Returns the most memory that was resident at a time, in MiB.
    pub fn peak_mib(&self) -> f64 {
        Memory::of(self.process().pid()).unwrap().peak_mib
    }

    /// Returns the memory that is resident, in MiB.
    pub fn resident_mib(&self) -> f64 {
        Memory::of(self.process().pid()).unwrap().now_mib
    }

    /// Returns how many TCP connections to this address it has.
    pub fn connections(&self, to: SocketAddr) -> usize {
        Open::of(self.process().pid(), to.port()).unwrap().connections
    }

    pub fn log(&self) -> String {
        self.log_tail(usize::MAX)
    }

    pub fn log_tail(&self, lines: usize) -> String {
        self.process().log_tail(lines)
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the operator's last words:\n{}", self.log_tail(60));
        }
    }
}

fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let request = Request {
        method,
        path,
        body,
        ..Request::default()
    };
    let response = request.send(address)?;
    Ok((response.status, response.body))
}
