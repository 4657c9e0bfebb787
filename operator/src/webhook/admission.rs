//! Answers admission reviews. [`model::admit`] decides; this module fetches what the decision needs: the claims of hosts, what other
//! managers added to Deployments, and the author's rights.

mod additions;
mod rights;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use crd::{AppDeploy, AppQueue, PodSet};
use kube::core::admission::{AdmissionResponse, Operation};
use kube::core::response::{Status, reason};
use model::admit::{
    RequiredRight, changes_program, is_same, label_patch, right_to_credentials, rights_to_references, warnings,
};
use model::config_maps::{self, UsesConfigMaps};
use model::host;
use model::podset::ValidPodSet;
use model::queue;
use model::validate;
use serde::Serialize;
use tokio::sync::Semaphore;
use tracing::{debug, info};

use additions::AppDeployment;

use super::log_limit::{LogLimit, truncated};
use super::review::{Read, Review, Reviewable};
use crate::call::Caller;
use crate::stores::Stores;
use crate::stores::hosts::NotListed;

/// The most access reviews that run concurrently: any pod can connect to the port, and must not cause unlimited requests.
const CONCURRENT_REVIEWS: usize = 32;

/// Bodies larger than this are parsed one at a time.
const LARGE: usize = 64 * 1024;

/// Answers admission reviews.
#[derive(Clone)]
pub struct Admission {
    /// Sends access reviews. It is not fenced: followers answer, too.
    pub caller: Caller,
    /// The stores, with the claims of hosts.
    pub stores: Arc<Stores>,
    /// The suffixes that hosts must have; empty if any host is allowed.
    pub host_suffixes: Vec<String>,
    /// Whether the operator watches ConfigMaps.
    pub watches_config_maps: bool,
    /// The permits for access reviews.
    turns: Arc<Semaphore>,
    /// The permit to parse a large body.
    parsing: Arc<Semaphore>,
    /// Bounds the lines that are logged about refusals.
    log: Arc<LogLimit>,
}

impl Admission {
    /// `caller` is not fenced: followers answer, too.
    #[must_use]
    pub fn new(caller: Caller, stores: Arc<Stores>, host_suffixes: Vec<String>) -> Self {
        Self {
            caller,
            stores,
            host_suffixes,
            watches_config_maps: false,
            turns: Arc::new(Semaphore::new(CONCURRENT_REVIEWS)),
            parsing: Arc::new(Semaphore::new(1)),
            log: Arc::new(LogLimit::default()),
        }
    }
}

/// Why an object is not admitted.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It is invalid, or in conflict with another one.
    Invalid(String),
    /// Its author lacks a right.
    Forbidden(String),
    /// This could not be decided, and may be possible later.
    Unknown(String),
}

impl Refusal {
    /// Returns the HTTP code, Kubernetes' reason, and the message for the author.
    fn parts(self) -> (u16, &'static str, String) {
        match self {
            Self::Invalid(why) => (422, reason::INVALID, why),
            Self::Forbidden(why) => (403, reason::FORBIDDEN, why),
            // The code of an API server for a webhook that does not answer. Some clients would repeat a 503 for minutes.
            Self::Unknown(why) => (500, reason::INTERNAL_ERROR, why),
        }
    }
}

/// Returns the paths that webhook configurations name.
pub fn router(admission: Admission) -> Router {
    Router::new()
        .route("/mutate", post(mutate))
        .route("/validate", post(check))
        .with_state(admission)
}

async fn mutate(State(admission): State<Admission>, body: Bytes) -> Response {
    let read = admission.parse(body, |review| (label_patch(&review.outline()), review.request));
    let (patch, request) = match read.await {
        Ok(read) => read,
        Err(error) => return not_a_review(&error),
    };
    let response = allowed(request.uid);
    if patch.as_array().is_none_or(Vec::is_empty) {
        return written(response);
    }
    // An object that can't be normalized is stored unchanged.
    let patched = serde_json::from_value(patch)
        .ok()
        .and_then(|patch| response.clone().with_patch(patch).ok());
    written(patched.unwrap_or(response))
}

async fn check(State(admission): State<Admission>, body: Bytes) -> Response {
    let read = admission.parse(body, |review| {
        let judged = match review.request.kind.as_str() {
            "AppDeploy" => admission.judge::<AppDeploy>(&review),
            "PodSet" => admission.judge::<PodSet>(&review),
            "AppQueue" => admission.judge::<AppQueue>(&review),
            _ => Ok(Decisions::default()),
        };
        (judged, review.request)
    });
    let (judged, request) = match read.await {
        Ok(read) => read,
        Err(error) => return not_a_review(&error),
    };
    let verdict = match judged {
        Ok(decisions) => {
            let mut rights = decisions.rights;
            if let Some(deployment) = &decisions.deployment {
                rights.extend(admission.right_to_additions(deployment).await);
            }
            let checked = admission.check_rights(&request, &rights).await;
            checked.map(|()| decisions.warnings)
        }
        Err(refusal) => Err(refusal),
    };
    let mut response = allowed(request.uid);
    match verdict {
        Ok(warnings) => response.warnings = (!warnings.is_empty()).then_some(warnings),
        Err(refusal) => {
            let (code, reason, why) = refusal.parts();
            if let Some(suppressed) = admission.log.take() {
                info!(
                    kind = truncated(&request.kind),
                    namespace = request.namespace.as_deref().map(truncated),
                    name = truncated(&request.name),
                    why = truncated(&why),
                    suppressed,
                    "refused"
                );
            }
            response = response.deny(why);
            response.result.code = code;
            reason.clone_into(&mut response.result.reason);
        }
    }
    written(response)
}

/// Returns a response that allows the request with this identifier.
fn allowed(uid: String) -> AdmissionResponse {
    let mut response = AdmissionResponse::invalid("");
    response.uid = uid;
    response.allowed = true;
    response.result = Status::default();
    response
}

fn written(response: AdmissionResponse) -> Response {
    // A typed object always serializes: its keys are text.
    let body = serde_json::to_vec(&response.into_review()).unwrap_or_default();
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

fn not_a_review(error: &str) -> Response {
    debug!(error = truncated(error), "not an AdmissionReview");
    (StatusCode::BAD_REQUEST, "not an AdmissionReview\n").into_response()
}

/// The decisions about an object that need no request.
#[derive(Default)]
struct Decisions {
    /// Warnings for the author.
    warnings: Vec<String>,
    /// The rights that its author must have.
    rights: Vec<RequiredRight>,
    /// The Deployment whose program changes, and which may have fields of other managers.
    deployment: Option<AppDeployment>,
}

/// A kind with its own rules, in addition to the common ones.
trait Reviewed: Serialize + Reviewable {
    /// Checks what the schema can't. Unchanged fields do not prevent other changes. Returns warnings for the author.
    fn check(&self, old: Option<&Self>, admission: &Admission) -> Result<Vec<String>, Refusal>;

    /// Returns the rights to read what the spec refers to, each object once.
    fn references(&self, old: Option<&Self>) -> Vec<RequiredRight>;

    /// Returns warnings about a new object.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the Deployment whose program an update changes, if the kind has one.
    fn changed_deployment(&self, _old: Option<&Self>) -> Option<AppDeployment> {
        None
    }
}

impl Reviewed for AppDeploy {
    fn check(&self, old: Option<&Self>, admission: &Admission) -> Result<Vec<String>, Refusal> {
        let valid = validate(self).map_err(|invalid| Refusal::Invalid(invalid.to_string()))?;
        admission.check_config_maps(self, old)?;
        let has_same_route = |old: &Self| {
            let of = |app: &Self| (app.spec.host.clone(), app.spec.path.clone(), app.spec.expose);
            of(old) == of(self) && old.spec.pod.container.port.is_some() == self.spec.pod.container.port.is_some()
        };
        if old.is_some_and(has_same_route) {
            return Ok(Vec::new());
        }
        host::allowed(&valid, &admission.host_suffixes).map_err(Refusal::Invalid)?;
        // A new claim comes after all existing claims of the host.
        let blocked = admission.stores.blocking_claim(&valid).map_err(|NotListed| {
            Refusal::Unknown(
                "spec.host: the operator has just started, and does not know all hosts yet; try again".into(),
            )
        })?;
        let Some((claim, blocking)) = blocked else {
            return Ok(Vec::new());
        };
        let conflict = format!("spec.host: {}", host::host_conflict(&claim, &blocking));
        // Within a namespace a conflict is only a warning: an app that is renamed by GitOps exists under both names until the old one is
        // pruned.
        if blocking.namespace == claim.namespace {
            return Ok(vec![format!("{conflict}; this app gets it when that app is deleted")]);
        }
        Err(Refusal::Invalid(conflict))
    }

    fn references(&self, old: Option<&Self>) -> Vec<RequiredRight> {
        rights_to_references(self, old)
    }

    fn warnings(&self) -> Vec<String> {
        warnings(self)
    }

    fn changed_deployment(&self, old: Option<&Self>) -> Option<AppDeployment> {
        changes_program(self, old).then(|| AppDeployment::of(&old.unwrap_or(self).metadata))
    }
}

impl Reviewed for PodSet {
    fn check(&self, old: Option<&Self>, admission: &Admission) -> Result<Vec<String>, Refusal> {
        ValidPodSet::of(self).map_err(|invalid| Refusal::Invalid(invalid.to_string()))?;
        admission.check_config_maps(self, old)?;
        Ok(Vec::new())
    }

    fn references(&self, old: Option<&Self>) -> Vec<RequiredRight> {
        rights_to_references(self, old)
    }

    fn warnings(&self) -> Vec<String> {
        warnings(self)
    }
}

impl Reviewed for AppQueue {
    fn check(&self, _: Option<&Self>, _: &Admission) -> Result<Vec<String>, Refusal> {
        // Whether the dead letter queue can be used depends on another object, which may change: the status reports it.
        let desired = queue::desired(self, |_| None::<Self>).map(|_| Vec::new());
        desired.map_err(|invalid| Refusal::Invalid(invalid.to_string()))
    }

    fn references(&self, old: Option<&Self>) -> Vec<RequiredRight> {
        right_to_credentials(self, old).into_iter().collect()
    }
}

impl Admission {
    /// Parses a body and drops it, so that it is not in memory during access reviews. Large ones are parsed one at a time.
    async fn parse<T>(&self, body: Bytes, read: impl FnOnce(Review<'_>) -> T) -> Result<T, String> {
        let _turn = if body.len() > LARGE {
            // It is never closed.
            self.parsing.acquire().await.ok()
        } else {
            None
        };
        Review::parse(&body).map(read)
    }

    /// Refuses restarts after changes of ConfigMaps if the operator does not watch ConfigMaps. They do not prevent other changes.
    fn check_config_maps<K: UsesConfigMaps>(&self, new: &K, old: Option<&K>) -> Result<(), Refusal> {
        if old.is_some_and(|old| old.pod().restarts_on_config_change()) {
            return Ok(());
        }
        config_maps::check(new.pod(), K::POD, self.watches_config_maps)
            .map_err(|invalid| Refusal::Invalid(invalid.to_string()))
    }

    /// Decides what needs no request, or returns why the object must not be stored.
    fn judge<K: Reviewed>(&self, review: &Review<'_>) -> Result<Decisions, Refusal> {
        let is_change = matches!(review.request.operation, Operation::Create | Operation::Update);
        if !is_change {
            return Ok(Decisions::default());
        }
        let new: K = match review.object() {
            Read::Object(new) => *new,
            // The schema rejects unreadable objects.
            Read::Absent => return Ok(Decisions::default()),
            // It may have been stored by an older version: everything but its spec can still be changed.
            Read::TooLarge(_) if review.keeps_its_spec() => return Ok(Decisions::default()),
            Read::TooLarge(invalid) => return Err(Refusal::Invalid(invalid.to_string())),
        };
        // An object that is being deleted is checked like any other: it exists until its finalizers are removed.
        let old: Option<K> = review.old_object().object();
        if old.as_ref().is_some_and(|old| is_same(old, &new)) {
            return Ok(Decisions::default());
        }
        let mut judged = Decisions {
            warnings: new.check(old.as_ref(), self)?,
            rights: new.references(old.as_ref()),
            deployment: None,
        };
        if review.request.operation == Operation::Update {
            judged.deployment = new.changed_deployment(old.as_ref());
        }
        if old.is_none() {
            judged.warnings.extend(new.warnings());
        }
        Ok(judged)
    }
}
