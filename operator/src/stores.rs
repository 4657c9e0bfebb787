//! The cached state of the cluster, from watches and from the answers to our own writes.

pub mod children;
pub mod config_maps;
pub mod definition;
pub mod hosts;
pub mod queue_outputs;
pub mod set_pods;

use std::collections::BTreeSet;
use std::sync::Arc;

use crd::{AppDeploy, AppQueue, PodSet};
use k8s_openapi::api::core::v1::Pod;
use kube::core::ObjectMeta;
use model::pod::PodState;
use model::{ChildKind, Failure, IngressClasses, Observed};

use crate::cache::{Cache, Equivalent, Item};
use crate::key::Key;
use crate::liveness::Liveness;
use crate::primary::Root;
use crate::protobuf::Encoding;
use crate::reduced::{Parts, Reduce, read};
use crate::watch::Health;
use children::Children;
use config_maps::ConfigMaps;
use hosts::Hosts;
use queue_outputs::Output;
use set_pods::SetPods;

/// The annotation that marks the default IngressClass.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// The cached objects of one kind, and the state of the watch that feeds them.
#[derive(Debug)]
pub struct Store<T> {
    /// The objects.
    pub cache: Cache<T>,
    /// How the watch is doing.
    pub health: Health,
    /// Its loops, for the liveness probe.
    pub liveness: Liveness,
    /// How objects are requested.
    pub encoding: Encoding,
}

impl<T: Clone> Default for Store<T> {
    fn default() -> Self {
        Self {
            cache: Cache::default(),
            health: Health::default(),
            liveness: Liveness::default(),
            encoding: Encoding::default(),
        }
    }
}

impl<T: Clone> Store<T> {
    /// Returns the failure to report if cached objects of this kind may have changed or been deleted since.
    #[must_use]
    pub fn outdated(&self, resource: &'static str, object: &Key) -> Option<Failure> {
        let why = self.health.outdated(Some(&object.namespace))?;
        Some(Failure::WatchFailed { resource, why })
    }
}

/// What probes and metrics read of a store.
pub trait AnyStore: Send + Sync {
    /// Returns how the watch is doing.
    fn health(&self) -> &Health;
    /// Returns the loops of the watch.
    fn liveness(&self) -> &Liveness;
    /// Returns the number of objects.
    fn len(&self) -> usize;
    /// Whether there is no object.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone + Equivalent + Send + Sync> AnyStore for Store<T> {
    fn health(&self) -> &Health {
        &self.health
    }

    fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    fn len(&self) -> usize {
        self.cache.len()
    }
}

/// The stores of all kinds.
#[derive(Debug, Default)]
pub struct Stores {
    /// The applications.
    pub apps: Arc<Store<Root<AppDeploy>>>,
    /// Which hosts they claim.
    pub hosts: Hosts,
    /// Their children.
    pub children: Children,
    /// Their pods.
    pub pods: Arc<Store<Arc<PodState>>>,
    /// The PodSets.
    pub podsets: Arc<Store<Root<PodSet>>>,
    /// Their pods.
    pub set_pods: SetPods,
    /// The AppQueues.
    pub queues: Arc<Store<Root<AppQueue>>>,
    /// The ConfigMaps with the addresses of their queues.
    pub queue_outputs: Arc<Store<Arc<Output>>>,
    /// The versions of ConfigMaps, if changes of them restart pods.
    pub config_maps: Arc<ConfigMaps>,
    /// The cluster's IngressClasses; the value says whether one is the default.
    pub ingress_classes: Arc<Store<bool>>,
}

impl Stores {
    /// Returns caches for apps with these kinds of children.
    #[must_use]
    pub fn with_children(kinds: &'static [&'static ChildKind]) -> Self {
        Self {
            children: Children::of_kinds(kinds),
            ..Self::default()
        }
    }

    /// Returns the cached children of an application and the objects that they depend on. Children of a new application count as
    /// absent before their kind was listed: a create does not harm one that exists.
    #[must_use]
    pub fn observe(&self, app: &Key, is_new: bool) -> Observed {
        let pods = self.pods.cache.members(app);
        let mut observed = Observed {
            pods: pods.iter().map(|pod| (**pod).clone()).collect(),
            ingress_classes: self.classes(),
            ..Observed::default()
        };
        self.children.observe(app, is_new, &mut observed);
        observed
    }

    fn classes(&self) -> IngressClasses {
        if !self.ingress_classes.health.is_synced() {
            return IngressClasses::Unreadable;
        }
        let all = self.ingress_classes.cache.all();
        IngressClasses::Known {
            has_default: all.iter().any(|(_, is_default)| *is_default),
            names: all
                .into_iter()
                .map(|(key, _)| key.name.into())
                .collect::<BTreeSet<String>>(),
        }
    }
}

impl Equivalent for PodState {
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
    }
}

/// The maximum size of a child or a pod in bytes, as it was sent and without its metadata. Only other managers make objects larger than this.
pub const MAX_OBJECT: usize = 512 * 1024;

/// Reads a pod; `None` if it is too large or does not fit its schema.
#[must_use]
pub fn whole_pod(object: Parts<'_>) -> Option<Pod> {
    if object.bytes() > MAX_OBJECT {
        return None;
    }
    Some(Pod {
        spec: object.spec.map(read).transpose().ok()?,
        status: object.status.map(read).transpose().ok()?,
        metadata: object.meta,
    })
}

/// The pods of applications.
#[derive(Debug)]
pub struct AppPods;

impl Reduce for AppPods {
    type Value = Arc<PodState>;

    fn resource() -> &'static str {
        "pods"
    }

    /// Reduces a pod. Its label names its application.
    fn reduce(object: Parts<'_>) -> Option<Item<Arc<PodState>>> {
        let pod = whole_pod(object)?;
        let key = Key::of(&pod.metadata);
        let app = Key::new(&key.namespace, pod.metadata.labels.as_ref()?.get(crd::label::APP)?);
        let value = Arc::new(PodState::read(&pod));
        Some(Item {
            key,
            owners: [app].into(),
            version: pod.metadata.resource_version.unwrap_or_default(),
            value,
        })
    }
}

/// The pods of PodSets.
#[derive(Debug)]
pub struct PodSetPods;

impl Reduce for PodSetPods {
    type Value = Arc<set_pods::Member>;

    fn resource() -> &'static str {
        "podset-pods"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<Arc<set_pods::Member>>> {
        Some(set_pods::set_pod(&whole_pod(object)?))
    }
}

/// The cluster's IngressClasses.
#[derive(Debug)]
pub struct Classes;

impl Reduce for Classes {
    type Value = bool;

    fn resource() -> &'static str {
        "ingressclasses"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<bool>> {
        Some(ingress_class(&object.meta))
    }
}

impl Equivalent for () {
    fn is_equivalent(&self, (): &Self) -> bool {
        true
    }
}

impl Equivalent for bool {
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
    }
}

/// Reduces an IngressClass to whether it is the default.
fn ingress_class(meta: &ObjectMeta) -> Item<bool> {
    let key = Key::of(meta);
    let is_default = meta
        .annotations
        .as_ref()
        .and_then(|all| all.get(DEFAULT_CLASS))
        .is_some_and(|v| v == "true");
    Item {
        owners: [key.clone()].into(),
        key,
        version: meta.resource_version.clone().unwrap_or_default(),
        value: is_default,
    }
}
