//! One request to the API server: counted, with a deadline, and with an answer that is told from none.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::api::PatchParams;
use kube::client::Body;
use kube::core::{Status, request, response::reason};
use kube::{Client, Resource};
use model::Failure;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, Span, debug_span, field};

use crate::attempt;
use crate::client::DEADLINE;
use crate::lease::{Fence, Fenced};
use crate::metrics::Metrics;
use crate::seeded::{self, Bug};
use crate::watch::chain;

/// Sends requests, and counts them.
#[derive(Clone)]
pub struct Caller {
    client: Client,
    metrics: Arc<Metrics>,
    fence: Fence,
}

impl Caller {
    /// Makes one that counts in these metrics, and whose writes pass this fence.
    #[must_use]
    pub const fn new(client: Client, metrics: Arc<Metrics>, fence: Fence) -> Self {
        Self { client, metrics, fence }
    }

    /// Sends a request of this verb to this resource, as access rules call them, and waits for the answer, but not
    /// for longer than [`DEADLINE`], and not for longer than is left of the current [`attempt`].
    ///
    /// # Errors
    /// Says whether the API server refused, or did not answer.
    pub async fn send<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        resource: &'static str,
        request: Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<T, CallError> {
        let request = request.map_err(|error| CallError::Lost(error.to_string()))?;
        let left = attempt::time_left(DEADLINE);
        if left.is_zero() {
            attempt::unanswered(None);
            return Err(CallError::Lost("no time was left in this reconcile".into()));
        }
        let span = span(verb, resource);
        let start = Instant::now();
        let exchange = self.exchange(request).instrument(span.clone());
        let answer = if matches!(verb, "get" | "list") {
            timeout(left, exchange).await.map_err(|_| Fenced::TimedOut(left))
        } else {
            self.fence.guard(left, exchange).await
        };
        if !matches!(answer, Err(Fenced::Closed)) {
            self.metrics.request(verb, resource, start.elapsed());
        }
        let answer = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(CallError::Refused(status))) => {
                span.record("code", status.code);
                seeded::answered(status.code);
                CallError::Refused(status)
            }
            Ok(Err(lost)) => lost,
            Err(Fenced::Closed) => return Err(CallError::Lost("another operator may lead by now".into())),
            Err(Fenced::TimedOut(limit)) => CallError::Lost(format!("no answer within {limit:.0?}")),
        };
        if matches!(answer, CallError::Lost(_)) {
            attempt::unanswered(Some(start));
        }
        span.record("otel.status_code", "error");
        Err(answer)
    }

    /// Sends a request and reads the answer. kube's own `request` hides the headers, and with them `Retry-After`.
    async fn exchange<T: DeserializeOwned>(&self, request: http::Request<Vec<u8>>) -> Result<T, CallError> {
        let lost = |error: &dyn std::error::Error| CallError::Lost(chain(error));
        let sent = self.client.send(request.map(Body::from)).await;
        let (head, body) = sent.map_err(|error| lost(&error))?.into_parts();
        let body = body.collect().await.map_err(|error| lost(&error))?.to_bytes();
        if !(head.status.is_client_error() || head.status.is_server_error()) {
            return serde_json::from_slice(&body).map_err(|error| lost(&error));
        }
        if let Some(wait) = retry_after(head.status, &head.headers) {
            attempt::throttled(wait);
        }
        // What stands between us and the API server does not answer with a Status.
        let status = serde_json::from_slice(&body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&body);
            Status::failure(text.trim(), "Failed to parse error data").with_code(head.status.as_u16())
        });
        Err(CallError::Refused(status.boxed()))
    }
}

/// Returns how long an API server that can't take a request now asks to wait. It answers in seconds; proxies may answer with a
/// date, which is left to the backoff.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Makes the span of a request, where it is part of a reconcile: what is asked for other reasons, as the Lease is, is not
/// worth a trace.
fn span(verb: &'static str, resource: &'static str) -> Span {
    if Span::current().is_disabled() {
        return Span::none();
    }
    debug_span!(
        "request",
        otel.name = %format_args!("{verb} {resource}"),
        otel.kind = "client",
        otel.status_code = field::Empty,
        verb,
        resource,
        code = field::Empty,
    )
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server said no.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// There was no answer, or none that could be understood.
    #[error("{0}")]
    Lost(String),
}

impl CallError {
    /// Returns what the object that was to be written is told to fail at.
    #[must_use]
    pub fn failure(self, verb: &str, kind: &'static str, name: &str) -> Failure {
        match self {
            Self::Lost(why) => Failure::Unavailable {
                what: format!("{verb} {kind} {name}"),
                why,
            },
            Self::Refused(status) => refusal(kind, name, verb, &status),
        }
    }
}

/// Takes an answer for one if it is about the object that was asked about. What stands between us and an API server may say
/// 200 and send something else, of which nothing must be believed to be done.
///
/// # Errors
/// When it is about another object, or none.
pub fn about<K: Resource>(name: &str, answer: K) -> Result<K, CallError> {
    let meta = answer.meta();
    if meta.name.as_deref() == Some(name) && meta.uid.is_some() {
        return Ok(answer);
    }
    Err(CallError::Lost(
        "the answer is about another object, or none".to_owned(),
    ))
}

/// Returns the parameters of a patch that makes its fields ours.
#[must_use]
pub fn by_us() -> PatchParams {
    PatchParams {
        field_manager: Some(crd::FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// Tells an answer about the object from an answer about our rights and from one about the server.
#[must_use]
pub fn refusal(kind: &'static str, name: &str, verb: &str, status: &Status) -> Failure {
    let message = status.message.clone();
    let terminating = status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|c| c.reason == "NamespaceTerminating");
    if terminating {
        return Failure::NamespaceTerminating;
    }
    match status.code {
        403 if message.contains("cannot set blockOwnerDeletion") => Failure::Forbidden(lacks_finalizers(kind)),
        // "User … cannot create resource …" is an access rule; any other 403 comes from admission.
        403 if message.contains("cannot ") && message.contains(" resource ") => Failure::Forbidden(message),
        400 | 403 | 413 | 422 => Failure::Rejected {
            kind,
            name: name.to_owned(),
            message,
        },
        _ => Failure::Unavailable {
            what: format!("{verb} {kind} {name}"),
            why: message,
        },
    }
}

/// Says which right `OwnerReferencesPermissionEnforcement` asks for, which does not say it itself.
fn lacks_finalizers(child: &str) -> String {
    let owner = if child == "Pod" {
        crd::Kind::PodSet
    } else {
        crd::Kind::AppDeploy
    };
    format!(
        "the operator cannot update resource \"{}/finalizers\" in API group \"{}\", which this cluster asks of whoever \
         makes a {child} that is deleted before its owner",
        owner.plural(),
        crd::GROUP
    )
}

/// An apply with the UID of an object that was deleted is a conflict, and of one that was replaced by a namesake
/// invalid in that very field.
#[must_use]
pub fn is_another_uid(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let says = |words: &str| status.message.contains(words);
    let is_of_the_uid = says("uid mismatch") || says("UID in precondition");
    (status.reason == reason::CONFLICT && (is_of_the_uid || seeded::is(Bug::ForgetsOnConflict)))
        || (status.is_invalid() && causes.any(|cause| cause.field == "metadata.uid"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(code: u16, message: &str) -> Status {
        serde_json::from_value(json!({"code": code, "message": message, "status": "Failure"})).unwrap()
    }

    #[test]
    fn a_missing_right_is_told_from_a_refusal_of_the_object() {
        let rbac = status(
            403,
            "services is forbidden: User \"x\" cannot create resource \"services\" in API group \"\"",
        );
        let quota = status(403, "services \"web\" is forbidden: exceeded quota: small");
        assert!(matches!(
            refusal("Service", "web", "create", &rbac),
            Failure::Forbidden(_)
        ));
        assert!(matches!(
            refusal("Service", "web", "create", &quota),
            Failure::Rejected { .. }
        ));
    }

    #[test]
    fn the_right_that_admission_asks_for_is_named() {
        let answer = status(
            403,
            "pods \"web-0\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
        );
        let Failure::Forbidden(why) = refusal("Pod", "web-0", "create", &answer) else {
            panic!()
        };
        let right = "cannot update resource \"podsets/finalizers\" in API group \"appdeploy.dev\"";
        assert!(why.contains(right), "{why}");
    }

    #[test]
    fn a_server_in_trouble_is_no_verdict_on_the_object() {
        for code in [409, 429, 500, 503, 504] {
            let failure = refusal("Service", "web", "create", &status(code, "later"));
            assert!(matches!(failure, Failure::Unavailable { .. }), "{code}");
        }
    }

    #[test]
    fn retry_after_counts_for_answers_about_the_server() {
        let answer = |code: u16, value: &str| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, value.parse().unwrap())]);
            retry_after(StatusCode::from_u16(code).unwrap(), &headers)
        };
        assert_eq!(answer(429, "7"), Some(Duration::from_secs(7)));
        assert_eq!(answer(503, " 30 "), Some(Duration::from_secs(30)));
        assert_eq!(answer(404, "7"), None, "an answer about the object");
        for text in ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(answer(429, text), None, "{text}");
        }
        assert_eq!(retry_after(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()), None);
    }

    #[test]
    fn a_terminating_namespace_is_no_rejection() {
        let status: Status = serde_json::from_value(
            json!({"code": 403, "message": "forbidden: unable to create new content",
            "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace x is being terminated"}]}}),
        )
        .unwrap();
        assert_eq!(
            refusal("Service", "web", "create", &status),
            Failure::NamespaceTerminating
        );
    }

    #[test]
    fn a_name_that_contains_uid_is_no_other_identity() {
        let refused: Status = serde_json::from_value(json!({"code": 422, "reason": "Invalid",
            "message": "Deployment.apps \"squid\" is invalid: spec.replicas: Invalid value: -1",
            "details": {"causes": [{"reason": "FieldValueInvalid", "message": "Invalid value: -1", "field": "spec.replicas"}]}}))
        .unwrap();
        assert!(!is_another_uid(&refused));
        let replaced: Status = serde_json::from_value(json!({"code": 422, "reason": "Invalid", "message": "…",
            "details": {"causes": [{"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}]}}))
        .unwrap();
        assert!(is_another_uid(&replaced));
    }
}
