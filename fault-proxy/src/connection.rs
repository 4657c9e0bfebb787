//! A client's connection, and its own connection to the API server.
//!
//! With one upstream connection for each client's the proxy needs no pool, the API server sees connections as clients open
//! them, and a cut on one side cuts the other.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::error::BoxError;

/// The server's address, and TLS with the user's certificate; a queue server has no TLS.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) connector: Option<TlsConnector>,
}

/// A client's connection, and one to the API server, which is opened when it is first needed and again when it was
/// closed.
pub(crate) struct Connection {
    client: OwnedFd,
    upstream: Upstream,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Connection {
    /// Returns the connection of `client`; the one to the API server is opened with the first request.
    pub(crate) fn new(client: OwnedFd, upstream: Upstream) -> Self {
        Self {
            client,
            upstream,
            sender: Mutex::default(),
        }
    }

    /// Has the client's connection end in a reset, and not in an orderly goodbye, when it is closed.
    pub(crate) fn reset_when_closed(&self) -> io::Result<()> {
        let at_once = linger {
            l_onoff: 1,
            l_linger: 0,
        };
        Ok(setsockopt(&self.client, sockopt::Linger, &at_once)?)
    }

    /// Sends a request to the API server.
    pub(crate) async fn send(&self, request: http::Request<Full<Bytes>>) -> Result<http::Response<Incoming>, BoxError> {
        let mut sender = self.sender.lock().await;
        let open = match sender.take() {
            Some(mut open) if !open.is_closed() => open.ready().await.ok().map(|()| open),
            _ => None,
        };
        let open = match open {
            Some(open) => open,
            None => self.upstream.open().await?,
        };
        Ok(sender.insert(open).send_request(request).await?)
    }
}

impl Upstream {
    async fn open(&self) -> Result<SendRequest<Full<Bytes>>, BoxError> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        match &self.connector {
            Some(connector) => open(connector.connect(ServerName::from(self.address.ip()), stream).await?).await,
            None => open(stream).await,
        }
    }
}

async fn open<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends when either side does; the sender notices.
    tokio::spawn(connection);
    Ok(sender)
}
