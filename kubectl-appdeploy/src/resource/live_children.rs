//! The live objects with the name of an app.

use crd::AppDeploy;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use model::children::Api as ChildApi;
use model::{CHILDREN, ChildId, ChildKind, Desired, Invalid, Valid, desired, validate};
use serde_json::Value;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};

/// The objects that are children of an app or have its name, with any owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    objects: Vec<(ChildId, Value)>,
    /// The optional kinds that the cluster serves.
    served: Vec<&'static ChildKind>,
    /// The kinds that only some apps have and that the user may not read. They are not compared.
    hidden: Vec<&'static ChildKind>,
}

impl Live {
    /// Reads all objects of these kinds concurrently: by their name, or by label if children of the kind have names of their own.
    pub async fn fetch(cluster: &Cluster, namespace: &str, name: &str, kinds: &[&'static ChildKind]) -> Result<Self> {
        let by_label = ListParams::default().labels(&labels(name));
        let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
        let objects = kinds.iter().map(|kind| {
            let (api, by_label, by_name) = (api(cluster, kind, namespace), &by_label, &by_name);
            async move {
                let found = if kind.api == ChildApi::Optional {
                    match cluster.attempt(api.list(by_name)).await? {
                        Ok(list) => list.items,
                        Err(kube::Error::Api(status)) if status.code == 404 => return Ok((*kind, Read::NotServed)),
                        Err(kube::Error::Api(status)) if status.is_forbidden() => {
                            let is_served = is_served(cluster, kind).await?;
                            return Ok((*kind, if is_served { Read::Hidden } else { Read::NotServed }));
                        }
                        Err(source) => return Err(cluster.explain(source)),
                    }
                } else if kind.own_names {
                    cluster.call(api.list(by_label)).await?.items
                } else {
                    match cluster.attempt(api.get_opt(name)).await? {
                        Ok(found) => found.into_iter().collect(),
                        Err(kube::Error::Api(status)) if kind.on_request && status.is_forbidden() => {
                            return Ok((*kind, Read::Hidden));
                        }
                        Err(source) => return Err(cluster.explain(source)),
                    }
                };
                // An object that was read serialises again.
                let value = |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
                let found = found
                    .into_iter()
                    .map(|one| (ChildId::new(kind, &one.name_any()), value(one)));
                Ok::<_, Error>((*kind, Read::Known(found.collect())))
            }
        });
        let mut live = Self::default();
        for (kind, read) in futures::future::try_join_all(objects).await? {
            let is_optional = kind.api == ChildApi::Optional;
            match read {
                Read::Known(objects) => live.objects.extend(objects),
                Read::Hidden => live.hidden.push(kind),
                Read::NotServed => continue,
            }
            live.served.extend(is_optional.then_some(kind));
        }
        Ok(live)
    }

    /// Returns an app with its defaults in this cluster.
    pub fn validate<'a>(&self, app: &'a AppDeploy) -> std::result::Result<Valid<'a>, Invalid> {
        Ok(Valid {
            served: self.served.clone(),
            ..validate(app)?
        })
    }

    /// Returns the desired children of an app that the user may read.
    pub fn desired(&self, app: &Valid<'_>) -> Desired {
        let mut desired = desired(app);
        desired.retain(|kind| !self.hidden.contains(&kind));
        desired
    }

    /// Returns all objects, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&ChildId, &Value)> {
        self.objects.iter().map(|(id, object)| (id, object))
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
        Self {
            objects: kinds.iter().zip(objects).filter_map(named).collect(),
            ..Self::default()
        }
    }
}

/// Returns the kinds of children that these apps have or may have.
pub fn kinds_of<'a>(apps: impl IntoIterator<Item = &'a AppDeploy>) -> Vec<&'static ChildKind> {
    let valid: Vec<Valid<'_>> = apps.into_iter().filter_map(|app| validate(app).ok()).collect();
    let is_of_any = |kind: &ChildKind| !kind.on_request || valid.iter().any(|app| kind.may_be_of(Some(app)));
    CHILDREN.iter().copied().filter(|kind| is_of_any(kind)).collect()
}

/// What a user may read of a kind.
enum Read {
    Known(Vec<(ChildId, Value)>),
    Hidden,
    NotServed,
}

/// Returns the optional kinds that the cluster serves.
pub async fn served(cluster: &Cluster) -> Result<Vec<&'static ChildKind>> {
    let mut served = Vec::new();
    for kind in CHILDREN.iter().filter(|kind| kind.api == ChildApi::Optional) {
        if is_served(cluster, kind).await? {
            served.push(*kind);
        }
    }
    Ok(served)
}

async fn is_served(cluster: &Cluster, kind: &ChildKind) -> Result<bool> {
    let version = kind.api_version();
    match cluster
        .attempt(cluster.client.list_api_group_resources(&version))
        .await?
    {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == kind.plural)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(source) => Err(cluster.explain(source)),
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
