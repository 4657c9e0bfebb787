//! The part that all proxies share: a thread that serves, its rules and its records.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::connection::Upstream;
use crate::request::Request;
use crate::rule::Rule;
use crate::script::Script;
use crate::selection::Requests;
use crate::server::serve;
use crate::{Error, Record, RuleId};

/// A running proxy: its rules and its records. It stops when it is dropped.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    script: Arc<Script>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens on a free port of 127.0.0.1, with TLS if there is an acceptor.
    pub(crate) fn start(acceptor: Option<TlsAcceptor>, upstream: Upstream) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let script = Arc::new(Script::new());
        let (stop, stopped) = oneshot::channel();
        let serving = serve(listener, acceptor, upstream, Arc::clone(&script));
        let thread = thread::Builder::new().name("fault-proxy".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            address,
            script,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a rule. If several rules match a request, the oldest one that applies to it is used.
    #[expect(
        clippy::must_use_candidate,
        reason = "most rules stand until the test ends, and are never removed"
    )]
    pub fn add(&self, rule: Rule) -> RuleId {
        self.script.add(rule)
    }

    /// Removes a rule, and releases the requests that it holds.
    pub fn remove(&self, rule: RuleId) {
        self.script.remove(Some(rule));
    }

    /// Removes all rules: from now on, the proxy only forwards.
    pub fn clear(&self) {
        self.script.remove(None);
    }

    /// Closes the connections of the open watches among `requests`, and returns their number.
    pub fn cut_watches(&self, requests: &Requests) -> usize {
        self.script.watches(requests, Notify::notify_one)
    }

    /// Returns how many watches among `requests` are open.
    #[must_use]
    pub fn open_watches(&self, requests: &Requests) -> usize {
        self.script.watches(requests, |_| {})
    }

    /// Returns all requests in their order.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.script.state().records().to_vec()
    }

    /// Returns how often a rule was applied: to requests, or to events if it is about events. So a test can distinguish a
    /// fault that was survived from one that was never injected.
    #[must_use]
    pub fn hits(&self, rule: RuleId) -> usize {
        self.script.state().hits(rule)
    }

    /// Waits until a rule was applied at least `times` times.
    ///
    /// # Errors
    /// When it was not within `timeout`.
    pub fn wait_for_hits(&self, timeout: Duration, rule: RuleId, times: usize) -> Result<(), Error> {
        let hit = self.script.wait_for(timeout, |state| state.hits(rule) >= times);
        if hit { Ok(()) } else { Err(self.missing(timeout)) }
    }

    /// Waits until the received requests satisfy `wanted`, and returns them.
    ///
    /// # Errors
    /// When they don't within `timeout`.
    pub fn wait_for(&self, timeout: Duration, wanted: impl Fn(&[Record]) -> bool) -> Result<Vec<Record>, Error> {
        let came = self.script.wait_for(timeout, |state| wanted(state.records()));
        if came {
            Ok(self.records())
        } else {
            Err(self.missing(timeout))
        }
    }

    fn missing(&self, after: Duration) -> Error {
        let records = self.records();
        let last = records.iter().rev().take(5).map(|record| {
            let Request { method, path, .. } = &record.request;
            format!("{method} {path} {:?}", record.told)
        });
        Error::Missing {
            after,
            last: last.collect::<Vec<_>>().join(", "),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends immediately, with all connections.
            let _ = thread.join();
        }
    }
}
