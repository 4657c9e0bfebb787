//! The objects to uninstall, and third-party objects that prevent it.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::contents::{self, Contents};
use crate::cluster::confirm;
use crate::cluster::connection::Cluster;
use crate::cluster::kind_info::{self, KindInfo, QUEUE};
use crate::cluster::pager::Pager;
use crate::error::Result;
use crate::installation::manifests::{Kind, labelled, policy};

/// The kinds in the order of their deletion. Queues are the first: their deletion can fail, before any app was deleted.
pub const DELETION_ORDER: [&KindInfo; 3] = [
    &QUEUE,
    kind_info::of(crd::Kind::AppDeploy),
    kind_info::of(crd::Kind::PodSet),
];

/// The objects that were found.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// All queues, apps and pod sets of the cluster.
    pub workloads: Vec<(&'static KindInfo, DynamicObject)>,
    /// The webhook configurations.
    pub webhooks: Vec<(Kind, DynamicObject)>,
    /// What runs.
    pub operator: Vec<(Kind, DynamicObject)>,
    /// What it has around it: accounts, roles and bindings, policies, its Service and its certificates.
    pub rights: Vec<(Kind, DynamicObject)>,
    /// What keeps the definitions from being deleted.
    pub guards: Vec<(Kind, DynamicObject)>,
    /// The definitions of the API.
    pub definitions: Vec<(Kind, DynamicObject)>,
    /// The operator's namespace.
    pub namespace: Option<DynamicObject>,
    /// Third-party objects in it.
    pub contents: Contents,
}

impl Inventory {
    /// Returns what a plan is made from: the UID, labels, owner references and spec of each object.
    pub fn shape(&self) -> Value {
        let workloads = self.workloads.iter().map(|(_, object)| object);
        let others = [
            &self.webhooks,
            &self.operator,
            &self.rights,
            &self.guards,
            &self.definitions,
        ];
        let others = others.into_iter().flatten().map(|(_, object)| object);
        let objects = workloads.chain(others).chain(&self.namespace);
        let shapes: BTreeMap<String, Value> = objects
            .map(|object| (object.uid().unwrap_or_default(), confirm::shape(&json!(object))))
            .collect();
        json!({"objects": shapes, "foreign": self.contents.foreign, "unseen": self.contents.unseen})
    }

    /// Returns the UIDs of all queues, apps and pod sets.
    pub fn owners(&self) -> BTreeSet<String> {
        self.workloads
            .iter()
            .filter_map(|(_, object)| object.metadata.uid.clone())
            .collect()
    }
}

/// Looks for everything that carries the label, so that leftovers of another version go as well.
pub async fn collect(cluster: &Cluster) -> Result<Inventory> {
    let mut found = Inventory {
        operator: labelled(cluster, Kind::deployment()).await?,
        definitions: labelled(cluster, Kind::crd()).await?,
        ..Inventory::default()
    };
    found
        .definitions
        .retain(|(_, object)| object.data["spec"]["group"] == crd::GROUP);
    for kind in DELETION_ORDER {
        let cluster = cluster.clone().about(kind);
        let objects = Pager::of(&cluster, None, None).of_known_kinds().all().await?;
        let objects = objects.into_iter().map(|object| (cluster.kind_info(), object));
        found.workloads.extend(objects);
    }
    for kind in Kind::around().into_iter().chain([Kind::secret()]) {
        let all = labelled(cluster, kind).await?.into_iter();
        let (guards, rights): (Vec<_>, Vec<_>) =
            all.partition(|(kind, object)| policy::protects_definitions(kind, object));
        found.guards.extend(guards);
        found.rights.extend(rights);
    }
    for kind in Kind::webhooks() {
        found.webhooks.extend(labelled(cluster, kind).await?);
    }
    let namespaces = Kind::namespace().api(&cluster.client, None);
    found.namespace = cluster.call(namespaces.get_opt(crd::OPERATOR_NAMESPACE)).await?;
    if found.namespace.is_some() {
        found.contents = contents::list(cluster, found.owners()).await?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(uid: &str, image: &str, more: &Value) -> Inventory {
        let mut app = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "a", "uid": uid}, "spec": {"image": image}});
        for (key, value) in more.as_object().into_iter().flatten() {
            app[key] = value.clone();
        }
        Inventory {
            workloads: vec![(
                kind_info::of(crd::Kind::AppDeploy),
                serde_json::from_value(app).unwrap(),
            )],
            ..Inventory::default()
        }
    }

    #[test]
    fn plan_is_outdated_by_another_object_of_the_same_name_and_not_by_a_status() {
        let none = json!({});
        let shape = found("1", "nginx:1", &none).shape();
        assert_eq!(
            found("1", "nginx:1", &json!({"status": {"replicas": 1}})).shape(),
            shape
        );
        assert_ne!(found("2", "nginx:1", &none).shape(), shape);
        assert_ne!(found("1", "nginx:2", &none).shape(), shape);
        let mut other = found("1", "nginx:1", &none);
        other.contents.foreign = vec!["configmap/notes".to_owned()];
        assert_ne!(other.shape(), shape);
    }
}
