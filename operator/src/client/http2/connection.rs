//! Opens an HTTP/2 connection, and closes it when the server no longer answers.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use http::Uri;
use hyper::body::Bytes;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::Config;
use kube::client::ConfigExt as _;
use rustls::pki_types::ServerName;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tower::{BoxError, ServiceExt as _};
use tracing::{debug, warn};

use super::room::{Load, Traffic};

/// Concurrent streams until the server sends its limit. API servers allow 100 by default.
const STREAMS: usize = 100;

/// The largest response header in bytes. API servers send up to 4096 characters of warnings, most others a few hundred bytes.
const HEADERS: u32 = 64 << 10;

/// How a connection is used.
struct Tuning {
    /// The bytes that the server may send on one stream before they are read.
    stream_window: u32,
    /// The bytes that the server may send on all streams before they are read: the most memory that a connection buffers.
    window: u32,
    /// The time between two PING frames.
    interval: Duration,
    /// How long an answer to a PING may take until further requests use another connection.
    delay: Duration,
    /// How long it may take in addition to this until the connection is closed.
    answer: Duration,
}

impl Tuning {
    /// The windows of 100 streams fit into that of the watches' connection, so a watch whose events are not read does not delay
    /// others. Responses to other requests are larger, and are read immediately or dropped at their deadline.
    ///
    /// A server that no longer answers is noticed within the time that a watch may be silent, or that a request may take.
    fn of(traffic: Traffic, limits: &Limits) -> Self {
        match traffic {
            Traffic::Watches => Self {
                stream_window: 64 << 10,
                window: 100 * (64 << 10),
                delay: limits.connect / 10,
                interval: limits.silence / 6,
                answer: limits.silence / 6,
            },
            Traffic::Lease | Traffic::Requests => Self {
                stream_window: 1 << 20,
                window: 4 << 20,
                delay: limits.connect / 10,
                interval: limits.connect,
                answer: limits.connect,
            },
        }
    }
}

/// Whether a connection takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Liveness {
    /// The server answers.
    Alive,
    /// A stream was dropped before its end, perhaps because the server does not answer. A PING shows whether it does.
    Unverified,
    /// A PING is not answered.
    Silent,
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server only speaks HTTP/1.1.
    #[error("the API server does not offer HTTP/2")]
    NoHttp2,
    /// It can't be reached, or is not trusted.
    #[error("failed to connect to the API server")]
    Failed(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// Times that bound a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest time to open a connection, with the TLS handshake.
    pub connect: Duration,
    /// The longest time without a byte of a response.
    pub silence: Duration,
}

/// Opens connections to the API server.
pub struct Connector {
    tcp: HttpConnector,
    tls: TlsConnector,
    name: ServerName<'static>,
    url: Uri,
    limits: Limits,
}

impl Connector {
    /// Returns a connector with the certificates and the CA of these settings. kube's verifier reads the CA file again.
    ///
    /// # Errors
    /// When a certificate, or the name of the server, can't be used.
    pub fn new(config: &Config, limits: Limits) -> anyhow::Result<Self> {
        let mut tls = config.rustls_client_config()?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let host = config
            .cluster_url
            .host()
            .context("the URL of the cluster has no host")?;
        let name = config.tls_server_name.as_deref().unwrap_or(host);
        // An IPv6 address of a URL is in brackets.
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limits.connect));
        Ok(Self {
            tcp,
            tls: TlsConnector::from(Arc::new(tls)),
            name: ServerName::try_from(name).context("the name of the API server is invalid")?,
            url: config.cluster_url.clone(),
            limits,
        })
    }

    /// Opens a connection, and waits until the server has answered on it.
    pub(super) async fn open(&self, traffic: Traffic) -> Result<Connection, ConnectError> {
        match timeout(self.limits.connect, self.connect(traffic)).await {
            Ok(Ok(Some(connection))) => Ok(connection),
            Ok(Ok(None)) => Err(ConnectError::NoHttp2),
            Ok(Err(error)) => Err(ConnectError::Failed(error.into())),
            Err(_) => {
                let why = format!("no answer within {:.0?}", self.limits.connect);
                Err(ConnectError::Failed(Arc::new(io::Error::new(
                    io::ErrorKind::TimedOut,
                    why,
                ))))
            }
        }
    }

    /// Returns `None` if the server does not offer HTTP/2.
    async fn connect(&self, traffic: Traffic) -> Result<Option<Connection>, BoxError> {
        let tcp = self.tcp.clone().oneshot(self.url.clone()).await?.into_inner();
        let tls = self.tls.connect(self.name.clone(), tcp).await?;
        if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Ok(None);
        }
        let tuning = Tuning::of(traffic, &self.limits);
        let handshake = h2::client::Builder::new()
            .enable_push(false)
            .initial_max_send_streams(STREAMS)
            .initial_window_size(tuning.stream_window)
            .initial_connection_window_size(tuning.window)
            .max_header_list_size(HEADERS)
            .handshake::<_, Bytes>(tls);
        let (sender, mut connection) = handshake.await?;
        let mut pings = connection.ping_pong().ok_or("PING is already used")?;
        // A server sends its settings before the answer, so its limit of streams is known after that.
        tokio::select! {
            ended = &mut connection => {
                ended?;
                return Err("the API server closed the connection".into());
            }
            answer = pings.ping(Ping::opaque()) => {
                answer?;
            }
        }
        let liveness = Arc::new(watch::Sender::new(Liveness::Alive));
        let verified = liveness.clone();
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => debug!(?traffic, error = ended.err().map(tracing::field::display), "the connection has ended"),
                () = until_silent(pings, &tuning, &verified) => {
                    let limit = tuning.delay + tuning.answer;
                    warn!(?traffic, "closing a connection: the API server did not answer a PING within {limit:.1?}");
                }
            }
            verified.send_replace(Liveness::Silent);
        });
        debug!(?traffic, "opened a connection");
        Ok(Some(Connection {
            traffic,
            sender,
            liveness,
            streams: AtomicUsize::new(0),
        }))
    }
}

/// Sends PING frames until one is not answered in time.
async fn until_silent(mut pings: PingPong, tuning: &Tuning, liveness: &watch::Sender<Liveness>) {
    let mut changes = liveness.subscribe();
    loop {
        tokio::select! {
            () = sleep(tuning.interval) => {}
            _ = changes.wait_for(|now| *now == Liveness::Unverified) => {}
        }
        let mut answer = pin!(pings.ping(Ping::opaque()));
        let mut answered = timeout(tuning.delay, &mut answer).await;
        if answered.is_err() {
            liveness.send_replace(Liveness::Silent);
            answered = timeout(tuning.answer, answer).await;
        }
        match answered {
            Ok(Ok(_)) => {
                liveness.send_replace(Liveness::Alive);
            }
            // The connection ends by itself.
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => return,
        }
    }
}

/// A connection. It is closed when the last reference and the last stream are dropped.
pub struct Connection {
    pub(super) traffic: Traffic,
    sender: SendRequest<Bytes>,
    liveness: Arc<watch::Sender<Liveness>>,
    /// The streams that are reserved.
    streams: AtomicUsize,
}

impl Connection {
    pub(super) fn load(&self) -> Load {
        Load {
            streams: self.streams.load(Ordering::Relaxed),
            limit: self.limit(),
        }
    }

    /// Whether it takes further requests, now or later: it was not closed, and the server has not sent GOAWAY.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.sender.clone().ready().now_or_never(), Some(Err(_)))
    }

    /// Whether the server is late with the answer to a PING.
    pub(super) fn is_silent(&self) -> bool {
        *self.liveness.borrow() == Liveness::Silent
    }

    /// Whether a PING must show that the server answers.
    pub(super) fn is_unverified(&self) -> bool {
        *self.liveness.borrow() == Liveness::Unverified
    }

    /// Sends a PING.
    pub(super) fn verify(&self) {
        self.liveness.send_if_modified(|now| {
            let is_alive = *now == Liveness::Alive;
            if is_alive {
                *now = Liveness::Unverified;
            }
            is_alive
        });
    }

    /// Waits until the server has answered a PING, or is late with it.
    pub(super) async fn verified(&self) {
        let mut changes = self.liveness.subscribe();
        // The sender lives as long as `self`.
        let _ = changes.wait_for(|now| *now != Liveness::Unverified).await;
    }

    /// Reserves a stream. Returns whether there was one.
    pub(super) fn reserve(&self) -> bool {
        let limit = self.limit();
        let one_more = |streams| (streams < limit).then_some(streams + 1);
        let reserved = self
            .streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        reserved.is_ok()
    }

    /// Ends the reservation of a stream.
    pub(super) fn release(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }

    /// The server's limit of concurrent streams. With a limit of 0 a request waits in the connection.
    fn limit(&self) -> usize {
        self.sender.current_max_send_streams().max(1)
    }
}
