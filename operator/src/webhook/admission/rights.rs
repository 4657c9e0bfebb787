//! Checks with access reviews whether authors have the rights that their specs need.

use futures::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::api::PostParams;
use kube::core::Request as ApiRequest;
use model::admit::RequiredRight;
use model::valid::is_object_name;
use tracing::warn;

use super::{Admission, Refusal};
use crate::webhook::log_limit::truncated;
use crate::webhook::review::Request;

/// The most objects that one spec may refer to: each costs a request to the API server.
const MAX_REFERENCES: usize = 64;

/// The maximum number of concurrent access reviews of one admission review, so that others are not delayed.
const CONCURRENCY: usize = 4;

impl Admission {
    /// Checks whether the author has the rights that the spec needs.
    pub(super) async fn check_rights(&self, request: &Request, references: &[RequiredRight]) -> Result<(), Refusal> {
        if references.len() > MAX_REFERENCES {
            return Err(Refusal::Invalid(format!(
                "the spec refers to more than {MAX_REFERENCES} Secrets and ConfigMaps"
            )));
        }
        let author = request.user_info.username.as_deref().unwrap_or("the author");
        let namespace = request.namespace.as_deref().unwrap_or_default();
        // It is a part of the path of access reviews.
        if !references.is_empty() && !is_object_name(namespace) {
            return Err(Refusal::Invalid("the namespace of the request is invalid".to_owned()));
        }
        let reviews = references
            .iter()
            .map(|reference| self.is_allowed(request, namespace, reference).boxed())
            .collect::<Vec<_>>();
        let answers: Vec<_> = stream::iter(reviews).buffered(CONCURRENCY).collect().await;
        let mut refusals = Vec::new();
        for (reference, answer) in references.iter().zip(answers) {
            match answer {
                Ok(true) => {}
                Ok(false) => refusals.push(reference.denial(author, namespace)),
                Err(why) => {
                    if let Some(suppressed) = self.log.take() {
                        warn!(
                            why = truncated(&why),
                            suppressed, "the rights of an author could not be reviewed"
                        );
                    }
                    return Err(Refusal::Unknown(format!(
                        "the rights of {author} could not be reviewed, try again: {why}"
                    )));
                }
            }
        }
        if refusals.is_empty() {
            return Ok(());
        }
        Err(Refusal::Forbidden(refusals.join("; ")))
    }

    async fn is_allowed(&self, request: &Request, namespace: &str, reference: &RequiredRight) -> Result<bool, String> {
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
                    verb: Some(reference.verb.into()),
                    group: Some(reference.group.into()),
                    resource: Some(reference.resource.into()),
                    name: Some(reference.name.clone()).filter(|name| !name.is_empty()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            status: None,
        };
        let body = serde_json::to_vec(&review).map_err(|error| error.to_string())?;
        // It is never closed.
        let _permit = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let url = LocalSubjectAccessReview::url_path(&(), Some(namespace));
        let request = ApiRequest::new(url).create(&PostParams::default(), body);
        let answer = self
            .caller
            .send::<LocalSubjectAccessReview>("create", "localsubjectaccessreviews", request)
            .await
            .map_err(|error| error.to_string())?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
