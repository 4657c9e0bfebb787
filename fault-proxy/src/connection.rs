//! A client's connection, and its own connections to the API server.
//!
//! A client of HTTP/1.1 has one connection to the API server, one of HTTP/2 as many as it has requests at a time. So the proxy
//! needs no pool that clients share, and a cut on one side cuts the other.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use crate::error::BoxError;

/// The server's address, and TLS with the user's certificate; a queue server has no TLS.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) connector: Option<TlsConnector>,
}

/// A client's connection, and those to the API server, which are opened when they are needed.
pub(crate) struct Connection {
    /// The socket, until it is reset.
    client: Mutex<Option<OwnedFd>>,
    is_reset: watch::Sender<bool>,
    upstream: Upstream,
    senders: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Connection {
    /// Returns the connection of `client`.
    pub(crate) fn new(client: OwnedFd, upstream: Upstream) -> Self {
        Self {
            client: Mutex::new(Some(client)),
            is_reset: watch::Sender::new(false),
            upstream,
            senders: Mutex::default(),
        }
    }

    /// Has the client's connection end in a reset, and not in an orderly goodbye, when it is closed.
    pub(crate) fn reset_when_closed(&self) -> io::Result<()> {
        let at_once = linger {
            l_onoff: 1,
            l_linger: 0,
        };
        // The reset is sent when the last descriptor is closed, so this one must not outlive the connection.
        if let Some(client) = lock(&self.client).take() {
            setsockopt(&client, sockopt::Linger, &at_once)?;
        }
        self.is_reset.send_replace(true);
        Ok(())
    }

    /// Waits until the connection must be reset.
    pub(crate) async fn until_reset(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_reset.subscribe().wait_for(|is_reset| *is_reset).await;
    }

    /// Returns whether the connection must be reset.
    pub(crate) fn is_reset(&self) -> bool {
        *self.is_reset.borrow()
    }

    /// Sends a request to the API server.
    pub(crate) async fn send(&self, request: http::Request<Full<Bytes>>) -> Result<http::Response<Incoming>, BoxError> {
        let idle = self.idle();
        let mut sender = match idle {
            Some(sender) => sender,
            None => self.upstream.open().await?,
        };
        let response = sender.send_request(request).await?;
        // It is ready again after the end of the response.
        lock(&self.senders).push(sender);
        Ok(response)
    }

    /// Takes an open connection to the API server that no request uses.
    fn idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut senders = lock(&self.senders);
        senders.retain(|sender| !sender.is_closed());
        let ready = senders.iter().position(SendRequest::is_ready)?;
        Some(senders.swap_remove(ready))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
