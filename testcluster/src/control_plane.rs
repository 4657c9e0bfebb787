//! A control plane: etcd, an API server, and optionally the controller manager and [fake nodes](crate::fake_nodes).
//!
//! The API server is the real one in a pinned version, with its admission, RBAC, managed fields and watches. No
//! container runs. Each control plane has its own ports and folder, so tests can run concurrently. It is removed when it
//! is dropped, and its processes are killed when its owner is killed.

mod apiserver;
mod builder;
mod components;
mod contents;
mod etcd;
mod folder;
mod pool;
mod readiness;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;

pub use builder::Builder;
pub use pool::PooledControlPlane;

use crate::audit::AuditLog;
use crate::kubeconfig::{Credential, Kubeconfig};
use crate::kubectl::{self, Kubectl};
use crate::pki::{self, Authority, Identity};
use crate::process::{self, Process};
use crate::{binaries, kubeconfig};

use apiserver::ApiServer;
use etcd::Etcd;
use folder::Folder;

/// An error of starting or using a control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is missing.
    #[error(transparent)]
    Binaries(#[from] binaries::Error),
    /// A certificate or a file could not be created.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// A process could not be started or signaled.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// kubectl failed.
    #[error(transparent)]
    Kubectl(#[from] kubectl::Error),
    /// The folder for its state could not be created.
    #[error("failed to create a folder for the control plane's state in {}", path.display())]
    MakeFolder {
        /// The parent folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is no free port.
    #[error("failed to find a free port on 127.0.0.1")]
    FindPort(#[source] io::Error),
    /// A component exited instead of starting.
    #[error("{program} exited while it started; the end of its log:\n{log}")]
    Ended {
        /// The component.
        program: String,
        /// The end of its log.
        log: String,
    },
    /// A component did not become ready.
    #[error("{program} was not ready after {} s ({response}); the end of its log:\n{log}", after.as_secs())]
    NotReady {
        /// The component.
        program: String,
        /// The timeout.
        after: Duration,
        /// Its last response.
        response: String,
        /// The end of its log.
        log: String,
    },
    /// The data of etcd could not be copied.
    #[error("failed to copy the data of etcd")]
    CopyStore(#[source] io::Error),
    /// The administrator has no valid certificate.
    #[error("failed to prepare requests to the API server")]
    Connect(#[source] io::Error),
    /// The keys of etcd could not be read or written.
    #[error("failed to read or write the keys of etcd")]
    Keys(#[source] io::Error),
    /// The audit log could not be read.
    #[error(transparent)]
    Audit(#[from] crate::audit::Error),
    /// The API server can't be signaled, because it is stopped.
    #[error("the API server is stopped: call start_apiserver first")]
    Stopped,
}

/// A running control plane, which is stopped when this is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: clients before servers, the folder last.
    components: Vec<Process>,
    running: Mutex<Option<Process>>,
    store: Mutex<Option<Process>>,
    etcd: Etcd,
    apiserver: ApiServer,
    authority: Authority,
    kubectl: Kubectl,
    started_in: Duration,
    /// The offset in the audit log at which the current test starts.
    audit_start: AtomicU64,
    /// Whether a process was stopped, paused or killed.
    is_disturbed: AtomicBool,
    folder: Folder,
}

impl ControlPlane {
    /// Starts an API server with its audit log on, and no controllers.
    ///
    /// # Errors
    /// When a program is missing and can't be built, or a component does not start.
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Returns a control plane with default settings from the pool of this process, like [`Builder::pooled`].
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn pooled() -> Result<PooledControlPlane, Error> {
        Self::builder().pooled()
    }

    /// Returns a builder, for a control plane with other settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the API server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.apiserver.url()
    }

    /// Returns the address of the API server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.apiserver.address()
    }

    /// Returns the certificate authority of clients and of the API server.
    #[must_use]
    pub fn ca(&self) -> &Authority {
        &self.authority
    }

    /// Returns the kubeconfig of the administrator, a member of `system:masters`, who has all rights.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join(ADMIN_KUBECONFIG)
    }

    /// Writes a kubeconfig for a user, and returns its path. The user has only the rights of the groups.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf, Error> {
        let path = self.folder.fresh(user, "kubeconfig");
        write_kubeconfig(&path, &self.url(), &self.authority, user, groups)?;
        Ok(path)
    }

    /// Runs kubectl as the administrator, and returns its output.
    ///
    /// # Errors
    /// When it exits with another code than 0; the error has its output.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, Error> {
        Ok(self.kubectl.run(arguments)?)
    }

    /// Returns kubectl for the user of another kubeconfig.
    #[must_use]
    pub fn kubectl_as(&self, kubeconfig: &Path) -> Kubectl {
        self.kubectl.with_kubeconfig(kubeconfig)
    }

    /// Applies a manifest as the administrator, with server-side apply.
    ///
    /// # Errors
    /// When the API server rejects a part of it.
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        Ok(self.kubectl.apply(manifest)?)
    }

    /// Returns the audit log of the API server.
    #[must_use]
    pub fn audit(&self) -> AuditLog {
        self.apiserver.audit_log(self.audit_start.load(Ordering::Relaxed))
    }

    /// Stops the API server. etcd keeps running.
    pub fn stop_apiserver(&self) {
        self.is_disturbed.store(true, Ordering::Relaxed);
        drop(lock(&self.running).take());
    }

    /// Kills the API server: pending requests are never answered.
    ///
    /// # Errors
    /// When it is stopped.
    pub fn kill_apiserver(&self) -> Result<(), Error> {
        self.signal_apiserver(Signal::SIGKILL)?;
        self.stop_apiserver();
        Ok(())
    }

    /// Restarts the API server on the same port, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_apiserver(&self) -> Result<(), Error> {
        let mut running = lock(&self.running);
        if running.is_none() {
            *running = Some(self.apiserver.start()?);
        }
        Ok(())
    }

    /// Pauses the API server: connections stay open, and requests are not answered.
    ///
    /// # Errors
    /// When it is stopped.
    pub fn pause_apiserver(&self) -> Result<(), Error> {
        self.signal_apiserver(Signal::SIGSTOP)
    }

    /// Resumes a paused API server.
    ///
    /// # Errors
    /// When it is stopped.
    pub fn resume_apiserver(&self) -> Result<(), Error> {
        self.signal_apiserver(Signal::SIGCONT)
    }

    /// Backs up the data of etcd for [`Self::set_back`], and returns the path. Restarts etcd and the API server.
    ///
    /// # Errors
    /// When the data can't be copied, or etcd or the API server does not restart.
    pub fn save(&self) -> Result<PathBuf, Error> {
        let backup = self.folder.fresh("etcd", "backup");
        self.while_stopped(|| self.etcd.save(&backup))?;
        Ok(backup)
    }

    /// Restores the data of etcd from [`Self::save`], with all resource versions. Restarts etcd and the API server.
    ///
    /// # Errors
    /// As for [`Self::save`].
    pub fn set_back(&self, backup: &Path) -> Result<(), Error> {
        self.while_stopped(|| self.etcd.set_back(backup))
    }

    /// Runs `work` while neither the API server nor etcd runs.
    fn while_stopped(&self, work: impl FnOnce() -> io::Result<()>) -> Result<(), Error> {
        self.stop_apiserver();
        let mut store = lock(&self.store);
        drop(store.take());
        work().map_err(Error::CopyStore)?;
        *store = Some(self.etcd.start()?);
        drop(store);
        self.start_apiserver()
    }

    /// Returns the time from the start until it was ready, without the time to build programs.
    #[must_use]
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Returns the folder of all state and logs, which is removed when this is dropped.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns an unused path in that folder.
    #[must_use]
    pub fn fresh_path(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.fresh(name, extension)
    }

    /// Returns the process IDs of this control plane.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let (running, store) = (lock(&self.running), lock(&self.store));
        self.components
            .iter()
            .chain(running.iter())
            .chain(store.iter())
            .map(Process::pid)
            .collect()
    }

    fn signal_apiserver(&self, signal: Signal) -> Result<(), Error> {
        self.is_disturbed.store(true, Ordering::Relaxed);
        Ok(lock(&self.running).as_mut().ok_or(Error::Stopped)?.signal(signal)?)
    }
}

fn lock(process: &Mutex<Option<Process>>) -> MutexGuard<'_, Option<Process>> {
    // The value is complete even if a test panicked while it held the lock.
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";

fn write_kubeconfig(
    path: &Path,
    server: &str,
    authority: &Authority,
    user: &str,
    groups: &[&str],
) -> Result<(), pki::Error> {
    let identity: Identity = authority.client(user, groups)?;
    Kubeconfig {
        cluster: kubeconfig::TEST_CLUSTER,
        server,
        authority: authority.certificate(),
        user,
        credential: Credential::Certificate(&identity),
    }
    .write(path)
}
