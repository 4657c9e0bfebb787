//! The watches of the operator: of what, by which labels, and whom they wake.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::IngressClass;
use kube::api::PostParams;
use kube::discovery::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client};
use model::ChildKind;
use tokio::time::sleep;
use tracing::info;

use crate::controller::Queues;
use crate::guard::guarded;
use crate::key::Key;
use crate::primary::{Primary, Root};
use crate::queue::Urgency;
use crate::reduced::{Reduce, Reduced};
use crate::settings::Settings;
use crate::watch::{PAGE, Watch};
use crate::world::children::{ChildObject, api_resource, reading};
use crate::world::{AppPods, Classes, PodSetPods, World};

/// Watches every kind, in every namespace that is ours to look after.
pub async fn watch_all(settings: Settings, client: Client, world: Arc<World>, queues: Queues) {
    let namespaces = settings.namespaces();
    let scopes: Vec<Option<&str>> = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces.into_iter().map(Some).collect()
    };
    for watched in world.watches() {
        if watched.resource != "ingressclasses" {
            watched.health.expect(&scopes);
        }
    }
    let is_everywhere = scopes == [None];
    let watches = Watches {
        client,
        world,
        queues,
        resync: settings.resync_period,
    };
    tokio::join!(
        join_all(scopes.into_iter().map(|scope| watches.watch_scope(scope))),
        watches.watch_classes(is_everywhere)
    );
}

/// What the watches share.
struct Watches {
    client: Client,
    world: Arc<World>,
    queues: Queues,
    resync: Duration,
}

impl Watches {
    /// Watches a namespace, or all.
    async fn watch_scope(&self, scope: Option<&str>) {
        let children = self.world.children.kinds();
        let wake_claimants = |apps, urgency| self.wake_claimants(apps, urgency);
        let wake_sets = |sets, urgency| self.wake(crd::Kind::PodSet, sets, urgency);
        let wake_apps = |owners, urgency| self.wake(crd::Kind::AppDeploy, owners, urgency);
        let pods = Watch::<AppPods> {
            resource: "pods",
            api: api(&self.client, scope, &ApiResource::erase::<Pod>(&())),
            scope,
            config: config().labels(crd::label::APP),
            resync: self.resync,
            kind: &self.world.pods,
            wake: &wake_apps,
            on_vanish: None,
        };
        tokio::join!(
            self.watch_primary::<crd::AppDeploy>(scope, &wake_claimants),
            self.watch_primary::<crd::PodSet>(scope, &wake_sets),
            self.watch_set_pods(scope),
            join_all(children.iter().map(|kind| self.watch_children(scope, kind))),
            pods.run()
        );
    }

    async fn watch_children(&self, scope: Option<&str>, kind: &'static ChildKind) {
        let ours = format!("{}={}", crd::label::MANAGED_BY, crd::label::MANAGED_BY_VALUE);
        let wake = |owners, urgency| {
            if kind.serves_hosts {
                // A child that loses a host or is deleted makes way for the app that waits for the host.
                self.wake_claimants(owners, urgency);
            } else {
                self.wake(crd::Kind::AppDeploy, owners, urgency);
            }
        };
        let watch = Watch::<ChildObject> {
            resource: kind.plural,
            api: api(&self.client, scope, &api_resource(kind)),
            scope,
            config: config().labels(&ours),
            resync: self.resync,
            kind: self.world.children.of(kind),
            wake: &wake,
            on_vanish: None,
        };
        reading(kind, watch.run()).await;
    }

    async fn watch_primary<K: Primary>(&self, scope: Option<&str>, wake: &(dyn Fn(Vec<Key>, Urgency) + Sync)) {
        let watch = Watch::<Root<K>> {
            resource: K::KIND.plural(),
            api: api(&self.client, scope, &ApiResource::erase::<K>(&())),
            scope,
            config: config(),
            resync: self.resync,
            kind: K::known(&self.world),
            wake,
            on_vanish: None,
        };
        watch.run().await;
    }

    /// Watches the pods of PodSets by label. One that loses the label vanishes from here, and is still there.
    async fn watch_set_pods(&self, scope: Option<&str>) {
        let watch = Watch::<PodSetPods> {
            resource: "podset-pods",
            api: api(&self.client, scope, &ApiResource::erase::<Pod>(&())),
            scope,
            config: config().labels(crd::label::PODSET),
            resync: self.resync,
            kind: &self.world.set_pods.kind,
            wake: &|owners, urgency| self.wake(crd::Kind::PodSet, owners, urgency),
            on_vanish: Some(&|key, member| self.world.set_pods.lose(&key, &member)),
        };
        watch.run().await;
    }

    /// An application that changes concerns also those that claim the same host, or that it has left one to.
    fn wake_claimants(&self, apps: Vec<Key>, urgency: Urgency) {
        for app in &apps {
            let note = || crd::AppDeploy::note(&self.world, app);
            let others = guarded(crd::Kind::AppDeploy.plural(), app, note).unwrap_or_default();
            self.wake(crd::Kind::AppDeploy, others, urgency);
        }
        self.wake(crd::Kind::AppDeploy, apps, urgency);
    }

    /// A class concerns every application, none in particular. Whoever looks after some namespaces often has no right to
    /// what lives in none, and then does not ask for it in vain.
    async fn watch_classes(&self, is_everywhere: bool) {
        while !is_everywhere && !self.may_watch_classes().await {
            info!(
                "has no right to list ingressclasses, and does without: whether somebody serves an Ingress is not told"
            );
            self.world
                .ingress_classes
                .health
                .give_up("no right to list ingressclasses");
            sleep(self.resync).await;
        }
        let wake = |classes: Vec<Key>, _: Urgency| {
            if !classes.is_empty() {
                self.wake(crd::Kind::AppDeploy, self.world.apps.cache.keys(), Urgency::Sweep);
            }
        };
        let watch = Watch::<Classes> {
            resource: "ingressclasses",
            api: api(&self.client, None, &ApiResource::erase::<IngressClass>(&())),
            scope: None,
            config: config(),
            resync: self.resync,
            kind: &self.world.ingress_classes,
            wake: &wake,
            on_vanish: None,
        };
        watch.run().await;
    }

    /// Asks the API server about our own rights, which everybody may. If it does not say, trying will.
    async fn may_watch_classes(&self) -> bool {
        let mut review = SelfSubjectAccessReview::default();
        review.spec.resource_attributes = Some(ResourceAttributes {
            group: Some("networking.k8s.io".into()),
            resource: Some("ingressclasses".into()),
            verb: Some("list".into()),
            ..ResourceAttributes::default()
        });
        let api = Api::<SelfSubjectAccessReview>::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        answer.map_or(true, |review| review.status.is_none_or(|status| status.allowed))
    }

    fn wake(&self, kind: crd::Kind, owners: Vec<Key>, urgency: Urgency) {
        for owner in owners {
            self.queues.of(kind).add(owner, urgency);
        }
    }
}

fn config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

fn api<R: Reduce>(client: &Client, scope: Option<&str>, resource: &ApiResource) -> Api<Reduced<R>> {
    match scope {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}
