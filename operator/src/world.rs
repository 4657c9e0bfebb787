//! All that is known of the cluster, from watches and from the answers to our own writes.

mod additions;
pub mod answers;
pub mod children;
pub mod hosts;
pub mod set_pods;

use std::collections::BTreeSet;
use std::sync::Arc;

use crd::{AppDeploy, PodSet};
use k8s_openapi::api::core::v1::Pod;
use kube::core::ObjectMeta;
use model::pod::PodState;
use model::{ChildKind, Failure, IngressClasses, Observed};

use crate::cache::{Cache, Item};
use crate::key::Key;
use crate::liveness::Liveness;
use crate::primary::Root;
use crate::reduced::{Parts, Reduce, read};
use crate::watch::Health;
use answers::Answers;
use children::Children;
use hosts::Hosts;
use set_pods::SetPods;

/// The annotation that marks the default IngressClass.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// A kind, with what is known of its objects and of its watch.
#[derive(Debug)]
pub struct Kind<T> {
    /// The objects.
    pub cache: Cache<T>,
    /// How the watch is doing.
    pub health: Health,
    /// Whether its loops go round.
    pub liveness: Liveness,
}

impl<T: Clone> Default for Kind<T> {
    fn default() -> Self {
        Self {
            cache: Cache::default(),
            health: Health::default(),
            liveness: Liveness::default(),
        }
    }
}

impl<T: Clone> Kind<T> {
    /// Returns what is to be told of what an object has of this kind, if that may be gone or another by now.
    #[must_use]
    pub fn outdated(&self, resource: &'static str, object: &Key) -> Option<Failure> {
        let why = self.health.outdated(Some(&object.namespace))?;
        Some(Failure::Blind { resource, why })
    }

    fn watched(&self, resource: &'static str, controller: crd::Kind, need: Need) -> Watched<'_> {
        Watched {
            resource,
            controller,
            need,
            health: &self.health,
            liveness: &self.liveness,
            objects: self.cache.len(),
        }
    }
}

/// A watch, as it looks to others.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// Its name: the plural name of the kind.
    pub resource: &'static str,
    /// The kind whose reconciles use it.
    pub controller: crd::Kind,
    /// Whether readiness depends on it.
    pub need: Need,
    /// How it is doing.
    pub health: &'a Health,
    /// Whether its loops go round.
    pub liveness: &'a Liveness,
    /// How many objects it has brought.
    pub objects: usize,
}

/// Whether the operator's readiness depends on a watch. Reconciles begin in any case as soon as they can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It does.
    Always,
    /// It does, unless the server has no such kind: then there is nothing to look after. An installation is older
    /// than the kind until its CRDs are applied again.
    IfServed,
    /// It makes the status better, but nothing waits for it.
    Helps,
}

/// The caches of all kinds.
#[derive(Debug, Default)]
pub struct World {
    /// The applications.
    pub apps: Kind<Root<AppDeploy>>,
    /// Which hosts they claim.
    pub hosts: Hosts,
    /// Their children.
    pub children: Children,
    /// Their pods.
    pub pods: Kind<Arc<PodState>>,
    /// The PodSets.
    pub podsets: Kind<Root<PodSet>>,
    /// Their pods.
    pub set_pods: SetPods,
    /// The cluster's IngressClasses; the value says whether one is the default.
    pub ingress_classes: Kind<bool>,
    /// What health checks got for an answer.
    pub answers: Answers,
}

impl World {
    /// Returns caches for apps with these kinds of children.
    #[must_use]
    pub fn with_children(kinds: &'static [&'static ChildKind]) -> Self {
        Self {
            children: Children::of_kinds(kinds),
            ..Self::default()
        }
    }

    /// Returns what is known of an application's children and surroundings.
    #[must_use]
    pub fn observe(&self, app: &Key) -> Observed {
        let mut pods: Vec<PodState> = self.pods.cache.members(app).iter().map(|pod| (**pod).clone()).collect();
        self.answers.add_to(crd::Kind::AppDeploy, app, pods.iter_mut());
        let mut observed = Observed {
            pods,
            ingress_classes: self.classes(),
            ..Observed::default()
        };
        self.children.observe(app, &mut observed);
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

    /// Returns the names of all objects of a primary kind.
    #[must_use]
    pub fn keys(&self, kind: crd::Kind) -> Vec<Key> {
        match kind {
            crd::Kind::AppDeploy => self.apps.cache.keys(),
            crd::Kind::PodSet => self.podsets.cache.keys(),
        }
    }

    /// Returns how the watch of a primary kind is doing.
    #[must_use]
    pub const fn health(&self, kind: crd::Kind) -> &Health {
        match kind {
            crd::Kind::AppDeploy => &self.apps.health,
            crd::Kind::PodSet => &self.podsets.health,
        }
    }

    /// Returns all watches, in the order in which they matter.
    #[must_use]
    pub fn watches(&self) -> Vec<Watched<'_>> {
        use crd::Kind::{AppDeploy, PodSet};
        let mut all = vec![
            self.apps.watched("appdeploys", AppDeploy, Need::Always),
            self.podsets.watched("podsets", PodSet, Need::IfServed),
            self.set_pods.kind.watched("podset-pods", PodSet, Need::Always),
        ];
        all.extend(self.children.watched());
        all.push(self.pods.watched("pods", AppDeploy, Need::Helps));
        all.push(self.ingress_classes.watched("ingressclasses", AppDeploy, Need::Helps));
        all
    }
}

/// The most bytes of a child or a pod, its metadata aside. What is larger was made so by others.
const MAX_OBJECT: usize = 512 * 1024;

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

    /// Reduces a pod to what is kept of it. Its application is named by its label.
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
