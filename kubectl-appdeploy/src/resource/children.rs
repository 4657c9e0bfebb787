//! The children of an app or a pod set: one list by label for each kind.

mod live;

use futures::future::try_join_all;
use futures::join;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DynamicObject, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use model::ChildKind;
use model::children::Api as ChildApi;
use model::valid::is_object_name;
use serde::de::DeserializeOwned;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};
use crate::resource::autoscaler;
use crate::resource::certificate::Tls;
use crate::resource::live_children;
use crate::resource::workload::Workload;

pub use live::{Live, Update, watch, watch_secret};

/// Printed instead of a list that is forbidden.
const FORBIDDEN: &str = "n/a (forbidden)";

/// The label by which the endpoints of a Service are found.
pub const SLICE_OF: &str = "kubernetes.io/service-name";

/// A list, or in a word why it is unknown.
pub type Section<T> = std::result::Result<Vec<T>, String>;

/// The children of an app or a pod set.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// The autoscalers that target it. Empty also if they can't be listed: most have none.
    pub autoscalers: Vec<HorizontalPodAutoscaler>,
    /// The children of each kind, in the order of the table. Pod sets have none of them.
    pub owned: Vec<(&'static ChildKind, Section<DynamicObject>)>,
    /// The endpoints of the Service.
    pub slices: Section<EndpointSlice>,
    /// The Secret with the certificate of the host, with its name, if the app names one.
    pub tls: Option<(String, Tls)>,
    /// The revisions.
    pub replica_sets: Section<ReplicaSet>,
    /// The pods.
    pub pods: Section<Pod>,
}

impl Children {
    /// Returns the children of a pod set.
    pub const fn of_pods(pods: Section<Pod>) -> Self {
        Self {
            autoscalers: Vec::new(),
            owned: Vec::new(),
            slices: Ok(Vec::new()),
            tls: None,
            replica_sets: Ok(Vec::new()),
            pods,
        }
    }

    /// Returns the children of a kind.
    pub fn of<K: Resource + DeserializeOwned>(&self, kind: &ChildKind) -> Section<K> {
        let mut all = self.owned.iter();
        let Some((_, section)) = all.find(|(known, _)| *known == kind) else {
            return Ok(Vec::new());
        };
        let objects = section.as_ref().map_err(Clone::clone)?;
        // Every object of a kind can be read as its type.
        Ok(objects.iter().filter_map(|one| one.clone().try_parse().ok()).collect())
    }

    /// Returns the child of a kind that an app has at most one of.
    pub fn first<K: Resource + DeserializeOwned>(&self, kind: &ChildKind) -> Option<K> {
        self.of(kind).unwrap_or_default().into_iter().next()
    }
}

/// Lists the children of an app or a pod set. A missing right affects only its own list.
pub async fn fetch(cluster: &Cluster, workload: &Workload) -> Result<Children> {
    let namespace = workload.namespace();
    let run = ListParams::default().labels(&run(workload));
    let any = ListParams::default();
    if let Workload::PodSet(_) = workload {
        let (pods, autoscalers) = join!(list::<Pod>(cluster, namespace, &run), list(cluster, namespace, &any));
        let pods = pods?.map(|mut pods| {
            pods.retain(|pod| is_pod_of(pod, workload));
            pods
        });
        return Ok(Children {
            autoscalers: autoscalers_of(workload, autoscalers?),
            ..Children::of_pods(pods)
        });
    }
    let owned = ListParams::default().labels(&live_children::labels(workload.name()));
    let reached = ListParams::default().labels(&slices(workload));
    let of_kinds = try_join_all(kinds(workload).into_iter().map(|kind| {
        let (api, params) = (live_children::api(cluster, kind, namespace), &owned);
        async move {
            let list = cluster.attempt(api.list(params)).await?.map(|list| list.items);
            match list {
                Err(kube::Error::Api(status)) if is_not_served(kind, status.code) => Ok(None),
                list => Ok::<_, Error>(Some((kind, section(cluster, list)?))),
            }
        }
    }));
    let (autoscalers, owned, slices, tls, replica_sets, pods) = join!(
        list(cluster, namespace, &any),
        of_kinds,
        list(cluster, namespace, &reached),
        tls(cluster, workload),
        list(cluster, namespace, &run),
        list(cluster, namespace, &run),
    );
    Ok(Children {
        autoscalers: autoscalers_of(workload, autoscalers?),
        owned: owned?.into_iter().flatten().collect(),
        slices: slices?,
        tls: tls?,
        replica_sets: replica_sets?,
        pods: pods?,
    })
}

/// Returns the kinds of children that an app has or may have.
fn kinds(workload: &Workload) -> Vec<&'static ChildKind> {
    let app = match workload {
        Workload::App(app) => Some(app),
        Workload::PodSet(_) => None,
    };
    live_children::kinds_of(app)
}

/// Whether a list of children failed because the cluster does not serve their optional kind.
fn is_not_served(kind: &ChildKind, code: u16) -> bool {
    kind.api == ChildApi::Optional && code == 404
}

/// Returns the autoscalers that set the number of pods of a workload.
fn autoscalers_of(workload: &Workload, all: Section<HorizontalPodAutoscaler>) -> Vec<HorizontalPodAutoscaler> {
    let mut all = all.unwrap_or_default();
    all.retain(|one| autoscaler::is_for(one, workload.kind(), workload.name()));
    all
}

/// Returns the label of the pods and the ReplicaSets.
fn run(workload: &Workload) -> String {
    workload.kind().pod_selector(workload.name())
}

/// Returns the label of the endpoints.
fn slices(workload: &Workload) -> String {
    format!("{SLICE_OF}={}", workload.name())
}

/// Returns the name of the Secret with the certificate for an app's host, if it names a valid one.
pub fn tls_secret(workload: &Workload) -> Option<&str> {
    let Workload::App(app) = workload else { return None };
    app.spec
        .tls
        .as_ref()
        .filter(|_| app.spec.is_public())
        .and_then(|tls| tls.secret_name.as_deref())
}

/// Reads the certificate of the host. A user without the right to read Secrets still sees the rest.
pub async fn tls(cluster: &Cluster, workload: &Workload) -> Result<Option<(String, Tls)>> {
    let Some(name) = tls_secret(workload) else {
        return Ok(None);
    };
    if !is_object_name(name) {
        return Ok(Some((name.to_owned(), Tls::Missing)));
    }
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let read = section(
        cluster,
        cluster
            .attempt(api.get_opt(name))
            .await?
            .map(|found| found.into_iter().collect()),
    )?;
    let tls = match read {
        Ok(found) => Tls::read(found.first()),
        Err(why) => Tls::Unknown(why),
    };
    Ok(Some((name.to_owned(), tls)))
}

/// Whether a pod with the label of a workload belongs to it. Any pod can have a label; pods of a pod set have it as their only
/// owner.
pub fn is_pod_of(pod: &Pod, workload: &Workload) -> bool {
    match workload {
        Workload::App(_) => true,
        Workload::PodSet(_) => is_of(pod, workload.meta().uid.as_deref()),
    }
}

/// Whether an object is controlled by the owner with this UID.
pub fn is_of<K: Resource>(object: &K, owner: Option<&str>) -> bool {
    let owners = object.meta().owner_references.iter().flatten();
    owners
        .into_iter()
        .any(|reference| reference.controller == Some(true) && Some(reference.uid.as_str()) == owner)
}

/// Lists objects of a namespace.
pub async fn list<K>(cluster: &Cluster, namespace: &str, params: &ListParams) -> Result<Section<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    list_of(cluster, &Api::namespaced(cluster.client.clone(), namespace), params).await
}

async fn list_of<K>(cluster: &Cluster, api: &Api<K>, params: &ListParams) -> Result<Section<K>>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    section(cluster, cluster.attempt(api.list(params)).await?.map(|list| list.items))
}

/// Turns a missing right into a word for the page. Every other failure stays an error.
pub fn section<T>(cluster: &Cluster, listed: kube::Result<Vec<T>>) -> Result<Section<T>> {
    match listed {
        Ok(items) => Ok(Ok(items)),
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(Err(FORBIDDEN.to_owned())),
        Err(source) => Err::<_, Error>(cluster.explain(source)),
    }
}
