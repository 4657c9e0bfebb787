//! Sends requests over a few HTTP/2 connections. kube's client speaks HTTP/1.1, which needs a connection for each concurrent
//! request and each watch.
//!
//! Watches and the Lease have connections of their own, so that bursts and slow requests do not delay them. A request that ends early resets its
//! own stream only. After GOAWAY, running requests finish and further ones use another connection. A request is repeated only if
//! the server states that it was not processed.
//!
//! kube's layers for addresses, authentication and headers are around this. Servers that do not offer HTTP/2, and proxies, are
//! used with kube's own client.

mod body;
mod connection;
mod pool;
mod room;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Version};
use hyper::body::Bytes;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder, service_fn};
use tracing::{debug, info};

use body::ResponseBody;
use connection::{ConnectError, Connector, Limits};
use pool::{Pool, Slot};
use room::{Fate, Traffic};

/// Limits for settings that have none.
const DEFAULT_LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    silence: Duration::from_secs(180),
};

/// The server has ended the stream before it processed the request, again and again.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not process the request")]
struct Unprocessed(#[source] h2::Error);

/// Sends requests with HTTP/2, or with HTTP/1.1 if the server does not offer HTTP/2. Clones share connections.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

struct Inner {
    http1: OnceCell<Client>,
    http2: Option<Http2>,
    config: Config,
}

struct Http2 {
    pool: Arc<Pool>,
    client: Client,
}

impl Transport {
    /// Returns a transport for these settings; `connect_timeout` and `read_timeout` apply. No connection is opened yet.
    ///
    /// # Errors
    /// When kube can't use the settings.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        let is_direct = config.proxy_url.is_none() && config.cluster_url.scheme() == Some(&Scheme::HTTPS);
        let (http1, http2) = if is_direct {
            (OnceCell::new(), Some(Http2::new(&config)?))
        } else {
            (OnceCell::new_with(Some(Client::try_from(config.clone())?)), None)
        };
        Ok(Self(Arc::new(Inner { http1, http2, config })))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// When there was no response. The server may have carried out the request.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let Inner { http1, http2, config } = &*self.0;
        if let Some(http2) = http2.as_ref().filter(|_| !http1.initialized()) {
            // Before kube's layers, which may request a token, so that only one client does.
            match http2.pool.reserve(Traffic::of(request.uri())).await {
                Ok(slot) => {
                    request.extensions_mut().insert(slot);
                    return Ok(http2.client.send(request).await?);
                }
                Err(ConnectError::NoHttp2) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let fallback = http1.get_or_try_init(async || {
            info!("the API server does not offer HTTP/2; using HTTP/1.1");
            Client::try_from(config.clone())
        });
        Ok(fallback.await?.send(request).await?)
    }
}

impl Http2 {
    fn new(config: &Config) -> anyhow::Result<Self> {
        let limits = Limits {
            connect: config.connect_timeout.unwrap_or(DEFAULT_LIMITS.connect),
            silence: config.read_timeout.unwrap_or(DEFAULT_LIMITS.silence),
        };
        let pool = Pool::new(Connector::new(config, limits)?);
        let streams = pool.clone();
        let send = service_fn(move |request| send(streams.clone(), limits.silence, request));
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .service(send);
        let client = Client::new(service, config.default_namespace.clone());
        Ok(Self { pool, client })
    }
}

/// Sends a request on the stream that is reserved for it.
async fn send(
    pool: Arc<Pool>,
    silence: Duration,
    mut request: Request<Body>,
) -> Result<Response<ResponseBody>, BoxError> {
    let mut reserved = request.extensions_mut().remove::<Slot>();
    let (mut head, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    head.version = Version::HTTP_2;
    if !body.is_empty() {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    let mut repeats = 0;
    loop {
        let slot = match reserved.take() {
            Some(slot) => slot,
            None => pool.reserve(Traffic::of(&head.uri)).await?,
        };
        let answer = exchange(&slot, head.clone(), body.clone());
        let Ok(answer) = timeout(silence, answer).await else {
            let why = format!("no response within {silence:.0?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why).into());
        };
        let failure = match answer {
            Ok(response) => return Ok(response.map(|stream| ResponseBody::new(stream, slot, silence))),
            Err(failure) => failure,
        };
        slot.end();
        match failure {
            (fate, error) if fate.may_repeat(repeats) => {
                debug!(%error, ?fate, "sending a request again that the API server did not process");
                repeats += 1;
            }
            (fate, error) if fate.is_unprocessed() => return Err(Unprocessed(error).into()),
            (_, error) => return Err(error.into()),
        }
    }
}

/// Sends a request once. If this is dropped, its stream is reset.
async fn exchange(slot: &Slot, head: Parts, body: Bytes) -> Result<Response<h2::RecvStream>, (Fate, h2::Error)> {
    let request = Request::from_parts(head, ());
    let sent = slot.connection().sender().send_request(request, body.is_empty());
    let (response, mut stream) = sent.map_err(|error| (Fate::of_unsent(&error), error))?;
    if !body.is_empty() {
        // If this fails, the stream has ended, and the response is the error that has ended it.
        let _ = stream.send_data(body, true);
    }
    response.await.map_err(|error| (Fate::of(&error), error))
}
