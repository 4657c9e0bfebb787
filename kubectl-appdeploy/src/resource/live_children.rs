//! The objects of an app's name as they are in a cluster.

use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use model::{CHILDREN, ChildKind};
use serde_json::Value;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};

/// What of each kind has the name of an app, whosever it is; `Err` says why it can't be seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live(Vec<(&'static ChildKind, Option<Value>)>);

impl Live {
    /// Reads all objects concurrently.
    pub async fn fetch(cluster: &Cluster, namespace: &str, name: &str) -> Result<Self> {
        let objects = CHILDREN.iter().map(|kind| {
            let api = api(cluster, kind, namespace);
            async move { Ok::<_, Error>((*kind, cluster.call(api.get_opt(name)).await?)) }
        });
        let objects = futures::future::try_join_all(objects).await?.into_iter();
        // An object that was read serialises again.
        let value = |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
        Ok(Self(objects.map(|(kind, object)| (kind, object.map(value))).collect()))
    }

    /// Returns the one of a kind.
    pub fn of(&self, kind: &ChildKind) -> Option<&Value> {
        let mut all = self.0.iter();
        all.find(|(of, _)| *of == kind).and_then(|(_, object)| object.as_ref())
    }
}

#[cfg(test)]
impl From<[Option<Value>; 3]> for Live {
    fn from(objects: [Option<Value>; 3]) -> Self {
        Self(CHILDREN.iter().copied().zip(objects).collect())
    }
}

/// Whether an object is controlled by the owner with this UID.
pub fn is_of(object: &Value, uid: Option<&str>) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner["controller"] == true && owner["uid"].as_str() == uid)
}

/// Returns the objects of a kind of child.
pub fn api(cluster: &Cluster, kind: &ChildKind, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(cluster.client.clone(), namespace, &resource(kind))
}

/// Returns how the API names a kind of child.
pub fn resource(kind: &ChildKind) -> ApiResource {
    ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    }
}
