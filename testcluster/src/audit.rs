//! The API server's audit log: who asked for what, counted.
//!
//! What an operator costs a cluster is what the API server says it was asked, not what the
//! operator believes to have sent. So a test marks a place in the log, does something, and
//! counts what came since:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let control_plane = testcluster::ControlPlane::start()?;
//! let audit = control_plane.audit();
//! let mark = audit.mark()?;
//! // …
//! let requests = audit.since(mark)?.by_user_agent_prefix("appdeploy-operator/");
//! assert_eq!(requests.writes().tally(), [("create deployments".to_owned(), 1)].into());
//! # Ok(())
//! # }
//! ```

mod requests;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use requests::{Request, Requests};

use crate::kubectl::{self, Kubectl};

/// How long the log may lag behind an answered request.
const LAG: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(10);
/// What a marker's URI starts with; such requests are left out of every count.
const MARKER: &str = "/version?testcluster-marker=";
/// The stage of a long-running request that has begun.
const STARTED: &str = "ResponseStarted";

/// Why the log does not tell.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log can't be read.
    #[error("failed to read the audit log {}: is auditing on?", path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A line is no audit event.
    #[error("failed to understand line {line} of the audit log {}", path.display())]
    Parse {
        /// The log.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// The reason.
        source: serde_json::Error,
    },
    /// The API server did not answer the request that marks a place in the log.
    #[error("failed to mark a place in the audit log: the API server must be up for that")]
    Mark(#[from] kubectl::Error),
    /// The marker did not turn up.
    #[error("the audit log {} did not show a request within {} s", path.display(), LAG.as_secs())]
    Lag {
        /// The log.
        path: PathBuf,
    },
    /// What was waited for did not happen.
    #[error("what the test waits for was not asked within {} s; asked was: {asked}", after.as_secs_f32())]
    Missing {
        /// How long it was waited for.
        after: Duration,
        /// What was asked instead.
        asked: String,
    },
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

/// The audit log of one control plane.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
    /// Where it begins, in bytes: what is before belongs to an earlier test.
    start: u64,
    kubectl: Kubectl,
}

impl AuditLog {
    pub(crate) fn new(path: PathBuf, start: u64, kubectl: Kubectl) -> Self {
        Self { path, start, kubectl }
    }

    /// Returns the length of the file, once it has all requests that were answered before this call.
    pub(crate) fn end(&self) -> Result<u64, Error> {
        self.settle()?;
        self.length()
    }

    fn length(&self) -> Result<u64, Error> {
        let length = std::fs::metadata(&self.path).map(|file| file.len());
        length.map_err(|source| self.unreadable(source))
    }

    fn unreadable(&self, source: io::Error) -> Error {
        Error::Read {
            path: self.path.clone(),
            source,
        }
    }

    /// Marks the place behind all requests that were answered before this call.
    ///
    /// # Errors
    /// When the API server is down or writes no log.
    pub fn mark(&self) -> Result<Mark, Error> {
        self.settle().map(Mark)
    }

    /// Returns all requests since `mark` that were answered before this call, and watches that
    /// are still open.
    ///
    /// A request that began before the mark and ended after it belongs to the time before.
    ///
    /// # Errors
    /// When the API server is down or writes no log.
    pub fn since(&self, mark: Mark) -> Result<Requests, Error> {
        self.settle()?;
        self.read(mark.0)
    }

    /// Returns all requests since the API server came up.
    ///
    /// # Errors
    /// When the API server is down or writes no log.
    pub fn all(&self) -> Result<Requests, Error> {
        self.since(Mark(0))
    }

    /// Waits until the requests since `mark` satisfy `wanted`, and returns them.
    ///
    /// # Errors
    /// When they don't within `patience`, or the log can't be read.
    pub fn wait_for(
        &self,
        mark: Mark,
        patience: Duration,
        wanted: impl Fn(&Requests) -> bool,
    ) -> Result<Requests, Error> {
        let started = Instant::now();
        loop {
            let length = self.length()?;
            let requests = self.read(mark.0)?;
            if wanted(&requests) {
                return Ok(requests);
            }
            // The log is read again when it has grown.
            while self.length()? == length {
                if started.elapsed() > patience {
                    return Err(Error::Missing {
                        after: patience,
                        asked: format!("{:?}", requests.tally()),
                    });
                }
                thread::sleep(GLANCE);
            }
        }
    }

    /// Waits until the log holds all requests that were answered before this call, and returns
    /// the number of its lines up to there.
    ///
    /// The API server writes a request's line while it finishes its answer, so a client may be a
    /// little ahead of the log. A request of our own, sent afterwards on a connection of its own,
    /// arrives there later by more than that.
    fn settle(&self) -> Result<usize, Error> {
        static MARKERS: AtomicU32 = AtomicU32::new(0);
        let number = MARKERS.fetch_add(1, Ordering::Relaxed);
        let uri = format!("{MARKER}{}-{number}.", std::process::id());
        self.kubectl.run(&["get", "--raw", &uri])?;
        let started = Instant::now();
        while started.elapsed() < LAG {
            let mut lines = 0;
            for line in self.lines()? {
                lines += 1;
                if line?.contains(&uri) {
                    return Ok(lines);
                }
            }
            thread::sleep(GLANCE);
        }
        Err(Error::Lag {
            path: self.path.clone(),
        })
    }

    fn read(&self, after: usize) -> Result<Requests, Error> {
        let mut requests: Vec<Request> = Vec::new();
        // Long-running requests have two lines with one id; nothing for those that began before.
        let mut known: HashMap<String, Option<usize>> = HashMap::new();
        for (index, line) in self.lines()?.enumerate() {
            let line = line?;
            // Of what came before, only the ids of long-running requests matter, which may have another line later.
            if index < after && !line.contains(STARTED) {
                continue;
            }
            let event: requests::Event = serde_json::from_str(&line).map_err(|source| Error::Parse {
                path: self.path.clone(),
                line: index + 1,
                source,
            })?;
            if event.request_uri.starts_with(MARKER) {
                continue;
            }
            let id = event.audit_id.clone();
            match known.get(&id) {
                Some(Some(position)) => requests[*position] = event.into(),
                Some(None) => {}
                None if index < after => {
                    known.insert(id, None);
                }
                None => {
                    known.insert(id, Some(requests.len()));
                    requests.push(event.into());
                }
            }
        }
        Ok(requests.into())
    }

    /// Returns the whole lines; the last one may be half written.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn lines(&self) -> Result<impl Iterator<Item = Result<String, Error>>, Error> {
        let read = |source| self.unreadable(source);
        let mut file = File::open(&self.path).map_err(read)?;
        file.seek(SeekFrom::Start(self.start)).map_err(read)?;
        let mut log = BufReader::new(file);
        Ok(std::iter::from_fn(move || {
            let mut line = String::new();
            match log.read_line(&mut line) {
                Ok(_) if line.ends_with('\n') => Some(Ok(line)),
                Ok(_) => None,
                Err(source) => Some(Err(read(source))),
            }
        }))
    }
}
