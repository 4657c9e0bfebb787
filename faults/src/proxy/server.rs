//! Accepts connections, each with one of its own to the API server behind it.
//!
//! So the proxy needs no pool, a client's connections are seen by the API server as they are, and
//! what cuts one side cuts the other.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::ServerName;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::forward::{Problem, forward};
use super::script::Script;

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, acceptor: TlsAcceptor, upstream: Upstream, script: Arc<Script>) {
    loop {
        // A client that gave up while it was in the queue is no reason to stop serving the others.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let Ok(client) = stream.as_fd().try_clone_to_owned() else {
            continue;
        };
        let (acceptor, upstream, script) = (acceptor.clone(), upstream.clone(), Arc::clone(&script));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let connection = Arc::new(Connection {
                client,
                upstream,
                sender: Mutex::default(),
            });
            let service = service_fn(|request| forward(request, Arc::clone(&connection), Arc::clone(&script)));
            // That a connection ends in an error is what most rules are for.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Where the API server is, and how it is spoken to.
#[derive(Clone)]
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    pub(super) connector: TlsConnector,
}

/// A client's connection, and one to the API server for it, opened when it is first needed and again when it was
/// closed.
pub(super) struct Connection {
    client: OwnedFd,
    upstream: Upstream,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Connection {
    /// Has the client's connection end in a reset, and not in an orderly goodbye, when it is closed.
    pub(super) fn reset_when_closed(&self) -> io::Result<()> {
        let at_once = linger {
            l_onoff: 1,
            l_linger: 0,
        };
        Ok(setsockopt(&self.client, sockopt::Linger, &at_once)?)
    }

    /// Sends a request to the API server.
    pub(super) async fn send(&self, request: http::Request<Full<Bytes>>) -> Result<http::Response<Incoming>, Problem> {
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
    async fn open(&self) -> Result<SendRequest<Full<Bytes>>, Problem> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self
            .connector
            .connect(ServerName::from(self.address.ip()), stream)
            .await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // Ends when either side does; the sender notices.
        tokio::spawn(connection);
        Ok(sender)
    }
}
