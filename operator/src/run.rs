//! Puts the parts together and ends them in order.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::IngressClass;
use kube::core::{DeserializeGuard, DynamicObject};
use kube::discovery::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use model::ChildKind;
use model::status::StatusOptions;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::call::Caller;
use crate::dispatch::dispatch;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::queue::{Queue, Urgency};
use crate::reconcile::Reconciler;
use crate::server::{self, Facts};
use crate::settings::{IngressAddress, Settings};
use crate::telemetry::LogLevel;
use crate::watch::{PAGE, Watch};
use crate::world::{self, World};

/// How long work that has begun may go on after SIGTERM. Kubernetes gives 30 s.
const GRACE: Duration = Duration::from_secs(20);

/// Runs the operator until it is told to end.
///
/// # Errors
/// Says what keeps it from starting: an address that is taken, settings that can't be used.
pub async fn run(settings: Settings, client: Client, level: LogLevel) -> anyhow::Result<()> {
    let world = Arc::new(World::default());
    let queue = Arc::new(Queue::default());
    let metrics = Arc::new(Metrics::default());
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let probes = server::listen("--bind", settings.bind).await?;
    let facts = Facts {
        world: world.clone(),
        queue: queue.clone(),
        metrics: metrics.clone(),
    };
    let mut serving = tokio::spawn(server::serve(probes, facts));
    match server::listen("--debug-bind", settings.debug_bind).await {
        Ok(listener) => drop(tokio::spawn(server::serve_debug(listener, level))),
        Err(error) => warn!(%error, "the log level can't be changed while running"),
    }
    info!(version = env!("CARGO_PKG_VERSION"), bind = %settings.bind, concurrency = settings.concurrency, "starting");

    let mut watches = tokio::spawn(watch_all(
        settings.clone(),
        client.clone(),
        world.clone(),
        queue.clone(),
    ));
    let reconciler = Arc::new(Reconciler {
        caller: Caller::new(client, metrics.clone()),
        world: world.clone(),
        queue: queue.clone(),
        metrics: metrics.clone(),
        options: StatusOptions {
            needs_address: settings.ingress_address == IngressAddress::Require,
        },
        memory: std::sync::Mutex::default(),
    });
    let mut work = tokio::spawn({
        let (world, queue) = (world.clone(), queue.clone());
        async move {
            // Before everything was seen, what is there already would be taken for missing. A kind that can't
            // be seen at all holds up nothing but itself.
            world.apps.health.synced().await;
            for (_, health) in world.watches() {
                health.settled().await;
            }
            info!("reconciling");
            for (index, (_, health)) in world.watches().iter().enumerate() {
                if !health.is_synced() {
                    tokio::spawn(sweep_when_synced(index, world.clone(), queue.clone()));
                }
            }
            dispatch(queue, settings.concurrency, metrics, move |key| {
                let reconciler = reconciler.clone();
                async move { reconciler.reconcile(key).await }
            })
            .await;
        }
    });

    let signal = tokio::select! {
        _ = end.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        // None of these ends by itself. Without one of them the operator would look well and do nothing: better
        // to end, and be started anew.
        _ = &mut watches => bail!("the watches have ended; this is a bug, please report it"),
        _ = &mut work => bail!("the reconciles have ended; this is a bug, please report it"),
        _ = &mut serving => bail!("the server of probes has ended; this is a bug, please report it"),
    };
    info!(signal, "ending: what has begun is finished, nothing new begins");
    watches.abort();
    queue.close();
    let finish = async {
        if world.apps.health.is_synced() {
            let _ = work.await;
        }
    };
    tokio::select! {
        ended = timeout(GRACE, finish) => if ended.is_err() {
            warn!("what had begun did not end within {} s; the next start takes it up", GRACE.as_secs());
        },
        _ = end.recv() => warn!("told twice, ending at once"),
        _ = interrupt.recv() => warn!("told twice, ending at once"),
    }
    Ok(())
}

/// Looks at every application again once a kind that could not be seen at the start can be seen.
async fn sweep_when_synced(index: usize, world: Arc<World>, queue: Arc<Queue<Key>>) {
    let (resource, health) = world.watches()[index];
    health.synced().await;
    info!(resource, "can be seen now");
    for app in world.apps.cache.keys() {
        queue.add(app, Urgency::Sweep);
    }
}

/// Watches every kind, in every namespace that is ours to look after.
async fn watch_all(settings: Settings, client: Client, world: Arc<World>, queue: Arc<Queue<Key>>) {
    let namespaces = settings.namespaces();
    let scopes: Vec<Option<&str>> = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces.into_iter().map(Some).collect()
    };
    for health in [
        &world.apps.health,
        &world.deployments.health,
        &world.services.health,
        &world.ingresses.health,
        &world.pods.health,
    ] {
        health.expect(scopes.len());
    }
    let wake = |apps: Vec<Key>, urgency: Urgency| {
        for app in apps {
            queue.add(app, urgency);
        }
    };
    // A class concerns every application, none in particular.
    let wake_all = |classes: Vec<Key>, _: Urgency| {
        if !classes.is_empty() {
            for app in world.apps.cache.keys() {
                queue.add(app, Urgency::Sweep);
            }
        }
    };
    let config = || watcher::Config::default().page_size(PAGE);
    let ours = format!("{}={}", crd::label::MANAGED_BY, crd::label::MANAGED_BY_VALUE);
    let resync = settings.resync_period;

    let each_scope = scopes.iter().map(|scope| {
        let (client, world, wake, ours) = (&client, &world, &wake, &ours);
        async move {
            let apps = Watch {
                resource: "appdeploys",
                api: api::<DeserializeGuard<crd::AppDeploy>>(client, *scope),
                scope: *scope,
                config: config(),
                resync,
                kind: &world.apps,
                reduce: |object| Some(world::root(object)),
                wake,
                on_vanish: None,
            };
            let children = ChildKind::ALL.map(|kind| Watch {
                resource: kind.resource(),
                api: child_api(client, *scope, kind),
                scope: *scope,
                config: config().labels(ours),
                resync,
                kind: world.children(kind),
                reduce: match kind {
                    ChildKind::Deployment => |object| Some(world::child(ChildKind::Deployment, &object)),
                    ChildKind::Service => |object| Some(world::child(ChildKind::Service, &object)),
                    ChildKind::Ingress => |object| Some(world::child(ChildKind::Ingress, &object)),
                },
                wake,
                on_vanish: None,
            });
            let pods = Watch {
                resource: "pods",
                api: api::<DeserializeGuard<Pod>>(client, *scope),
                scope: *scope,
                config: config().labels(crd::label::APP),
                resync,
                kind: &world.pods,
                reduce: world::pod,
                wake,
                on_vanish: None,
            };
            tokio::join!(apps.run(), join_all(children.map(Watch::run)), pods.run());
        }
    });
    let classes = Watch {
        resource: "ingressclasses",
        api: Api::<IngressClass>::all(client.clone()),
        scope: None,
        config: config(),
        resync,
        kind: &world.ingress_classes,
        reduce: |class| Some(world::ingress_class(&class)),
        wake: &wake_all,
        on_vanish: None,
    };
    tokio::join!(join_all(each_scope), classes.run());
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
