//! Answers to the API server about objects that are about to be stored. What is answered is decided in
//! [`model::admit`]; here it is asked for what that needs: who claims the host, and what the author may read.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use crd::{AppDeploy, PodSet};
use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::PostParams;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation};
use kube::core::response::reason;
use kube::core::{DynamicObject, Request};
use model::admit::{Admitted, Reference, is_same, questions, usual_form, warnings};
use model::host::{self, Claim};
use model::podset::Wanted;
use model::validate;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

use crate::call::Caller;
use crate::world::World;

/// The most objects that one spec may refer to: each is a question to the API server.
const MOST_REFERENCES: usize = 64;

/// The questions about authors' rights that are asked at a time, by all who ask: the port takes no names, and whoever reaches
/// it shall not have the API server flooded.
const QUESTIONS: usize = 32;

/// What an answer needs.
#[derive(Clone)]
pub struct Admission {
    /// Who asks what authors may do. Not fenced: a follower answers, too.
    pub caller: Caller,
    /// Who claims which host.
    pub world: Arc<World>,
    /// What hosts have to end with, unless they may be any.
    pub host_suffixes: Vec<String>,
    /// Lets so many questions through at a time.
    turns: Arc<Semaphore>,
}

impl Admission {
    /// Makes one. `caller` is not fenced: a follower answers, too.
    #[must_use]
    pub fn new(caller: Caller, world: Arc<World>, host_suffixes: Vec<String>) -> Self {
        Self {
            caller,
            world,
            host_suffixes,
            turns: Arc::new(Semaphore::new(QUESTIONS)),
        }
    }
}

/// Why an object is not admitted.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It is wrong, or in the way of another one.
    Invalid(String),
    /// Its author may not have what it refers to.
    Forbidden(String),
    /// That could not be found out. It may go better in a moment.
    Unknown(String),
}

impl Refusal {
    /// Returns the code of HTTP and the word of Kubernetes for it, and the sentence for the author.
    fn parts(self) -> (u16, &'static str, String) {
        match self {
            Self::Invalid(why) => (422, reason::INVALID, why),
            Self::Forbidden(why) => (403, reason::FORBIDDEN, why),
            // As an API server says of a webhook that does not answer. Some clients would repeat a 503 for minutes.
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

async fn mutate(body: Bytes) -> Response {
    answer(&body, async |request| {
        let response = AdmissionResponse::from(request);
        let patch = request
            .object
            .as_ref()
            .map(|object| usual_form(&serde_json::to_value(object).unwrap_or_default()));
        let Some(patch) = patch.filter(|patch| patch.as_array().is_some_and(|steps| !steps.is_empty())) else {
            return response;
        };
        // What can't be put into its usual form is stored as it is.
        let patched = serde_json::from_value(patch)
            .ok()
            .and_then(|patch| response.clone().with_patch(patch).ok());
        patched.unwrap_or(response)
    })
    .await
}

async fn check(State(admission): State<Admission>, body: Bytes) -> Response {
    answer(&body, async |request| {
        let mut response = AdmissionResponse::from(request);
        let verdict = match request.kind.kind.as_str() {
            "AppDeploy" => admission.review::<AppDeploy>(request).await,
            "PodSet" => admission.review::<PodSet>(request).await,
            _ => Ok(Vec::new()),
        };
        match verdict {
            Ok(warnings) => {
                response.warnings = (!warnings.is_empty()).then_some(warnings);
                response
            }
            Err(refusal) => {
                let (code, reason, why) = refusal.parts();
                info!(
                    kind = request.kind.kind,
                    namespace = request.namespace,
                    name = request.name,
                    why,
                    "refused"
                );
                let mut response = response.deny(why);
                response.result.code = code;
                reason.clone_into(&mut response.result.reason);
                response
            }
        }
    })
    .await
}

/// Reads a review and writes the answer to it.
async fn answer(
    body: &[u8],
    decide: impl AsyncFnOnce(&AdmissionRequest<DynamicObject>) -> AdmissionResponse,
) -> Response {
    let review: Result<AdmissionReview<DynamicObject>, _> = serde_json::from_slice(body);
    let request = review.map_err(|error| error.to_string()).and_then(|review| {
        TryInto::<AdmissionRequest<DynamicObject>>::try_into(review).map_err(|error| error.to_string())
    });
    match request {
        Ok(request) => {
            let review = decide(&request).await.into_review();
            // A typed object always serialises: its keys are text.
            let body = serde_json::to_vec(&review).unwrap_or_default();
            ([(CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => {
            debug!(error, "not an AdmissionReview");
            (StatusCode::BAD_REQUEST, "this is no AdmissionReview\n").into_response()
        }
    }
}

/// A kind with rules of its own, beside those that both have.
trait Reviewed: Admitted + Resource<DynamicType = ()> + DeserializeOwned {
    /// Checks what the schema can't. What was stored before and stays is nobody's fault who changes something else.
    /// Returns what its author should know.
    fn check(&self, old: Option<&Self>, admission: &Admission) -> Result<Vec<String>, Refusal>;
}

impl Reviewed for AppDeploy {
    fn check(&self, old: Option<&Self>, admission: &Admission) -> Result<Vec<String>, Refusal> {
        let valid = validate(self).map_err(|invalid| Refusal::Invalid(invalid.to_string()))?;
        let same_place = |old: &Self| {
            let of = |app: &Self| (app.spec.host.clone(), app.spec.path.clone(), app.spec.expose);
            of(old) == of(self) && old.spec.pod.port.is_some() == self.spec.pod.port.is_some()
        };
        if old.is_some_and(same_place) {
            return Ok(Vec::new());
        }
        host::allowed(&valid, &admission.host_suffixes).map_err(Refusal::Invalid)?;
        // Whoever wants a host now comes after all that have one. Without webhooks an older app would get it.
        let rival = Claim::of(&valid, i64::MAX).and_then(|claim| Some((admission.world.hosts.rival(&claim)?, claim)));
        let Some((rival, claim)) = rival else {
            return Ok(Vec::new());
        };
        let conflict = format!("spec.host: {}", host::conflict(&claim, &rival));
        // Among those who share a namespace nobody takes anything: an app that is renamed by GitOps is there under both
        // names until the old one is pruned.
        if rival.namespace == claim.namespace {
            return Ok(vec![format!("{conflict}; this one gets it when that one goes")]);
        }
        Err(Refusal::Invalid(conflict))
    }
}

impl Reviewed for PodSet {
    fn check(&self, _: Option<&Self>, _: &Admission) -> Result<Vec<String>, Refusal> {
        let wanted = Wanted::of(self).map(|_| Vec::new());
        wanted.map_err(|invalid| Refusal::Invalid(invalid.to_string()))
    }
}

impl Admission {
    /// Returns warnings, or why the object is not to be stored.
    async fn review<K: Reviewed>(&self, request: &AdmissionRequest<DynamicObject>) -> Result<Vec<String>, Refusal> {
        let read = |object: &Option<DynamicObject>| -> Option<K> {
            serde_json::from_value(serde_json::to_value(object.as_ref()?).ok()?).ok()
        };
        let is_change = matches!(request.operation, Operation::Create | Operation::Update);
        // What can't be read is refused by the schema, and what is about to go is nobody's business any more.
        let Some(new) = read(&request.object).filter(|new| is_change && new.meta().deletion_timestamp.is_none()) else {
            return Ok(Vec::new());
        };
        let old = read(&request.old_object);
        if old.as_ref().is_some_and(|old| is_same(old, &new)) {
            return Ok(Vec::new());
        }
        let mut told = new.check(old.as_ref(), self)?;
        self.ask(request, &questions(&new, old.as_ref())).await?;
        if old.is_none() {
            told.extend(warnings(&new));
        }
        Ok(told)
    }

    /// Asks whether the author may read what the spec refers to.
    async fn ask(&self, request: &AdmissionRequest<DynamicObject>, references: &[Reference]) -> Result<(), Refusal> {
        if references.len() > MOST_REFERENCES {
            return Err(Refusal::Invalid(format!(
                "the spec refers to more than {MOST_REFERENCES} Secrets and ConfigMaps"
            )));
        }
        let author = request.user_info.username.as_deref().unwrap_or("the author");
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let answers = join_all(
            references
                .iter()
                .map(|reference| self.may_get(request, namespace, reference)),
        )
        .await;
        let mut refusals = Vec::new();
        for (reference, answer) in references.iter().zip(answers) {
            match answer {
                Ok(true) => {}
                Ok(false) => refusals.push(reference.refusal(author, namespace)),
                Err(why) => {
                    warn!(why, "an author's rights could not be asked for");
                    return Err(Refusal::Unknown(format!(
                        "the rights of {author} could not be asked for, try again: {why}"
                    )));
                }
            }
        }
        if refusals.is_empty() {
            return Ok(());
        }
        Err(Refusal::Forbidden(refusals.join("; ")))
    }

    async fn may_get(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        namespace: &str,
        reference: &Reference,
    ) -> Result<bool, String> {
        let user = &request.user_info;
        let review = LocalSubjectAccessReview {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                groups: user.groups.clone(),
                uid: user.uid.clone(),
                extra: user.extra.clone(),
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(namespace.to_owned()),
                    verb: Some("get".into()),
                    resource: Some(reference.resource.into()),
                    name: Some(reference.name.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            status: None,
        };
        let body = serde_json::to_vec(&review).map_err(|error| error.to_string())?;
        // Nobody closes it.
        let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let url = LocalSubjectAccessReview::url_path(&(), Some(namespace));
        let question = Request::new(url).create(&PostParams::default(), body);
        let answer = self
            .caller
            .send::<LocalSubjectAccessReview>("create", "localsubjectaccessreviews", question)
            .await
            .map_err(|error| error.to_string())?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
