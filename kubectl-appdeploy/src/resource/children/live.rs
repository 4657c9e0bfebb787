//! The children of an app or a pod set, kept up to date by a watch for each kind.

use std::fmt::Debug;

use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt as _, future};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DynamicObject;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Resource};
use model::children::Api as ChildApi;
use model::valid::is_object_name;
use model::{CHILDREN, ChildKind};
use serde::de::DeserializeOwned;

use super::{Children, Section, autoscalers_of, is_pod_of, kinds, run, slices, tls_secret};
use crate::cluster::connection::Cluster;
use crate::cluster::known::ObjectCache;
use crate::cluster::watch::{self, Change};
use crate::error::{Error, Result};
use crate::resource::certificate::Tls;
use crate::resource::live_children;
use crate::resource::workload::Workload;

/// A change that a watch reports.
pub type Update = Box<dyn FnOnce(&mut Live) + Send>;

/// The children that the watches have reported so far.
pub struct Live {
    autoscalers: Listing<HorizontalPodAutoscaler>,
    /// In the order of the table.
    owned: Vec<(&'static ChildKind, Listing<DynamicObject>)>,
    slices: Listing<EndpointSlice>,
    secrets: Listing<Secret>,
    replica_sets: Listing<ReplicaSet>,
    pods: Listing<Pod>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            autoscalers: Listing::default(),
            owned: CHILDREN.iter().map(|kind| (*kind, Listing::default())).collect(),
            slices: Listing::default(),
            secrets: Listing::default(),
            replica_sets: Listing::default(),
            pods: Listing::default(),
        }
    }
}

/// The objects of a watch, or why they are unknown.
enum Listing<K> {
    Known(ObjectCache<K>),
    Unknown(String),
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self::Known(ObjectCache::default())
    }
}

impl<K: Resource + Clone> Listing<K> {
    fn take(&mut self, event: Result<Event<K>>) {
        match (self, event) {
            (Self::Known(known), Ok(event)) => {
                known.take(event);
            }
            (Self::Unknown(_), Ok(_)) => {}
            (told, Err(error)) => *told = Self::Unknown(word(&error)),
        }
    }

    /// Returns the current children; `None` until the first list is complete.
    fn section(&self) -> Option<Section<K>> {
        match self {
            Self::Known(known) => known.is_complete().then(|| Ok(known.all().cloned().collect())),
            Self::Unknown(why) => Some(Err(why.clone())),
        }
    }
}

fn word(error: &Error) -> String {
    if error.is_forbidden() {
        super::FORBIDDEN.to_owned()
    } else {
        "n/a".to_owned()
    }
}

impl Live {
    /// Forgets the Secret, where another one is named.
    pub fn forget_secret(&mut self) {
        self.secrets = Listing::default();
    }

    /// Returns the children; `None` as long as a first list is not read.
    pub fn children(&self, workload: &Workload) -> Option<Children> {
        let pods = self.pods.section()?.map(|mut pods| {
            pods.retain(|pod| is_pod_of(pod, workload));
            pods
        });
        let autoscalers = autoscalers_of(workload, self.autoscalers.section()?);
        if let Workload::PodSet(_) = workload {
            return Some(Children {
                autoscalers,
                ..Children::of_pods(pods)
            });
        }
        let tls = match tls_secret(workload) {
            None => None,
            Some(name) if !is_object_name(name) => Some((name.to_owned(), Tls::Missing)),
            Some(name) => Some((
                name.to_owned(),
                match self.secrets.section()? {
                    Ok(found) => Tls::read(found.iter().find(|one| one.metadata.name.as_deref() == Some(name))),
                    Err(why) => Tls::Unknown(why),
                },
            )),
        };
        let kinds = kinds(workload);
        let owned = self.owned.iter().filter(|(kind, listing)| {
            // The cluster may not serve an optional kind.
            kinds.contains(kind) && !(kind.api == ChildApi::Optional && matches!(listing, Listing::Unknown(_)))
        });
        let owned = owned.map(|(kind, listing)| Some((*kind, listing.section()?)));
        Some(Children {
            autoscalers,
            owned: owned.collect::<Option<_>>()?,
            slices: self.slices.section()?,
            tls,
            replica_sets: self.replica_sets.section()?,
            pods,
        })
    }
}

/// Watches all possible children. The Secret is the one that the spec names now.
pub fn watch(cluster: &Cluster, workload: &Workload) -> SelectAll<BoxStream<'static, Update>> {
    let by = |labels: String| Config::default().labels(&labels);
    let (run, owned) = (by(run(workload)), by(live_children::labels(workload.name())));
    let mut all = SelectAll::new();
    all.push(follow(cluster, workload, run.clone(), |live| &mut live.pods));
    all.push(follow(cluster, workload, Config::default(), |live| {
        &mut live.autoscalers
    }));
    if let Workload::PodSet(_) = workload {
        return all;
    }
    for (index, kind) in CHILDREN.iter().enumerate() {
        let api = live_children::api(cluster, kind, workload.namespace());
        all.push(follow_in(cluster, api, owned.clone(), move |live| {
            live.owned.get_mut(index).map(|(_, listing)| listing)
        }));
    }
    all.push(follow(cluster, workload, run, |live| &mut live.replica_sets));
    all.push(follow(cluster, workload, by(slices(workload)), |live| &mut live.slices));
    all.extend(watch_secret(cluster, workload));
    all
}

/// Watches the Secret that an app names now, if it names one.
pub fn watch_secret(cluster: &Cluster, workload: &Workload) -> Option<BoxStream<'static, Update>> {
    let name = tls_secret(workload).filter(|name| is_object_name(name))?;
    let config = Config::default().fields(&format!("metadata.name={name}"));
    Some(follow(cluster, workload, config, |live| &mut live.secrets))
}

fn follow<K>(
    cluster: &Cluster,
    workload: &Workload,
    config: Config,
    place: fn(&mut Live) -> &mut Listing<K>,
) -> BoxStream<'static, Update>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<K> = Api::namespaced(cluster.client.clone(), workload.namespace());
    follow_in(cluster, api, config, move |live| Some(place(live)))
}

fn follow_in<K>(
    cluster: &Cluster,
    api: Api<K>,
    config: Config,
    place: impl Fn(&mut Live) -> Option<&mut Listing<K>> + Copy + Send + 'static,
) -> BoxStream<'static, Update>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watch::follow_all(cluster, api, config)
        // The watch of the workload itself reports a lost connection.
        .filter_map(|change| {
            future::ready(match change {
                Ok(Change::Begin(event) | Change::New(event)) => Some(Ok(event)),
                Ok(Change::Lost(_)) => None,
                Err(error) => Some(Err(error)),
            })
        })
        // A forbidden kind is not requested again.
        .scan(false, |is_over, event| {
            let next = (!*is_over).then_some(event);
            *is_over = matches!(next, Some(Err(_)));
            future::ready(next)
        })
        .map(move |event| -> Update {
            Box::new(move |live| {
                if let Some(listing) = place(live) {
                    listing.take(event);
                }
            })
        })
        .boxed()
}
