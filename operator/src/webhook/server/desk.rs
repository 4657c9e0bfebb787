//! One request: taken in whole, within its limits, answered by the routes.

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
use super::slots::{Phase, Slot};

/// Answers requests.
#[derive(Clone)]
pub struct Desk {
    routes: TowerToHyperService<Router>,
    limits: Limits,
    /// The turns of large requests.
    turns: Arc<Semaphore>,
}

/// What came, and its turn, if it is large, until it is answered.
type Taken = (Bytes, Option<OwnedSemaphorePermit>);

impl Desk {
    /// Makes one that answers by these routes.
    #[must_use]
    pub fn new(router: Router, limits: Limits) -> Self {
        Self {
            // Its own limit is smaller than what API servers send.
            routes: TowerToHyperService::new(router.layer(DefaultBodyLimit::disable())),
            limits,
            turns: Arc::new(Semaphore::new(limits.large)),
        }
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Never.
    pub async fn answer(&self, slot: &Slot, request: Request<Incoming>) -> Result<Response, Infallible> {
        slot.enter(Phase::Body);
        let until = Instant::now() + self.limits.request;
        let (head, body) = request.into_parts();
        let response = match timeout_at(until, self.take(body)).await {
            Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive"),
            Ok(Err(refusal)) => refusal,
            Ok(Ok((bytes, _turn))) => {
                slot.enter(Phase::Work);
                let request = Request::from_parts(head, Body::from(bytes));
                // A panic is told as an answer: else the API server would only see that the connection ends.
                let answer = AssertUnwindSafe(self.routes.call(request)).catch_unwind();
                match timeout_at(until, answer).await {
                    Ok(Ok(Ok(response))) => response,
                    Ok(Ok(Err(never))) => match never {},
                    Ok(Err(_)) => {
                        error!("the answer to a webhook request has panicked; this is a bug, please report it");
                        refuse(
                            StatusCode::INTERNAL_SERVER_ERROR,
                            "the answer failed; the operator's log says more",
                        )
                    }
                    Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "the answer took too long"),
                }
            }
        };
        slot.enter(Phase::Idle);
        Ok(response)
    }

    async fn take(&self, mut body: Incoming) -> Result<Taken, Response> {
        let most = self.limits.body;
        let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if expected > most {
            return Err(too_large(most));
        }
        let mut bytes = Vec::new();
        let mut turn = None;
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
            // By what has come: who announces much and sends nothing takes nothing. One turn for all of it: if each took
            // a part of what there is, all could wait for the rest.
            if length > self.limits.small && turn.is_none() {
                // It is never closed.
                turn = self.turns.clone().acquire_owned().await.ok();
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.into(), turn))
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
    // What is left of the request is not read.
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
