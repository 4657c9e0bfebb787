//! Who is measured.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How many apps an operator works on at a time, how many the floor does, and how many requests of people are under way.
pub const CONCURRENCY: usize = 64;

/// One of those that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contender {
    /// The same writes without an operator.
    Floor,
    /// This project's operator.
    AppDeploy,
    /// An operator in Go, from a checkout that a person names.
    Peer,
}

impl Contender {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Floor, Self::AppDeploy, Self::Peer];

    /// Returns what it is called in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::AppDeploy => "appdeploy",
            Self::Peer => "peer",
        }
    }

    /// Returns what it is called in a table.
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

/// A contender with what is needed to run it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Who it is.
    pub contender: Contender,
    /// The program; the floor has none.
    pub program: Option<PathBuf>,
    /// The files with its CRDs.
    pub crds: Vec<PathBuf>,
}

impl Entry {
    /// Returns the arguments that the program is started with, to serve its probes at `probes`.
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
