//! A proxy in front of a real API server, or a queue server, that injects faults, as [`Rule`]s say.
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
//! A [`QueueProxy`] is in front of a server with the protocol of Amazon SQS, such as those of
//! [`testcluster::queue_servers`]. Its requests have the action as their resource, and the queue as their name.
//!
//! It supports HTTP/2, and HTTP/1.1 for clients that do not offer HTTP/2, as kube's client, without upgrades: `exec` and
//! `port-forward` fail. It runs on a thread of its own, so that a test that blocks does not block the proxy.

mod action;
mod connection;
mod edit;
mod encoding;
mod error;
mod events;
mod forward;
mod http2;
mod listener;
mod request;
mod rule;
mod script;
mod selection;
mod server;
mod sqs;
mod stalled;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::{TlsAcceptor, TlsConnector};

use testcluster::ControlPlane;
use testcluster::kubeconfig::{Credential, Kubeconfig, TEST_CLUSTER};
use testcluster::pki;

pub use action::{Action, Answer, Edit, GoAway, Point};
pub use h2::Reason;
pub use listener::Listener;
pub use request::{Request, Verb};
pub use rule::Rule;
pub use selection::{Events, Requests};

use connection::Upstream;

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
    listener: Listener,
    kubeconfig: PathBuf,
}

impl Proxy {
    /// Starts a proxy in front of the API server of `control_plane`, which it calls as `user`, a member of `groups`, and
    /// writes a kubeconfig for it. Clients with that kubeconfig are the same user.
    ///
    /// # Errors
    /// When it gets no port or certificate.
    pub fn before(control_plane: &ControlPlane, user: &str, groups: &[&str]) -> Result<Self, Error> {
        Self::start(control_plane, user, groups, &[tls::HTTP2, tls::HTTP1])
    }

    /// Starts the same proxy, but one that does not offer HTTP/2, as some load balancers.
    ///
    /// # Errors
    /// When it gets no port or certificate.
    pub fn without_http2(control_plane: &ControlPlane, user: &str, groups: &[&str]) -> Result<Self, Error> {
        Self::start(control_plane, user, groups, &[tls::HTTP1])
    }

    fn start(control_plane: &ControlPlane, user: &str, groups: &[&str], protocols: &[&[u8]]) -> Result<Self, Error> {
        let authority = control_plane.ca();
        let identity = authority.client(user, groups)?;
        let kubeconfig = control_plane.fresh_path(user, "kubeconfig");
        let upstream = Upstream {
            address: control_plane.address(),
            connector: Some(TlsConnector::from(Arc::new(tls::client(authority, &identity)?))),
        };
        let acceptor = TlsAcceptor::from(Arc::new(tls::server(authority, protocols)?));
        let listener = Listener::start(Some(acceptor), upstream)?;
        Kubeconfig {
            cluster: TEST_CLUSTER,
            server: &format!("https://{}", listener.address()),
            authority: authority.certificate(),
            user,
            credential: Credential::Certificate(&identity),
        }
        .write(&kubeconfig)?;
        Ok(Self { listener, kubeconfig })
    }

    /// Returns the kubeconfig of the proxy.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the proxy's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.listener.address())
    }
}

impl Deref for Proxy {
    type Target = Listener;

    fn deref(&self) -> &Listener {
        &self.listener
    }
}

/// A proxy in front of a queue server, without TLS. It stops when it is dropped.
#[derive(Debug)]
pub struct QueueProxy(Listener);

impl QueueProxy {
    /// Starts a proxy in front of the queue server at `address`.
    ///
    /// # Errors
    /// When it gets no port.
    pub fn before(address: SocketAddr) -> Result<Self, Error> {
        let upstream = Upstream {
            address,
            connector: None,
        };
        Listener::start(None, upstream).map(Self)
    }

    /// Returns the proxy's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.0.address())
    }
}

impl Deref for QueueProxy {
    type Target = Listener;

    fn deref(&self) -> &Listener {
        &self.0
    }
}
