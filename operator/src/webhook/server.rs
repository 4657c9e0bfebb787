//! Serves routes over TLS to whoever reaches the port: API servers, and perhaps others who mean no good.
//!
//! TLS 1.3 and HTTP/1.1 only. API servers speak both; HTTP/2 would save them connections, and has let clients make a
//! server work for nothing more than once (CVE-2023-44487, CVE-2024-27316).

mod desk;
mod slots;

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch as channel;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::certificate::material::provider;
use super::served::Served;
use desk::Desk;
use slots::{Phase, Slot, Slots};

/// What a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. Those that wait for nothing but their client make room for new ones.
    pub connections: usize,
    /// Time until there is a TLS connection.
    pub handshake: Duration,
    /// Time from the first byte of a request's head to its last, and until the first request comes.
    pub head: Duration,
    /// Time from a request's head to its answer.
    pub request: Duration,
    /// Time between two requests. API servers close a connection after 90 s without one. That they do so first is
    /// better: a request that is under way when a server closes fails.
    pub idle: Duration,
    /// Bytes of a request: an object as large as an API server takes, before and after, and what is around them.
    pub body: usize,
    /// Bytes of a request that is held without further ado. Most are far smaller.
    pub small: usize,
    /// Larger requests at a time. The others wait for their turn, with what of them has come.
    pub large: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Self {
            connections: 256,
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(5),
            request: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            body: 8 * MIB,
            small: MIB / 8,
            large: 4,
        }
    }
}

/// The most bytes of a request's head.
const HEAD: usize = 64 * 1024;

/// Serves until `end`, and then lets what has begun come to its end.
///
/// # Errors
/// Only if TLS can't be set up.
pub async fn serve(
    listener: TcpListener,
    served: Served,
    router: Router,
    limits: Limits,
    end: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let acceptor = TlsAcceptor::from(Arc::new(tls(served)?));
    let desk = Desk::new(router, limits);
    let slots = Slots::new(limits);
    let (ending, ended) = channel::channel(false);
    let mut connections = JoinSet::new();
    let mut end = pin!(end);
    loop {
        let stream = tokio::select! {
            () = &mut end => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // The client has gone already, or there are too many open files: that passes.
                    debug!(%error, "a connection could not be accepted");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let slot = tokio::select! {
            () = &mut end => break,
            slot = slots.claim() => slot,
        };
        connections.spawn(attend(stream, slot, acceptor.clone(), desk.clone(), ended.clone()));
    }
    drop(listener);
    ending.send_replace(true);
    let rest = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.request, rest).await.is_err() {
        warn!(
            "some webhook requests did not end within {} s",
            limits.request.as_secs()
        );
    }
    Ok(())
}

fn tls(served: Served) -> anyhow::Result<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .context("TLS 1.3 can't be used")?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(served));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Whoever connects sees the certificate of now, and nothing is kept of those who were here.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Attends to a connection until it ends, or has taken too long.
async fn attend(stream: TcpStream, slot: Slot, acceptor: TlsAcceptor, desk: Desk, ending: channel::Receiver<bool>) {
    let slot = Arc::new(slot);
    tokio::select! {
        talked = talk(stream, &slot, acceptor, desk, ending) => if let Err(error) = talked {
            debug!(error = format!("{error:#}"), "a connection to the webhooks failed");
        },
        phase = slot.overdue() => debug!(?phase, "a connection to the webhooks was ended"),
    }
}

async fn talk(
    stream: TcpStream,
    slot: &Arc<Slot>,
    acceptor: TlsAcceptor,
    desk: Desk,
    mut ending: channel::Receiver<bool>,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await.context("no TLS connection")?;
    slot.enter(Phase::Head);
    let stream = Noticed {
        stream,
        slot: slot.clone(),
    };
    let service = service_fn(|request| desk.answer(slot, request));
    // Times are kept by the slot. hyper's own time for a head begins with the answer to the request before.
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = &mut connection => return ended.context("no HTTP"),
        _ = ending.wait_for(|is_ending| *is_ending) => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await.context("no HTTP")
}

/// A stream that tells when something has come.
struct Noticed<S> {
    stream: S,
    slot: Arc<Slot>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noticed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.slot.heard();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noticed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
