//! Accepts the connections of clients.

use std::os::fd::AsFd;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::connection::{Connection, Upstream};
use crate::forward::forward;
use crate::http2;
use crate::script::Script;
use crate::tls::HTTP2;

/// Serves until it is dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    upstream: Upstream,
    script: Arc<Script>,
) {
    loop {
        // A client that disconnected while it was in the queue must not stop the server.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let Ok(client) = stream.as_fd().try_clone_to_owned() else {
            continue;
        };
        let (acceptor, upstream, script) = (acceptor.clone(), upstream.clone(), Arc::clone(&script));
        tokio::spawn(async move {
            let connection = Arc::new(Connection::new(client, upstream));
            match acceptor {
                Some(acceptor) => {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
                        http2::serve(stream, &connection, &script).await;
                    } else {
                        answer(stream, &connection, &script).await;
                    }
                }
                None => answer(stream, &connection, &script).await,
            }
        });
    }
}

/// Answers the requests of a connection of HTTP/1.1.
async fn answer<S>(stream: S, connection: &Arc<Connection>, script: &Arc<Script>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request| forward(request, Arc::clone(connection), Arc::clone(script)));
    // Most rules end a connection with an error.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
