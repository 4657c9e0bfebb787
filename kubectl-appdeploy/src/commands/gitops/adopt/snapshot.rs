//! The objects before an adoption, or in the middle of one.

use crd::{AppDeploy, label};
use futures::{join, try_join};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::Api;
use kube::api::ListParams;
use model::children::DEPLOYMENT;
use model::{CHILDREN, ChildKind, NextCommand};
use serde_json::Value;

use super::dependents::Dependents;
use super::endpoints;
use crate::cluster::confirm;
use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};
use crate::resource::live_children;
use crate::resource::live_children::Live;
use crate::resource::workload::Workload;

/// The existing objects.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub namespace: String,
    pub name: String,
    /// The app, if it exists.
    pub app: Option<AppDeploy>,
    /// The objects with the app's name.
    pub live: Live,
    /// A Deployment of another name that the app replaces.
    pub other: Option<Value>,
    /// ReplicaSets of a deleted Deployment of the app's name, the newest first.
    pub orphans: Vec<Value>,
    /// Whether slices of an interrupted adoption exist.
    pub is_bridged: bool,
    /// Whether the user may create and delete EndpointSlices.
    pub may_bridge: bool,
    /// Other objects that depend on these.
    pub dependents: Dependents,
}

impl Snapshot {
    /// Reads all objects.
    pub async fn gather(cluster: &Cluster, name: &str, deployment: Option<&str>) -> Result<Self> {
        let namespace = &cluster.namespace;
        let other = deployment.filter(|other| *other != name);
        let apps = cluster.objects(Some(namespace));
        let deployments = live_children::api(cluster, &DEPLOYMENT, namespace);
        let sets: Api<ReplicaSet> = Api::namespaced(cluster.client.clone(), namespace);
        let left = ListParams::default().labels(&format!("{}={name}", label::REPLACED_BY));
        let objects = async {
            try_join!(
                cluster.call(apps.get_opt(name)),
                Live::fetch(cluster, namespace, name, CHILDREN),
                cluster.call(sets.list(&left)),
                async {
                    match other {
                        Some(other) => cluster.call(deployments.get_opt(other)).await,
                        None => Ok(None),
                    }
                },
            )
        };
        let (objects, dependents, bridges, may_bridge) = join!(
            objects,
            Dependents::list(cluster),
            endpoints::bridges(cluster, name),
            endpoints::may_bridge(cluster),
        );
        let (app, live, left, found) = objects?;
        // The other Deployment is deleted in the last step of an adoption.
        let is_adopted = app.as_ref().is_some_and(|app| {
            let deployment = live.of(&DEPLOYMENT);
            deployment.is_some_and(|live| live_children::is_of(live, app.metadata.uid.as_deref()))
        });
        if let (Some(other), None, false) = (other, &found, is_adopted) {
            return Err(missing(cluster, other));
        }
        let app = app.as_ref().map(|app| match Workload::read(cluster.kind, app) {
            Workload::App(app) => app,
            Workload::PodSet(_) => AppDeploy::default(),
        });
        let left = left.items.iter().filter(|set| is_left(set, name));
        let mut orphans: Vec<Value> = left.map(value).collect();
        orphans.sort_by_key(|set| {
            let revision = set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
            std::cmp::Reverse(revision.and_then(|number| number.parse::<u64>().ok()))
        });
        let found = Self {
            namespace: namespace.clone(),
            name: name.to_owned(),
            app,
            live,
            other: found.as_ref().map(value),
            orphans,
            is_bridged: !bridges?.is_empty(),
            may_bridge: may_bridge?,
            dependents: dependents?,
        };
        if found.app.is_none() && found.old().is_none() {
            return Err(missing(cluster, name));
        }
        Ok(found)
    }

    /// Returns the state that the plan depends on.
    pub fn shapes(&self) -> Vec<Value> {
        let app = self.app.as_ref().map(value);
        let live = self.live.iter().map(|(_, object)| object.clone());
        let all = app.into_iter().chain(live).chain(self.other.clone());
        all.chain(self.orphans.iter().cloned())
            .map(|object| confirm::shape(&object))
            .collect()
    }

    /// Returns the UID of the app.
    pub fn uid(&self) -> Option<&str> {
        self.app.as_ref()?.metadata.uid.as_deref()
    }

    /// Returns the Deployment that the app owns.
    pub fn own(&self) -> Option<&Value> {
        let live = self.live.of(&DEPLOYMENT);
        live.filter(|live| self.app.is_some() && live_children::is_of(live, self.uid()))
    }

    /// Returns the owner of the old pods: a Deployment, or a ReplicaSet of a deleted one.
    pub fn old(&self) -> Option<&Value> {
        let same = self.live.of(&DEPLOYMENT);
        self.other
            .as_ref()
            .or_else(|| same.filter(|live| self.uid().is_none_or(|uid| !live_children::is_of(live, Some(uid)))))
            .or_else(|| self.orphans.first())
    }

    /// Returns the object of a kind that has the app's name but is not owned by it.
    pub fn foreign(&self, kind: &ChildKind, uid: &str) -> Option<&Value> {
        self.live.of(kind).filter(|live| !live_children::is_of(live, Some(uid)))
    }
}

/// Whether a ReplicaSet is still an orphan of a deleted Deployment of this name. Another Deployment whose selector matches may
/// have adopted it.
pub fn is_left(set: &ReplicaSet, name: &str) -> bool {
    let owners = set.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.all(|owner| owner.name == name)
}

fn missing(cluster: &Cluster, deployment: &str) -> Error {
    Error::failed(format!(
        "Deployment {deployment} not found in namespace {}",
        cluster.namespace
    ))
    .next(NextCommand::from("kubectl get deployments").and(cluster.flag()))
}

fn value(object: &impl serde::Serialize) -> Value {
    // An object that was decoded can be encoded.
    serde_json::to_value(object).unwrap_or_default()
}
