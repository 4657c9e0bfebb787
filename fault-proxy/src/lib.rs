//! A proxy in front of a real API server that injects faults, as [`Rule`]s say.
//!
//! A controller has to survive refused requests, answers that never arrive, writes that were carried out although the answer
//! was an error, and watches that break, stall or miss an event. A healthy API server on loopback rarely does any of these, so
//! a test injects them:
//!
//! ```no_run
//! # use fault_proxy::{Action, Answer, Proxy, Requests, Rule, Verb};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let control_plane = testcluster::ControlPlane::start()?;
//! let proxy = Proxy::before(&control_plane, "operator", &[])?;
//! let creates = Requests::with(&[Verb::Create]).on("deployments");
//! let timeout = Answer::refusal(504, "Timeout", "request did not complete within the allotted timeout");
//! proxy.add(Rule::new(creates, Action::ForwardThenAnswer(timeout)).first(1));
//! // … start the operator with proxy.kubeconfig(), and count its objects.
//! # Ok(())
//! # }
//! ```
//!
//! A client certificate can't be forwarded. A proxy therefore sends all requests as one user, and accepts only clients with a
//! certificate of the cluster.
//!
//! It supports HTTP/1.1, as kube's client does, without upgrades: `exec` and `port-forward` fail. It runs on a thread of its
//! own, so that a test that blocks does not block the proxy.

mod action;
mod connection;
mod edit;
mod error;
mod events;
mod forward;
mod request;
mod rule;
mod script;
mod selection;
mod server;
mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use testcluster::ControlPlane;
use testcluster::kubeconfig::{Credential, Kubeconfig, TEST_CLUSTER};
use testcluster::pki;

pub use action::{Action, Answer, Edit, Point};
pub use request::{Request, Verb};
pub use rule::Rule;
pub use selection::{Events, Requests};

use connection::Upstream;
use script::Script;
use server::serve;

/// An error of the proxy, or of waiting for a condition.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate or the kubeconfig could not be created.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// TLS could not be set up.
    #[error("failed to set up TLS for the proxy")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It could not listen.
    #[error("failed to listen on 127.0.0.1 for the proxy")]
    Listen(#[from] io::Error),
    /// The condition was not met in time.
    #[error("the proxy did not receive the expected request within {after:?}; the last one was: {last}")]
    Missing {
        /// How long it was waited for.
        after: Duration,
        /// The last state.
        last: String,
    },
}

/// The id of an added rule, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(usize);

/// A request that a proxy received.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The request.
    pub request: Request,
    /// When it was received.
    pub at: Instant,
    /// The action other than forwarding it, and its rule.
    pub done: Option<(RuleId, Action)>,
    /// The HTTP status of the API server's answer; `None` if it was not forwarded, or is not answered yet.
    pub status: Option<u16>,
    /// The HTTP status that the client received; `None` if it received none, or not yet.
    pub told: Option<u16>,
    /// How many events a watch has sent so far, without bookmarks.
    pub events: usize,
}

/// A proxy in front of one control plane, for one user. It stops when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    kubeconfig: PathBuf,
    script: Arc<Script>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of the API server of `control_plane`, which it calls as `user`, a member of `groups`, and
    /// writes a kubeconfig for it. Clients with that kubeconfig are the same user.
    ///
    /// # Errors
    /// When it gets no port or certificate.
    pub fn before(control_plane: &ControlPlane, user: &str, groups: &[&str]) -> Result<Self, Error> {
        let authority = control_plane.ca();
        let identity = authority.client(user, groups)?;
        let kubeconfig = control_plane.fresh_path(user, "kubeconfig");
        let upstream = Upstream {
            address: control_plane.address(),
            connector: TlsConnector::from(Arc::new(tls::client(authority, &identity)?)),
        };
        let acceptor = TlsAcceptor::from(Arc::new(tls::server(authority)?));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        Kubeconfig {
            cluster: TEST_CLUSTER,
            server: &format!("https://{address}"),
            authority: authority.certificate(),
            user,
            credential: Credential::Certificate(&identity),
        }
        .write(&kubeconfig)?;

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
            kubeconfig,
            script,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the kubeconfig of the proxy.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the proxy's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
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
    /// When it was not within `patience`.
    pub fn wait_for_hits(&self, patience: Duration, rule: RuleId, times: usize) -> Result<(), Error> {
        let hit = self.script.wait_for(patience, |state| state.hits(rule) >= times);
        if hit { Ok(()) } else { Err(self.missing(patience)) }
    }

    /// Waits until the received requests satisfy `wanted`, and returns them.
    ///
    /// # Errors
    /// When they don't within `patience`.
    pub fn wait_for(&self, patience: Duration, wanted: impl Fn(&[Record]) -> bool) -> Result<Vec<Record>, Error> {
        let came = self.script.wait_for(patience, |state| wanted(state.records()));
        if came {
            Ok(self.records())
        } else {
            Err(self.missing(patience))
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

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends immediately, with all connections.
            let _ = thread.join();
        }
    }
}
