//! The ConfigMaps with the addresses of queues, as far as they are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use crd::{AppQueue, label};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource as _;
use model::children::controller;

use crate::cache::{Equivalent, Item};
use crate::key::Key;
use crate::reduced::{Parts, Reduce, read};

/// Watches the ConfigMaps that the operator manages.
pub struct QueueOutput;

/// What is kept of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its UID.
    pub uid: String,
    /// The UID of its controller.
    pub owner: Option<String>,
    /// "Kind name" of its controller.
    pub owner_name: Option<String>,
    labels: BTreeMap<String, String>,
    data: BTreeMap<String, String>,
}

impl Equivalent for Output {
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
    }
}

impl Output {
    /// Whether the ConfigMap has the data and the labels of another. More labels do no harm.
    #[must_use]
    pub fn is_as(&self, wanted: &ConfigMap) -> bool {
        let labels = wanted.metadata.labels.iter().flatten();
        self.data == wanted.data.clone().unwrap_or_default()
            && labels
                .into_iter()
                .all(|(key, value)| self.labels.get(key) == Some(value))
    }
}

/// Returns what is kept of a ConfigMap.
#[must_use]
pub fn output(found: &ConfigMap) -> Arc<Output> {
    let meta = &found.metadata;
    let controller = controller(meta);
    let ours = [label::MANAGED_BY, label::NAME];
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.retain(|key, _| ours.contains(&key.as_str()));
    Arc::new(Output {
        uid: meta.uid.clone().unwrap_or_default(),
        owner: controller.as_ref().map(|(_, uid)| (*uid).to_owned()),
        owner_name: controller.map(|(name, _)| name.clone()),
        labels,
        data: found.data.clone().unwrap_or_default(),
    })
}

impl QueueOutput {
    /// Returns the entry of the cache for a ConfigMap.
    #[must_use]
    pub fn item(found: &ConfigMap) -> Item<Arc<Output>> {
        let key = Key::of(&found.metadata);
        let references = found.metadata.owner_references.iter().flatten();
        let owners = references
            .filter(|owner| owner.kind == AppQueue::kind(&()))
            .map(|owner| Key::new(&key.namespace, &owner.name));
        Item {
            owners: owners.collect(),
            key: key.clone(),
            version: found.metadata.resource_version.clone().unwrap_or_default(),
            value: output(found),
        }
    }
}

/// The most bytes of data that are read. Ours has less than 1 KiB; a ConfigMap of another user with our label is not kept.
const MAX_DATA: usize = 8 * 1024;

impl Reduce for QueueOutput {
    type Value = Arc<Output>;

    fn resource() -> &'static str {
        "configmaps"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<Arc<Output>>> {
        let data = object.field("data").filter(|data| data.bytes() <= MAX_DATA);
        let data = data.and_then(|data| read(data).ok());
        let found = ConfigMap {
            data,
            metadata: object.meta,
            ..ConfigMap::default()
        };
        let item = Self::item(&found);
        (!item.owners.is_empty()).then_some(item)
    }
}
