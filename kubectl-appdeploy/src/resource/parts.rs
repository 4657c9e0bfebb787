//! The parts of an object, which are decoded one by one, so that an object with an unknown value can be shown.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// An object as the API server returned it.
pub trait Parts {
    /// Returns its metadata without managed fields.
    fn metadata(&self) -> ObjectMeta;
    /// Decodes its spec; `None` if it has none or it is unreadable.
    fn spec<T: DeserializeOwned>(&self) -> Option<T>;
    /// Decodes its status; `None` if it has none or it is unreadable.
    fn status<T: DeserializeOwned>(&self) -> Option<T>;
}

impl Parts for DynamicObject {
    fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            managed_fields: None,
            ..self.metadata.clone()
        }
    }

    fn spec<T: DeserializeOwned>(&self) -> Option<T> {
        part(&self.data, "spec")
    }

    fn status<T: DeserializeOwned>(&self) -> Option<T> {
        part(&self.data, "status")
    }
}

fn part<T: DeserializeOwned>(object: &Value, name: &str) -> Option<T> {
    T::deserialize(object.get(name)?).ok()
}

/// An item of a list that is only shown: the rest of its metadata, which is most of what the API server sends, is skipped.
#[derive(Clone, Debug, Deserialize)]
pub struct ListItem {
    metadata: ShownMetadata,
    #[serde(default)]
    spec: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

/// The metadata that tables and explanations read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ShownMetadata {
    name: Option<String>,
    namespace: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

impl Parts for ListItem {
    fn metadata(&self) -> ObjectMeta {
        let shown = self.metadata.clone();
        ObjectMeta {
            name: shown.name,
            namespace: shown.namespace,
            generation: shown.generation,
            creation_timestamp: shown.creation_timestamp,
            deletion_timestamp: shown.deletion_timestamp,
            annotations: shown.annotations,
            finalizers: shown.finalizers,
            ..ObjectMeta::default()
        }
    }

    fn spec<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.spec.as_deref()?.get()).ok()
    }

    fn status<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.status.as_deref()?.get()).ok()
    }
}
