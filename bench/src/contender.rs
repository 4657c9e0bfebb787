//! The contenders of the benchmark.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How many apps an operator and the floor process at a time, and how many client requests are in flight.
pub const CONCURRENCY: usize = 64;

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contender {
    /// The same writes without an operator.
    Floor,
    /// This project's operator.
    AppDeploy,
    /// An operator in Go: `bench/peer-go`, or a checkout that the user names.
    Peer,
}

impl Contender {
    /// All contenders.
    pub const ALL: [Self; 3] = [Self::Floor, Self::AppDeploy, Self::Peer];

    /// Returns its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::AppDeploy => "appdeploy",
            Self::Peer => "peer",
        }
    }

    /// Returns its title in a table.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Floor => "Floor",
            Self::AppDeploy => "AppDeploy",
            Self::Peer => "Go operator",
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A contender with its program.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The contender.
    pub contender: Contender,
    /// The program; `None` for the floor.
    pub program: Option<PathBuf>,
    /// The files with its CRDs.
    pub crds: Vec<PathBuf>,
}

impl Entry {
    /// Returns the arguments of the program, to serve its probes at `probes`.
    #[must_use]
    pub fn arguments(&self, kubeconfig: &Path, probes: SocketAddr, spare: SocketAddr) -> Vec<OsString> {
        let text = |words: &[String]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut arguments: Vec<OsString> = vec!["--kubeconfig".into(), kubeconfig.into()];
        arguments.extend(match self.contender {
            Contender::Floor => Vec::new(),
            Contender::AppDeploy => text(&[
                "--bind".to_owned(),
                probes.to_string(),
                "--debug-bind".to_owned(),
                spare.to_string(),
                "--concurrency".to_owned(),
                CONCURRENCY.to_string(),
            ]),
            Contender::Peer => text(&[
                "--health-probe-bind-address".to_owned(),
                probes.to_string(),
                "--metrics-bind-address".to_owned(),
                spare.to_string(),
                "--max-concurrent-reconciles".to_owned(),
                CONCURRENCY.to_string(),
            ]),
        });
        arguments
    }
}
