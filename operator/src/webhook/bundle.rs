//! Writes the trusted authorities to the webhook configurations.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::ByteString;
use kube::api::{ListParams, Patch};
use kube::core::{DynamicObject, Request};
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::write_limit::WriteLimit;
use crate::cache::{Equivalent, Item};
use crate::call::{CallError, Caller, by_us};
use crate::key::Key;
use crate::reduced::{Parts, Reduce, read};
use crate::stores::Store;
use crate::watch::Watch;

/// The name of both configurations.
pub const NAME: &str = "appdeploy";

/// The cached part of a configuration: the names of its webhooks, each with its `caBundle` as the API writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Webhooks(Vec<(String, String)>);

/// A webhook configuration.
#[derive(Debug)]
pub struct Configuration {
    kind: &'static str,
    resource: &'static str,
    known: Store<Arc<Webhooks>>,
}

/// Limits writes of a configuration, and log lines about it.
#[derive(Debug, Default)]
pub struct Attempts {
    write_limit: WriteLimit,
    reported: String,
}

impl Configuration {
    /// Returns the validating and the mutating configuration.
    #[must_use]
    pub fn both() -> [Self; 2] {
        let of = |kind, resource| Self {
            kind,
            resource,
            known: Store::default(),
        };
        [
            of("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
            of("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ]
    }

    /// Watches it, and notifies of each change. Never ends.
    pub async fn watch(&self, client: Client, resync: Duration, changed: &Notify) {
        let watch = Watch::<Webhooks> {
            resource: self.resource,
            api: Api::all_with(client, &self.api_resource()),
            scope: None,
            config: ListParams::default().fields(&format!("metadata.name={NAME}")),
            resync,
            kind: &self.known,
            wake: &|_, _| changed.notify_one(),
            on_vanish: None,
            definition: None,
        };
        watch.run().await;
    }

    /// Waits until it was listed, or can't be.
    pub async fn settled(&self) {
        self.known.health.settled().await;
    }

    /// Whether API servers trust these authorities because of it. If it does not exist or can't be read, the answer is yes: there is nothing
    /// to wait for.
    #[must_use]
    pub fn carries(&self, bundle: &str) -> bool {
        self.settled().now_or_never().is_some() && self.seen().is_none_or(|seen| repair(&seen, bundle).is_none())
    }

    /// Writes these authorities to it, if it exists and lacks them. Returns when to check it again, if needed.
    pub async fn publish(&self, caller: &Caller, bundle: &str, attempts: &mut Attempts) -> Option<Instant> {
        let patch = repair(&*self.seen()?, bundle)?;
        if let Some(at) = attempts.write_limit.not_before() {
            return Some(at);
        }
        attempts.write_limit.step();
        match self.send(caller, patch).await {
            Ok(object) => {
                self.known.cache.upsert(reduce(&object));
                attempts.reported.clear();
                info!(
                    kind = self.kind,
                    name = NAME,
                    "wrote the authorities to the webhook configuration"
                );
                None
            }
            // Another client has changed or deleted it, which the watch will report.
            Err(CallError::Refused(status)) if matches!(status.code, 404 | 409) || status.is_invalid() => {
                debug!(
                    kind = self.kind,
                    message = status.message,
                    "the webhook configuration has changed in between"
                );
                attempts.write_limit.not_before()
            }
            Err(error) => {
                let error = error.to_string();
                if attempts.reported == error {
                    debug!(
                        kind = self.kind,
                        error, "the webhook configuration still can't be written"
                    );
                } else {
                    warn!(
                        kind = self.kind,
                        name = NAME,
                        error,
                        "the authorities can't be written to the webhook configuration"
                    );
                    attempts.reported = error;
                }
                attempts.write_limit.not_before()
            }
        }
    }

    async fn send(&self, caller: &Caller, patch: Value) -> Result<DynamicObject, CallError> {
        let patch = serde_json::from_value(patch).map_err(|error| CallError::Lost(error.to_string()))?;
        let collection = Request::new(DynamicObject::url_path(&self.api_resource(), None));
        let request = collection.patch(NAME, &by_us(), &Patch::Json::<()>(patch));
        caller.send("patch", self.resource, request).await
    }

    fn seen(&self) -> Option<Arc<Webhooks>> {
        self.known.cache.get(&Key::new("", NAME))
    }

    fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: "admissionregistration.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "admissionregistration.k8s.io/v1".to_owned(),
            kind: self.kind.to_owned(),
            plural: self.resource.to_owned(),
        }
    }
}

impl Equivalent for Webhooks {
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
    }
}

impl Reduce for Webhooks {
    type Value = Arc<Self>;

    fn resource() -> &'static str {
        "webhookconfigurations"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<Arc<Self>>> {
        let webhooks: Option<Value> = object.field("webhooks").and_then(|webhooks| read(webhooks).ok());
        Some(reduce(&DynamicObject {
            types: None,
            metadata: object.meta,
            data: json!({"webhooks": webhooks}),
        }))
    }
}

fn reduce(object: &DynamicObject) -> Item<Arc<Webhooks>> {
    let key = Key::of(&object.metadata);
    let text = |webhook: &Value, pointer| {
        let text = webhook.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let webhooks = object
        .data
        .get("webhooks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    Item {
        owners: [key.clone()].into(),
        key,
        version: object.metadata.resource_version.clone().unwrap_or_default(),
        value: Arc::new(Webhooks(
            webhooks
                .map(|webhook| (text(webhook, "/name"), text(webhook, "/clientConfig/caBundle")))
                .collect(),
        )),
    }
}

/// Returns the JSON patch after which all webhooks trust this bundle only, if one is needed. It changes nothing else, and fails if the
/// webhooks have changed.
fn repair(seen: &Webhooks, bundle: &str) -> Option<Value> {
    let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
    let wrong = |(_, (_, has)): &(usize, &(String, String))| bundle != **has;
    let steps: Vec<Value> = seen
        .0
        .iter()
        .enumerate()
        .filter(wrong)
        .flat_map(|(place, (name, _))| {
            [
                json!({"op": "test", "path": format!("/webhooks/{place}/name"), "value": name}),
                json!({"op": "add", "path": format!("/webhooks/{place}/clientConfig/caBundle"), "value": bundle}),
            ]
        })
        .collect();
    (!steps.is_empty()).then(|| steps.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(webhooks: &Value) -> Webhooks {
        let object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": NAME}, "webhooks": webhooks});
        let object = serde_json::from_value(object).unwrap();
        (*reduce(&object).value).clone()
    }

    #[test]
    fn only_wrong_bundles_are_patched() {
        let seen = seen(&json!([
            {"name": "a", "clientConfig": {"caBundle": "Q0E="}},
            {"name": "b", "clientConfig": {"caBundle": "Qg=="}},
            {"name": "c", "clientConfig": {"service": {"name": "s"}}},
        ]));
        let patch = json!([
            {"op": "test", "path": "/webhooks/1/name", "value": "b"},
            {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "Q0E="},
            {"op": "test", "path": "/webhooks/2/name", "value": "c"},
            {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "Q0E="},
        ]);
        assert_eq!(repair(&seen, "CA"), Some(patch));
    }

    #[test]
    fn right_bundles_are_not_patched() {
        assert_eq!(
            repair(
                &seen(&json!([{"name": "a", "clientConfig": {"caBundle": "Q0E="}}])),
                "CA"
            ),
            None
        );
        assert_eq!(repair(&seen(&json!([])), "CA"), None);
        assert_eq!(repair(&seen(&json!(null)), "CA"), None);
    }
}
