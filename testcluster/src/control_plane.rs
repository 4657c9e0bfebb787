//! etcd, an API server and, if wanted, the controller manager and [fake nodes](crate::fake_nodes): all
//! of Kubernetes but what runs a container.
//!
//! The API server is the real one, in the version that is pinned: its admission, its RBAC, its
//! managed fields, its watches. Each control plane has ports and a folder of its own, so tests
//! may run side by side; it is gone when it is dropped, or when its owner is killed.

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

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is missing.
    #[error(transparent)]
    Binaries(#[from] binaries::Error),
    /// A certificate or file could not be made.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// A process could not be started or signalled.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// kubectl failed.
    #[error(transparent)]
    Kubectl(#[from] kubectl::Error),
    /// The folder for its state could not be made.
    #[error("failed to make a folder for the control plane's state in {}", path.display())]
    MakeFolder {
        /// Where.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// No port could be had.
    #[error("failed to find a free port on 127.0.0.1")]
    FindPort(#[source] io::Error),
    /// A part ended instead of starting.
    #[error("{program} ended while it started; the end of its log:\n{log}")]
    Ended {
        /// Which part.
        program: String,
        /// What it said last.
        log: String,
    },
    /// A part did not become ready.
    #[error("{program} was not ready after {} s ({said}); the end of its log:\n{log}", after.as_secs())]
    NotReady {
        /// Which part.
        program: String,
        /// How long it was given.
        after: Duration,
        /// What it answered last.
        said: String,
        /// What it logged last.
        log: String,
    },
    /// What etcd knows could not be copied.
    #[error("failed to copy what etcd knows")]
    CopyStore(#[source] io::Error),
    /// The keys of etcd could not be read or written.
    #[error("failed to read or write the keys of etcd")]
    Keys(#[source] io::Error),
    /// The audit log could not be read.
    #[error(transparent)]
    Audit(#[from] crate::audit::Error),
    /// The API server was to be signalled, but is stopped.
    #[error("the API server is stopped: call start_apiserver first")]
    Stopped,
}

/// A running control plane, which ends when this is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: whoever asks before whoever answers, the folder last.
    components: Vec<Process>,
    running: Mutex<Option<Process>>,
    store: Mutex<Option<Process>>,
    etcd: Etcd,
    apiserver: ApiServer,
    authority: Authority,
    kubectl: Kubectl,
    started_in: Duration,
    /// Where the audit log begins for the current user of the control plane.
    audit_start: AtomicU64,
    /// Whether a process was stopped, paused or killed.
    is_disturbed: AtomicBool,
    folder: Folder,
}

impl ControlPlane {
    /// Starts an API server with its audit log on, and no controllers.
    ///
    /// # Errors
    /// When a program is missing and can't be built, or a part does not come up.
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Returns a plain control plane of this process's pool, as [`Builder::pooled`].
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn pooled() -> Result<PooledControlPlane, Error> {
        Self::builder().pooled()
    }

    /// Returns a builder for another control plane than the plain one.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the API server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.apiserver.url()
    }

    /// Returns where the API server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.apiserver.address()
    }

    /// Returns the authority that the API server trusts and is vouched for by.
    #[must_use]
    pub fn ca(&self) -> &Authority {
        &self.authority
    }

    /// Returns the administrator's kubeconfig: a member of `system:masters`, whom RBAC never stops.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join(ADMIN_KUBECONFIG)
    }

    /// Writes a kubeconfig for a user, who may do nothing yet unless a group may, and returns its path.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf, Error> {
        let path = self.folder.fresh(user, "kubeconfig");
        write_kubeconfig(&path, &self.url(), &self.authority, user, groups)?;
        Ok(path)
    }

    /// Runs kubectl as the administrator, and returns what it printed.
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

    /// Applies a manifest as the administrator, on the server's side.
    ///
    /// # Errors
    /// When the API server rejects a part of it.
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        Ok(self.kubectl.apply(manifest)?)
    }

    /// Returns the log of who asked the API server for what.
    #[must_use]
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(
            self.apiserver.audit_log(),
            self.audit_start.load(Ordering::Relaxed),
            self.kubectl.clone(),
        )
    }

    /// Stops the API server; etcd keeps what it was told.
    pub fn stop_apiserver(&self) {
        self.is_disturbed.store(true, Ordering::Relaxed);
        drop(lock(&self.running).take());
    }

    /// Kills the API server: what it was asked and has not answered, it never answers.
    ///
    /// # Errors
    /// When it is stopped.
    pub fn kill_apiserver(&self) -> Result<(), Error> {
        self.signal_apiserver(Signal::SIGKILL)?;
        self.stop_apiserver();
        Ok(())
    }

    /// Starts the API server again, on the same port, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_apiserver(&self) -> Result<(), Error> {
        let mut running = lock(&self.running);
        if running.is_none() {
            *running = Some(self.apiserver.start(&self.kubectl)?);
        }
        Ok(())
    }

    /// Freezes the API server: connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// When it is stopped.
    pub fn pause_apiserver(&self) -> Result<(), Error> {
        self.signal_apiserver(Signal::SIGSTOP)
    }

    /// Lets a paused API server go on.
    ///
    /// # Errors
    /// When it is stopped.
    pub fn resume_apiserver(&self) -> Result<(), Error> {
        self.signal_apiserver(Signal::SIGCONT)
    }

    /// Keeps what etcd knows, for [`Self::set_back`], and returns where. The API server is away meanwhile.
    ///
    /// # Errors
    /// When it can't be copied, or etcd or the API server does not come up again.
    pub fn save(&self) -> Result<PathBuf, Error> {
        let backup = self.folder.fresh("etcd", "backup");
        self.while_away(|| self.etcd.save(&backup))?;
        Ok(backup)
    }

    /// Sets etcd back to what it knew at a [`Self::save`]: all versions go back with it. The API server is away meanwhile.
    ///
    /// # Errors
    /// As for [`Self::save`].
    pub fn set_back(&self, backup: &Path) -> Result<(), Error> {
        self.while_away(|| self.etcd.set_back(backup))
    }

    /// Does something while neither the API server nor etcd runs.
    fn while_away(&self, deed: impl FnOnce() -> io::Result<()>) -> Result<(), Error> {
        self.stop_apiserver();
        let mut store = lock(&self.store);
        drop(store.take());
        deed().map_err(Error::CopyStore)?;
        *store = Some(self.etcd.start()?);
        drop(store);
        self.start_apiserver()
    }

    /// Returns how long it took from the start to being ready, without building programs.
    #[must_use]
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Returns the folder of all state and logs, removed at the end.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a path in that folder that nobody was given before.
    #[must_use]
    pub fn fresh_path(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.fresh(name, extension)
    }

    /// Returns the ids of all processes of this control plane.
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
    // A test that panicked while it held this left nothing half done.
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
