//! An HTTP/1.1 server that bounds connections, time and memory. It serves webhooks over TLS and probes in plain text: both
//! ports are open to all pods of a cluster.

mod connections;
mod handler;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch as channel;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use connections::{Connection, Connections, Phase};
use handler::RequestHandler;

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections. Above that, a new connection replaces one that waits for its client.
    pub connections: usize,
    /// Requests of one source address that are answered concurrently. Others of that address wait.
    pub requests_per_source: usize,
    /// Time until the TLS handshake is done.
    pub handshake: Duration,
    /// Time from the first byte of a request's head to its last, and from the handshake to the first request.
    pub head: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Time from a request's head to its answer.
    pub request: Duration,
    /// Time between two requests. API servers close a connection after 90 s without one. They should do so first: a request that is sent
    /// while the server closes fails.
    pub idle: Duration,
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of a body up to which it is read without waiting for a turn.
    pub small: usize,
    /// Larger bodies that are received concurrently. Others wait for their turn, with what of them has arrived.
    pub large: usize,
    /// Larger bodies of one source address that are received concurrently.
    pub large_per_source: usize,
}

impl Default for Limits {
    /// Returns the limits for webhooks. A body has room for an object of the largest size that an API server accepts, before and after the
    /// change, and for the rest of the review.
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Self {
            connections: 256,
            requests_per_source: 32,
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(5),
            head_bytes: 64 * 1024,
            request: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            body: 8 * MIB,
            small: MIB / 8,
            large: 4,
            large_per_source: 2,
        }
    }
}

impl Limits {
    /// Returns the limits for probes, metrics and the log level, whose requests have small bodies.
    #[must_use]
    pub fn probes() -> Self {
        Self {
            connections: 128,
            requests_per_source: 16,
            head_bytes: 16 * 1024,
            body: 4096,
            small: 4096,
            ..Self::default()
        }
    }
}

/// Turns TCP connections into streams for HTTP.
pub trait Transport: Clone + Send + Sync + 'static {
    /// The stream.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts a connection.
    fn accept(&self, stream: TcpStream) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// HTTP without TLS.
#[derive(Clone, Copy, Debug)]
pub struct PlainText;

impl Transport for PlainText {
    type Stream = TcpStream;

    async fn accept(&self, stream: TcpStream) -> io::Result<TcpStream> {
        Ok(stream)
    }
}

/// How many connections the kernel may establish before they are accepted. It lowers the number to `net.core.somaxconn`, which is
/// 4096 by default, and Go uses that. Beyond it, the kernel drops the first packet of a connection, which the client repeats after
/// a second. The standard library uses 128.
const BACKLOG: u32 = 4096;

/// Listens at an address.
///
/// # Errors
/// Returns an error if the address can't be used.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // Without it, connections of a former process keep the port for a minute.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `end`, then finishes running requests.
pub async fn serve(
    listener: TcpListener,
    transport: impl Transport,
    router: Router,
    limits: Limits,
    end: impl Future<Output = ()>,
) {
    let handler = RequestHandler::new(router, limits);
    let connections = Connections::new(limits);
    let (ending, ended) = channel::channel(false);
    let mut tasks = JoinSet::new();
    let mut end = pin!(end);
    loop {
        let (stream, source) = tokio::select! {
            () = &mut end => break,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => (stream, peer.ip()),
                Err(error) => {
                    // The client closed the connection, or too many files are open. Both are temporary.
                    debug!(%error, "failed to accept a connection");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let connection = tokio::select! {
            () = &mut end => break,
            connection = connections.claim(source) => connection,
        };
        tasks.spawn(run(
            stream,
            source,
            connection,
            transport.clone(),
            handler.clone(),
            ended.clone(),
        ));
    }
    drop(listener);
    ending.send_replace(true);
    let rest = async { while tasks.join_next().await.is_some() {} };
    if timeout(limits.request, rest).await.is_err() {
        warn!("some requests did not end within {} s", limits.request.as_secs());
    }
}

/// Runs a connection until it ends or exceeds a limit.
async fn run(
    stream: TcpStream,
    source: IpAddr,
    connection: Connection,
    transport: impl Transport,
    handler: RequestHandler,
    ending: channel::Receiver<bool>,
) {
    let connection = Arc::new(connection);
    tokio::select! {
        ended = speak(stream, &connection, transport, handler, ending) => if let Err(error) = ended {
            debug!(%source, error = format!("{error:#}"), "a connection failed");
        },
        phase = connection.overdue() => debug!(%source, ?phase, "a connection was ended"),
    }
}

async fn speak(
    stream: TcpStream,
    connection: &Arc<Connection>,
    transport: impl Transport,
    handler: RequestHandler,
    mut ending: channel::Receiver<bool>,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = transport.accept(stream).await.context("the TLS handshake failed")?;
    connection.enter(Phase::Head);
    let stream = Observed {
        stream,
        connection: connection.clone(),
    };
    let service = service_fn(|request| handler.answer(connection, request));
    // The connection measures times itself: hyper's time for a head begins with the answer to the previous request.
    let http = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(handler.limits().head_bytes)
        .serve_connection(TokioIo::new(stream), service);
    let mut http = pin!(http);
    tokio::select! {
        ended = &mut http => return ended.context("not HTTP"),
        _ = ending.wait_for(|is_ending| *is_ending) => {}
    }
    http.as_mut().graceful_shutdown();
    http.await.context("not HTTP")
}

/// A stream that reports to its connection that bytes have arrived.
struct Observed<S> {
    stream: S,
    connection: Arc<Connection>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.connection.received();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
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

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    /// All clients are connected before the first connection is accepted.
    #[tokio::test]
    async fn burst_of_connections_is_not_dropped() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let clients = join_all((0..500).map(|_| TcpStream::connect(address)));
        let connected = timeout(Duration::from_secs(60), clients).await.unwrap();
        assert!(connected.iter().all(Result::is_ok));
    }
}
