//! What the controller of AppDeploys watches.

use std::sync::Arc;

use crd::AppDeploy;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::networking::v1::IngressClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::discovery::ApiResource;
use model::children::Api;
use model::{Child, ChildKind};

use crate::guard::guarded;
use crate::informer::{Informer, Need, Select, Source, Wake, waking};
use crate::key::Key;
use crate::primary::Primary as _;
use crate::queue::{Priority, Queue};
use crate::reconcile::stored::{Stored as _, informer};
use crate::reduced::Reduce as _;
use crate::stores::children::{ChildObject, api_resource};
use crate::stores::config_maps::ConfigMapVersions;
use crate::stores::definition::Defined;
use crate::stores::{AppPods, Classes, Store, Stores};

/// Returns the informers of AppDeploys, their children and pods, and the cluster's IngressClasses.
pub fn all(stores: &Arc<Stores>, queue: &Arc<Queue<Key>>) -> Vec<Informer> {
    stores.config_maps.wake_with(crd::Kind::AppDeploy, waking(queue));
    let (wake, wake_claimants) = (waking(queue), waking_claimants(stores, queue));
    let mut all = vec![informer::<AppDeploy>(stores, Need::Always, wake_claimants.clone()).for_new_objects()];
    all.extend(children(stores, &wake, &wake_claimants));
    let pods = Source::<AppPods> {
        resource: "pods",
        api: ApiResource::erase::<Pod>(&()),
        is_namespaced: true,
        select: Select::Labels(crd::label::APP.to_owned()),
        need: Need::Helps,
        store: stores.pods.clone(),
        wake,
        on_vanish: None,
    };
    let classes = Source::<Classes> {
        resource: "ingressclasses",
        api: ApiResource::erase::<IngressClass>(&()),
        is_namespaced: false,
        select: Select::All,
        need: Need::Helps,
        store: stores.ingress_classes.clone(),
        wake: waking_all(stores, queue),
        on_vanish: None,
    };
    // The status of a new app depends on the classes.
    all.extend([pods.into(), Informer::from(classes).for_new_objects()]);
    all.extend(definitions(stores));
    all
}

/// Returns the informer of the metadata of ConfigMaps. It serves `PodSets`, too.
pub fn config_maps(stores: &Arc<Stores>) -> Informer {
    let maps = stores.config_maps.clone();
    let source = Source::<ConfigMapVersions> {
        resource: ConfigMapVersions::resource(),
        api: ApiResource::erase::<ConfigMap>(&()),
        is_namespaced: true,
        select: Select::All,
        need: Need::Helps,
        store: maps.versions.clone(),
        wake: Arc::new(move |changed, reason| maps.wake(&changed, reason.priority)),
        on_vanish: None,
    };
    source.into()
}

/// Returns the informers of all kinds of children. Children that serve hosts concern also the apps that wait for these hosts.
fn children(stores: &Stores, wake: &Wake, wake_claimants: &Wake) -> Vec<Informer> {
    let ours = format!("{}={}", crd::label::MANAGED_BY, crd::label::MANAGED_BY_VALUE);
    let informer = |(kind, store): (&'static ChildKind, &Arc<Store<Arc<Child>>>)| {
        let source = Source::<ChildObject> {
            resource: kind.plural,
            api: api_resource(kind),
            is_namespaced: true,
            select: Select::Labels(ours.clone()),
            need: match kind.api {
                Api::Required => Need::Always,
                Api::Optional => Need::IfServed,
            },
            store: store.clone(),
            wake: if kind.serves_hosts { wake_claimants } else { wake }.clone(),
            on_vanish: None,
        };
        let informer = Informer::from(source).of_children(kind, stores.children.definition(kind).cloned());
        // Which app has a host is known when these and the apps were listed. Which children an app has depends on the optional kinds
        // that the server knows.
        if kind.serves_hosts || kind.api == Api::Optional {
            informer.for_new_objects()
        } else {
            informer
        }
    };
    stores.children.all().map(informer).collect()
}

/// Returns the informers of the definitions of the optional kinds.
fn definitions(stores: &Stores) -> impl Iterator<Item = Informer> {
    stores.children.all().filter_map(|(kind, _)| {
        let definition = stores.children.definition(kind)?.clone();
        let source = Source::<Defined> {
            resource: Defined::resource(),
            api: ApiResource::erase::<CustomResourceDefinition>(&()),
            is_namespaced: false,
            select: Select::Name(format!("{}.{}", kind.plural, kind.group)),
            need: Need::Helps,
            store: definition.store.clone(),
            wake: Arc::new(move |_, _| definition.update()),
            on_vanish: None,
        };
        Some(source.into())
    })
}

/// An app that changes concerns also the apps that claim the same host, or that it has left one to.
fn waking_claimants(stores: &Arc<Stores>, queue: &Arc<Queue<Key>>) -> Wake {
    let (stores, wake) = (stores.clone(), waking(queue));
    Arc::new(move |apps, reason| {
        for app in &apps {
            let note = || AppDeploy::note(&stores, app);
            wake(
                guarded(AppDeploy::NAMES.plural, app, note).unwrap_or_default(),
                reason.priority.min(Priority::Related).into(),
            );
        }
        wake(apps, reason);
    })
}

/// An IngressClass concerns every app.
fn waking_all(stores: &Arc<Stores>, queue: &Arc<Queue<Key>>) -> Wake {
    let (stores, wake) = (stores.clone(), waking(queue));
    Arc::new(move |classes, _| {
        if !classes.is_empty() {
            wake(stores.apps.cache.keys(), Priority::Resync.into());
        }
    })
}
