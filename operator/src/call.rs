//! Requests to the API server: counted, with a deadline, and with errors that distinguish a refusal from no answer.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
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
use crate::protobuf;
use crate::watch::chain;

/// Sends requests, and counts them.
#[derive(Clone)]
pub struct Caller {
    client: Client,
    metrics: Arc<Metrics>,
    fence: Fence,
}

impl Caller {
    /// Returns a caller that counts in these metrics, and whose writes pass this fence.
    #[must_use]
    pub const fn new(client: Client, metrics: Arc<Metrics>, fence: Fence) -> Self {
        Self { client, metrics, fence }
    }

    /// Sends a request with this verb and resource, as access rules name them. Waits for the answer at most for [`DEADLINE`] and for
    /// the time that is left of the current [`attempt`].
    ///
    /// # Errors
    /// Returns whether the API server refused, or did not answer.
    pub async fn send<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        resource: &'static str,
        request: Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<T, CallError> {
        let parse = |answer: Bytes| serde_json::from_slice(&answer).map_err(|error| chain(&error));
        self.send_and_parse(verb, resource, request, parse).await
    }

    /// Like [`Caller::send`], with a parser of the answer, which returns why it can't be parsed.
    ///
    /// # Errors
    /// Returns whether the API server refused, or did not answer.
    pub async fn send_and_parse<T>(
        &self,
        verb: &'static str,
        resource: &'static str,
        request: Result<http::Request<Vec<u8>>, request::Error>,
        parse: impl FnOnce(Bytes) -> Result<T, String>,
    ) -> Result<T, CallError> {
        let request = request.map_err(|error| CallError::Lost(error.to_string()))?;
        let left = attempt::time_left(DEADLINE);
        if left.is_zero() {
            attempt::unanswered(None);
            return Err(CallError::Lost("no time was left in this reconcile".into()));
        }
        let span = span(verb, resource);
        let start = Instant::now();
        let exchange = self.exchange(request, parse).instrument(span.clone());
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

    /// Carries out an effect on another service than the API server, if this operator may have effects now, and for as long as it
    /// may, at most `limit` and what is left of the current [`attempt`].
    ///
    /// # Errors
    /// Returns whether it did not begin, or did not end in time.
    pub async fn effect<T>(&self, limit: Duration, effect: impl Future<Output = T>) -> Result<T, Fenced> {
        self.fence.guard(attempt::time_left(limit), effect).await
    }

    /// Sends a request and reads the answer. kube's own `request` hides the headers, and with them `Retry-After`.
    async fn exchange<T>(
        &self,
        request: http::Request<Vec<u8>>,
        parse: impl FnOnce(Bytes) -> Result<T, String>,
    ) -> Result<T, CallError> {
        let lost = |error: &dyn std::error::Error| CallError::Lost(chain(error));
        let sent = self.client.send(request.map(Body::from)).await;
        let (head, body) = sent.map_err(|error| lost(&error))?.into_parts();
        let body = body.collect().await.map_err(|error| lost(&error))?.to_bytes();
        if !(head.status.is_client_error() || head.status.is_server_error()) {
            return parse(body).map_err(CallError::Lost);
        }
        if let Some(wait) = retry_after(head.status, &head.headers) {
            attempt::throttled(wait);
        }
        Err(CallError::Refused(status(&body, head.status).boxed()))
    }
}

/// Reads an error of the API server, as JSON or protobuf. A proxy in front of it may answer with text.
pub(crate) fn status(body: &[u8], code: StatusCode) -> Status {
    let unreadable = |text: &str| Status::failure(text.trim(), "Failed to parse error data");
    let status = match protobuf::Answer::of(body) {
        Some(answer) => answer
            .and_then(protobuf::Answer::status)
            .unwrap_or_else(|error| unreadable(&format!("the error can't be read: {error}"))),
        None => serde_json::from_slice(body).unwrap_or_else(|_| unreadable(&String::from_utf8_lossy(body))),
    };
    status.with_code(code.as_u16())
}

/// Returns how long an overloaded API server asks to wait, in seconds. Proxies may answer with a date, which is ignored: the backoff
/// applies.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns the span of a request that is part of a reconcile. Other requests, such as those for the Lease, have none.
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
    /// The API server refused it.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// There was no response, or one that can't be parsed.
    #[error("{0}")]
    Lost(String),
}

impl CallError {
    /// Returns the failure for the status of the object that was to be written.
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

/// Checks that an answer is about the object of the request. A proxy in front of the API server may answer 200 with something else;
/// then the request does not count as done.
///
/// # Errors
/// Returns an error if the answer is about another object, or none.
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

/// Returns the parameters of an apply that makes its fields ours, and takes them from other managers.
///
/// An apply with an unknown field is refused whatever `fieldValidation` is. With another one than `Ignore`, the API server only
/// parses the body once more, for duplicate keys, which serde does not write (ADR 4).
#[must_use]
pub fn applied_by_us() -> PatchParams {
    PatchParams::apply(crd::FIELD_MANAGER).force().validation_ignore()
}

/// Distinguishes answers about the object, about the operator's rights, and about the server.
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

/// Returns the right that `OwnerReferencesPermissionEnforcement` requires; its message does not name it.
fn lacks_finalizers(child: &str) -> String {
    let owner = match child {
        "Pod" => crd::Kind::PodSet.names(),
        "ConfigMap" => crd::Names::APP_QUEUE,
        _ => crd::Kind::AppDeploy.names(),
    };
    format!(
        "the operator cannot update resource \"{}/finalizers\" in API group \"{}\", which this cluster requires to \
         create a {child} that is deleted before its owner",
        owner.plural,
        crd::GROUP
    )
}

/// An apply with the UID of a deleted object is a conflict; if another object has its name, the field with the UID is invalid.
#[must_use]
pub fn is_another_uid(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let says = |words: &str| status.message.contains(words);
    let is_of_the_uid = says("uid mismatch") || says("UID in precondition");
    (status.reason == reason::CONFLICT && is_of_the_uid)
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
    fn missing_right_differs_from_a_rejected_object() {
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
    fn right_required_by_admission_is_named() {
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
    fn server_errors_say_nothing_about_the_object() {
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
    fn terminating_namespace_is_not_a_rejection() {
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
    fn name_that_contains_uid_is_not_a_changed_uid() {
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
