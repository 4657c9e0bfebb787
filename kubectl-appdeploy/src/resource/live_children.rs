//! The live objects with the name of an app.

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use model::{CHILDREN, ChildId, ChildKind};
use serde_json::Value;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};

/// The objects that are children of an app or have its name, with any owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live(Vec<(ChildId, Value)>);

impl Live {
    /// Reads all objects concurrently: by their name, or by label if children of the kind have names of their own.
    pub async fn fetch(cluster: &Cluster, namespace: &str, name: &str) -> Result<Self> {
        let by_label = ListParams::default().labels(&labels(name));
        let objects = CHILDREN.iter().map(|kind| {
            let (api, by_label) = (api(cluster, kind, namespace), &by_label);
            async move {
                let found = if kind.own_names {
                    cluster.call(api.list(by_label)).await?.items
                } else {
                    cluster.call(api.get_opt(name)).await?.into_iter().collect()
                };
                // An object that was read serialises again.
                let value = |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
                let found = found
                    .into_iter()
                    .map(|one| (ChildId::new(kind, &one.name_any()), value(one)));
                Ok::<_, Error>(found.collect::<Vec<_>>())
            }
        });
        Ok(Self(futures::future::try_join_all(objects).await?.concat()))
    }

    /// Returns all objects, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&ChildId, &Value)> {
        self.0.iter().map(|(id, object)| (id, object))
    }

    /// Returns an object.
    pub fn get(&self, id: &ChildId) -> Option<&Value> {
        self.iter().find(|(known, _)| *known == id).map(|(_, object)| object)
    }

    /// Returns the object of a kind that an app has at most one of.
    pub fn of(&self, kind: &ChildKind) -> Option<&Value> {
        self.iter().find(|(id, _)| id.kind == kind).map(|(_, object)| object)
    }
}

/// The Deployment, the Service and the Ingress.
#[cfg(test)]
impl From<[Option<Value>; 3]> for Live {
    fn from(objects: [Option<Value>; 3]) -> Self {
        use model::children::{DEPLOYMENT, INGRESS, SERVICE};
        let named = |(kind, object): (&&'static ChildKind, Option<Value>)| {
            let object = object?;
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            Some((ChildId::new(kind, name), object.clone()))
        };
        let kinds: [&'static ChildKind; 3] = [&DEPLOYMENT, &SERVICE, &INGRESS];
        Self(kinds.iter().zip(objects).filter_map(named).collect())
    }
}

/// Whether an object is controlled by the owner with this UID.
pub fn is_of(object: &Value, uid: Option<&str>) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner["controller"] == true && owner["uid"].as_str() == uid)
}

/// Returns the labels of the children of an app.
pub fn labels(app: &str) -> String {
    format!(
        "{}={},{}={}",
        crd::label::MANAGED_BY,
        crd::label::MANAGED_BY_VALUE,
        crd::label::NAME,
        app
    )
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
