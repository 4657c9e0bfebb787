//! Reads a request within its limits and answers it by the routes.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, error};

use super::Limits;
use super::connections::{Connection, Phase};

/// Answers requests.
#[derive(Clone)]
pub struct RequestHandler {
    routes: TowerToHyperService<Router>,
    limits: Limits,
    /// The turns of large bodies.
    turns: Arc<Semaphore>,
}

/// A large body. Its turns end when the last reference to its bytes is dropped, which may be before it is answered.
struct LargeBody {
    bytes: Vec<u8>,
    _turns: Turns,
}

/// The turn among the requests of the same source, and the turn among all.
type Turns = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>);

impl AsRef<[u8]> for LargeBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl RequestHandler {
    /// Creates a handler that answers by these routes.
    #[must_use]
    pub fn new(router: Router, limits: Limits) -> Self {
        Self {
            // axum's own limit is smaller than what API servers send.
            routes: TowerToHyperService::new(router.layer(DefaultBodyLimit::disable())),
            limits,
            turns: Arc::new(Semaphore::new(limits.large)),
        }
    }

    /// Returns the limits.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Never.
    pub async fn answer(&self, connection: &Connection, request: Request<Incoming>) -> Result<Response, Infallible> {
        connection.enter(Phase::Body);
        let until = Instant::now() + self.limits.request;
        let (head, body) = request.into_parts();
        let received = async {
            let bytes = self.read(connection, body).await?;
            // Semaphores are never closed.
            Ok((bytes, connection.source().requests.acquire().await.ok()))
        };
        let response = match timeout_at(until, received).await {
            Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive"),
            Ok(Err(refusal)) => refusal,
            Ok(Ok((bytes, _turn))) => {
                connection.enter(Phase::Work);
                let request = Request::from_parts(head, Body::from(bytes));
                // A panic is answered: otherwise the client would only see that the connection ends.
                let answer = AssertUnwindSafe(self.routes.call(request)).catch_unwind();
                match timeout_at(until, answer).await {
                    Ok(Ok(Ok(response))) => response,
                    Ok(Ok(Err(never))) => match never {},
                    Ok(Err(_)) => {
                        error!("the answer to a request panicked; this is a bug, please report it");
                        refuse(
                            StatusCode::INTERNAL_SERVER_ERROR,
                            "the answer failed; the operator's log says more",
                        )
                    }
                    Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "the answer took too long"),
                }
            }
        };
        connection.enter(Phase::Idle);
        Ok(response)
    }

    async fn read(&self, connection: &Connection, mut body: Incoming) -> Result<Bytes, Response> {
        let most = self.limits.body;
        let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if expected > most {
            return Err(too_large(most));
        }
        let mut bytes = Vec::new();
        let mut turns: Option<Turns> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                debug!(%error, "a request ended before its end");
                refuse(StatusCode::BAD_REQUEST, "the request ended before its end")
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let length = bytes.len() + data.len();
            if length > most {
                return Err(too_large(most));
            }
            // By what has arrived: a client that announces much and sends nothing takes no turn. One turn for all of the
            // body: if each took a part of what is left, all could wait for the rest.
            if length > self.limits.small && turns.is_none() {
                // The turn of the source first, so that one source can't fill the queue for the others.
                let own = connection.source().large.clone().acquire_owned().await.ok();
                turns = Some((own, self.turns.clone().acquire_owned().await.ok()));
                bytes.reserve_exact(expected.max(length) - bytes.len());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(match turns {
            None => bytes.into(),
            Some(turns) => Bytes::from_owner(LargeBody { bytes, _turns: turns }),
        })
    }
}

fn too_large(most: usize) -> Response {
    refuse(
        StatusCode::PAYLOAD_TOO_LARGE,
        &format!("the request is larger than {most} bytes"),
    )
}

fn refuse(status: StatusCode, why: &str) -> Response {
    let mut response = (status, format!("{why}\n")).into_response();
    // The rest of the request is not read.
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
