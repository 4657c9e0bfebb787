//! Counts requests in the audit log of the API server.
//!
//! The log has what the API server received, which may differ from what a client has counted. A test marks a position in
//! the log, does something, and counts the requests since then:
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
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use requests::{Request, Requests};

use crate::administrator::Administrator;

/// How long the log may lag behind a response.
const LAG: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The prefix of the URI of markers, which are not counted.
const MARKER: &str = "/version?testcluster-marker=";
/// The stage of a long-running request that has started.
const STARTED: &str = "ResponseStarted";

/// An error of reading the log.
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
    /// A line is not an audit event.
    #[error("invalid event in line {line} of the audit log {}", path.display())]
    Parse {
        /// The log.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The reason.
        source: serde_json::Error,
    },
    /// The API server did not answer the request that marks a position in the log.
    #[error("failed to mark a position in the audit log: the API server must be up for that")]
    Mark(#[source] io::Error),
    /// The log did not show the marker in time.
    #[error("the audit log {} did not show a request within {} s", path.display(), LAG.as_secs())]
    Lag {
        /// The log.
        path: PathBuf,
    },
    /// The expected requests did not arrive in time.
    #[error("the expected requests did not arrive within {} s; these did: {asked}", after.as_secs_f32())]
    Missing {
        /// The timeout.
        after: Duration,
        /// The requests that arrived.
        asked: String,
    },
}

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

/// The audit log of one control plane.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
    /// The offset of its first byte: earlier lines are of an earlier test.
    start: u64,
    administrator: Administrator,
    /// The address of the API server.
    address: SocketAddr,
}

impl AuditLog {
    pub(crate) const fn new(path: PathBuf, start: u64, administrator: Administrator, address: SocketAddr) -> Self {
        Self {
            path,
            start,
            administrator,
            address,
        }
    }

    /// Returns the length of the file, after it has all requests that were answered before this call.
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

    /// Marks the position after all requests that were answered before this call.
    ///
    /// # Errors
    /// When the API server is down or writes no log.
    pub fn mark(&self) -> Result<Mark, Error> {
        self.settle().map(Mark)
    }

    /// Returns the requests since `mark` that were answered before this call, and watches that are still open.
    ///
    /// A request that started before the mark is not among them.
    ///
    /// # Errors
    /// When the API server is down or writes no log.
    pub fn since(&self, mark: Mark) -> Result<Requests, Error> {
        self.settle()?;
        self.read(mark.0)
    }

    /// Returns all requests since the API server started.
    ///
    /// # Errors
    /// When the API server is down or writes no log.
    pub fn all(&self) -> Result<Requests, Error> {
        self.since(Mark(0))
    }

    /// Waits until the requests since `mark` satisfy `wanted`, and returns them.
    ///
    /// # Errors
    /// When they don't within `timeout`, or the log can't be read.
    pub fn wait_for(
        &self,
        mark: Mark,
        timeout: Duration,
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
                if started.elapsed() > timeout {
                    return Err(Error::Missing {
                        after: timeout,
                        asked: format!("{:?}", requests.tally()),
                    });
                }
                thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Waits until the log has all requests that were answered before this call, and returns the number of lines.
    ///
    /// The API server writes the line of a request while it completes the response, so a client may receive the response
    /// before the log has the line. A marker that is sent after that, over a new connection, takes longer.
    fn settle(&self) -> Result<usize, Error> {
        static MARKERS: AtomicU32 = AtomicU32::new(0);
        let number = MARKERS.fetch_add(1, Ordering::Relaxed);
        let uri = format!("{MARKER}{}-{number}.", std::process::id());
        self.administrator.get(self.address, &uri).map_err(Error::Mark)?;
        let started = Instant::now();
        while started.elapsed() < LAG {
            let mut lines = 0;
            for line in self.lines()? {
                lines += 1;
                if line?.contains(&uri) {
                    return Ok(lines);
                }
            }
            thread::sleep(POLL_INTERVAL);
        }
        Err(Error::Lag {
            path: self.path.clone(),
        })
    }

    fn read(&self, after: usize) -> Result<Requests, Error> {
        let mut requests: Vec<Request> = Vec::new();
        // The index of each request by its ID, because long-running requests have two lines. `None` if it started before.
        let mut known: HashMap<String, Option<usize>> = HashMap::new();
        for (index, line) in self.lines()?.enumerate() {
            let line = line?;
            // Of the requests before the mark, only the IDs of long-running ones are needed: they may have a line later.
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

    /// Returns the complete lines, without a line that is being written.
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
