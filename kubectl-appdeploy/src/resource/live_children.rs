//! The objects of an app's name as they are in a cluster.

use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use model::ChildKind;
use serde_json::Value;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};

/// What of each kind has the name of an app, whosever it is; `Err` says why it can't be seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live(Vec<(ChildKind, Option<Value>)>);

impl Live {
    /// Reads the three objects at once.
    pub async fn fetch(cluster: &Cluster, namespace: &str, name: &str) -> Result<Self> {
        let [deployment, service, ingress] = ChildKind::ALL.map(|kind| {
            let api = api(cluster, kind, namespace);
            async move { Ok::<_, Error>((kind, cluster.call(api.get_opt(name)).await?)) }
        });
        let (deployment, service, ingress) = futures::try_join!(deployment, service, ingress)?;
        let value = |(kind, object): (ChildKind, Option<DynamicObject>)| {
            // An object that was read serialises again.
            (
                kind,
                object.map(|object| serde_json::to_value(object).unwrap_or_default()),
            )
        };
        Ok(Self([deployment, service, ingress].map(value).into()))
    }

    /// Returns the one of a kind.
    pub fn of(&self, kind: ChildKind) -> Option<&Value> {
        let mut all = self.0.iter();
        all.find(|(of, _)| *of == kind).and_then(|(_, object)| object.as_ref())
    }
}

#[cfg(test)]
impl From<[Option<Value>; 3]> for Live {
    fn from(objects: [Option<Value>; 3]) -> Self {
        Self(ChildKind::ALL.into_iter().zip(objects).collect())
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
pub fn api(cluster: &Cluster, kind: ChildKind, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(cluster.client.clone(), namespace, &resource(kind))
}

/// Returns how the API calls a kind of child.
pub fn resource(kind: ChildKind) -> ApiResource {
    let (group, version) = match kind {
        ChildKind::Deployment => ("apps", "v1"),
        ChildKind::Service => ("", "v1"),
        ChildKind::Ingress => ("networking.k8s.io", "v1"),
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        },
        kind: kind.as_str().to_owned(),
        plural: kind.resource().to_owned(),
    }
}
