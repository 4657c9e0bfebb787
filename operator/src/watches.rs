//! The watches of the operator: of what, by which labels, and whom they wake.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::IngressClass;
use kube::api::PostParams;
use kube::core::{DeserializeGuard, DynamicObject};
use kube::discovery::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use model::ChildKind;
use tokio::time::sleep;
use tracing::info;

use crate::controller::Queues;
use crate::guard::guarded;
use crate::key::Key;
use crate::primary::{Primary, root};
use crate::queue::Urgency;
use crate::settings::Settings;
use crate::watch::{PAGE, Watch};
use crate::world::set_pods::set_pod;
use crate::world::{self, World};

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
        let ours = format!("{}={}", crd::label::MANAGED_BY, crd::label::MANAGED_BY_VALUE);
        let wake_claimants = |apps, urgency| self.wake_claimants(apps, urgency);
        let wake_sets = |sets, urgency| self.wake(crd::Kind::PodSet, sets, urgency);
        let wake_apps = |owners, urgency| self.wake(crd::Kind::AppDeploy, owners, urgency);
        let children = ChildKind::ALL.map(|kind| Watch {
            resource: kind.resource(),
            api: child_api(&self.client, scope, kind),
            scope,
            config: config().labels(&ours),
            resync: self.resync,
            kind: self.world.children(kind),
            reduce: match kind {
                ChildKind::Deployment => |object| Some(world::child(ChildKind::Deployment, &object)),
                ChildKind::Service => |object| Some(world::child(ChildKind::Service, &object)),
                ChildKind::Ingress => |object| Some(world::child(ChildKind::Ingress, &object)),
            },
            wake: &wake_apps,
            on_vanish: None,
        });
        let pods = Watch {
            resource: "pods",
            api: api::<DeserializeGuard<Pod>>(&self.client, scope),
            scope,
            config: config().labels(crd::label::APP),
            resync: self.resync,
            kind: &self.world.pods,
            reduce: world::pod,
            wake: &wake_apps,
            on_vanish: None,
        };
        tokio::join!(
            self.watch_primary::<crd::AppDeploy>(scope, &wake_claimants),
            self.watch_primary::<crd::PodSet>(scope, &wake_sets),
            self.watch_set_pods(scope),
            join_all(children.map(Watch::run)),
            pods.run()
        );
    }

    async fn watch_primary<K: Primary>(&self, scope: Option<&str>, wake: &(dyn Fn(Vec<Key>, Urgency) + Sync)) {
        let watch = Watch {
            resource: K::KIND.plural(),
            api: api::<DeserializeGuard<K>>(&self.client, scope),
            scope,
            config: config(),
            resync: self.resync,
            kind: K::known(&self.world),
            reduce: |object| Some(root(object)),
            wake,
            on_vanish: None,
        };
        watch.run().await;
    }

    /// Watches the pods of PodSets by label. One that loses the label vanishes from here, and is still there.
    async fn watch_set_pods(&self, scope: Option<&str>) {
        let watch = Watch {
            resource: "podset-pods",
            api: api::<DeserializeGuard<Pod>>(&self.client, scope),
            scope,
            config: config().labels(crd::label::PODSET),
            resync: self.resync,
            kind: &self.world.set_pods.kind,
            reduce: |pod| Some(set_pod(&pod.0.ok()?)),
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
        let watch = Watch {
            resource: "ingressclasses",
            api: Api::<IngressClass>::all(self.client.clone()),
            scope: None,
            config: config(),
            resync: self.resync,
            kind: &self.world.ingress_classes,
            reduce: |class| Some(world::ingress_class(&class)),
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

fn api<K>(client: &Client, scope: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

fn child_api(client: &Client, scope: Option<&str>, kind: ChildKind) -> Api<DynamicObject> {
    let (group, version) = match kind {
        ChildKind::Deployment => ("apps", "v1"),
        ChildKind::Service => ("", "v1"),
        ChildKind::Ingress => ("networking.k8s.io", "v1"),
    };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        },
        kind: kind.as_str().to_owned(),
        plural: kind.resource().to_owned(),
    };
    match scope {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
