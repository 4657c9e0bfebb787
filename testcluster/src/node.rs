//! The local cluster's real node: a process tree in its own namespaces, described by a file of the state folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::process::Record;

/// The file of the state folder that describes the running node.
pub const FILE: &str = "node.json";

/// A running node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Node {
    /// The process on the host that forwards connections and cleans up.
    pub supervisor: Record,
    /// The process with id 1 in the node. Everything in the node ends with it.
    pub init: Record,
    /// The port of the API server on 127.0.0.1 of the host.
    pub api_port: u16,
    /// The port of the ingress controller on 127.0.0.1 of the host.
    pub ingress_port: u16,
    /// The node's cgroups, one in each hierarchy.
    pub cgroups: Vec<PathBuf>,
    /// The cgroup that processes join before they enter the node, in each hierarchy.
    pub entrances: Vec<PathBuf>,
}

impl Node {
    /// Reads the node of a state folder, if one was started there. It may no longer run.
    #[must_use]
    pub fn read(state: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(state.join(FILE)).ok()?).ok()
    }

    /// Returns the node of a state folder, if it runs.
    #[must_use]
    pub fn running(state: &Path) -> Option<Self> {
        Self::read(state).filter(|node| node.init.is_alive())
    }

    /// Returns the path of one of the node's namespaces, such as `net`.
    #[must_use]
    pub fn namespace(&self, kind: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/{kind}", self.init.pid))
    }

    /// Runs `work` in a thread in the node's network: its loopback, the pods' and the Services' addresses.
    ///
    /// # Errors
    /// When the node has ended, or this process may not enter its network.
    #[cfg(target_os = "linux")]
    pub fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        use nix::sched::{CloneFlags, setns};
        let network = std::fs::File::open(self.namespace("net"))?;
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                setns(&network, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)?;
                Ok(work())
            });
            worker
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread in the node's network panicked")))
        })
    }

    /// Fails: a node needs Linux.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_os = "linux"))]
    pub fn in_network<T: Send>(&self, _: impl FnOnce() -> T + Send) -> io::Result<T> {
        Err(io::Error::other("a node needs Linux"))
    }
}
