//! Starts the tasks of the operator, and shuts them down in order.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::FutureExt as _;
use kube::Client;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use crate::call::Caller;
use crate::controller::{Controller, Registered};
use crate::deps::Deps;
use crate::informer::Scopes;
use crate::lease::election::Timings;
use crate::lease::{Elector, Fence, Leadership};
use crate::metrics::Metrics;
use crate::reconcile::{app, podset, queue};
use crate::runner::Runner;
use crate::server::{self, ProbeState};
use crate::settings::Settings;
use crate::stores::Stores;
use crate::telemetry::LogLevel;
use crate::webhook::admission::{Admission, router};
use crate::webhook::{Options, Webhook};

/// How long running reconciles may take after SIGTERM. `terminationGracePeriodSeconds` of the Deployment is 45.
const GRACE: Duration = Duration::from_secs(20);

/// How long webhooks are served after SIGTERM. After this time, this replica is no longer an endpoint of the webhook Service.
const WEBHOOK_GRACE: Duration = Duration::from_secs(3);

/// How long an informer waits for those that list before it.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Returns the controllers of the operator. Queues, watches, metrics and probes follow from this list.
#[must_use]
pub fn controllers(deps: &Deps) -> Vec<Arc<dyn Controller>> {
    vec![
        Arc::new(app::Reconciler::new(deps)),
        Arc::new(podset::Reconciler::new(deps)),
        Arc::new(queue::Reconciler::new(deps)),
    ]
}

/// Runs the operator until it receives SIGTERM or SIGINT.
///
/// # Errors
/// When it can't start, because an address is in use or a setting is invalid, and when it loses the Lease.
pub async fn run(settings: Settings, client: Client, level: LogLevel) -> anyhow::Result<()> {
    run_with(Stores::default(), controllers, settings, client, level).await
}

/// Like [`run`], with the given controllers. The kinds of children of apps are those that `stores` caches.
///
/// # Errors
/// Like those of [`run`].
pub async fn run_with(
    stores: Stores,
    controllers: impl FnOnce(&Deps) -> Vec<Arc<dyn Controller>>,
    settings: Settings,
    client: Client,
    level: LogLevel,
) -> anyhow::Result<()> {
    let stores = Arc::new(stores);
    let metrics = Arc::new(Metrics::default());
    let mut sigterm = signal(SignalKind::terminate())?;
    let mut sigint = signal(SignalKind::interrupt())?;

    let timings = Timings::of(settings.leader_elect_lease_duration);
    let fence = if settings.leader_elect {
        Fence::closed(timings.grace)
    } else {
        Fence::open()
    };
    let probes = server::listen("--bind", settings.bind)?;
    // Webhooks are not fenced: all replicas serve them.
    let unfenced = Caller::new(client.clone(), metrics.clone(), Fence::open());
    let webhook = listen_for_reviews(&settings, client.clone(), unfenced.clone())?;
    let election = settings
        .leader_elect
        .then(|| elector(&settings, timings, client.clone(), metrics.clone(), fence.clone()));
    let (elector, leadership) = election.map_or((None, Leadership::alone()), |(elector, leadership)| {
        (Some(Arc::new(elector)), leadership)
    });
    let mut election_task = elector
        .clone()
        .map(|elector| tokio::spawn(async move { elector.run().await }));
    let deps = Deps {
        caller: Caller::new(client.clone(), metrics.clone(), fence.clone()),
        stores,
        metrics: metrics.clone(),
        settings: settings.clone(),
    };
    let controllers = controllers(&deps).into_iter().map(Registered::new).map(Arc::new);
    let controllers: Arc<[Arc<Registered>]> = controllers.collect();
    let probe_state = ProbeState {
        controllers: controllers.clone(),
        metrics: metrics.clone(),
        fence,
        certificate: webhook.as_ref().map(Webhook::served),
    };
    let mut serving = tokio::spawn(server::serve(probes, probe_state));
    serve_debug(&settings, level);
    info!(version = env!("CARGO_PKG_VERSION"), bind = %settings.bind, concurrency = settings.concurrency, "starting");
    let mut watches = tokio::spawn(watch_all(
        controllers.clone(),
        scopes(&settings, client),
        leadership.clone(),
    ));
    let (running, mut all_ended) = mpsc::channel(1);
    let mut runners = start_runners(&controllers, &metrics, settings.concurrency, &leadership, running);
    let (stop_webhooks, webhooks_stopped) = oneshot::channel();
    let mut webhook_task = serve_webhooks(&deps, unfenced, webhook, webhooks_stopped);

    let reason = tokio::select! {
        _ = sigterm.recv() => "SIGTERM",
        _ = sigint.recv() => "SIGINT",
        // None of these tasks should end. Without one of them the operator would do only a part of its work, so it exits and is
        // restarted.
        _ = &mut watches => bail!("the watches have ended; this is a bug, please report it"),
        Some(kind) = runners.join_next() => {
            let kind = kind.unwrap_or("other kind");
            bail!("the reconciles of {kind}s have ended; this is a bug, please report it")
        }
        _ = &mut serving => bail!("the server of probes has ended; this is a bug, please report it"),
        result = &mut webhook_task => {
            let why = result.map_err(anyhow::Error::from).flatten().err();
            bail!("webhooks are no longer served: {}", why.map_or_else(String::new, |why| format!("{why:#}")))
        }
        // Cached objects may be outdated, and another replica reconciles now.
        () = leadership.lost() => bail!("lost the Lease: another operator leads or may lead; exiting to restart as a follower"),
    };
    info!(reason, "shutting down: finishing the running reconciles");
    watches.abort();
    controllers
        .iter()
        .for_each(|registered| registered.controller.queue().close());
    let webhooks_end_at = Instant::now() + WEBHOOK_GRACE;
    let finished = tokio::select! {
        finished = timeout(GRACE, all_ended.recv()) => Some(finished.is_ok()),
        () = second_signal(&mut sigterm, &mut sigint) => None,
    };
    if finished != Some(true) {
        abort(runners, all_ended, finished.is_some()).await;
    }
    if let (Some(elector), Some(election_task)) = (elector, election_task.take()) {
        resign(&elector, election_task, finished == Some(true)).await;
    }
    if settings.webhooks && finished.is_some() {
        let webhooks_ended = async {
            sleep_until(webhooks_end_at).await;
            let _ = stop_webhooks.send(());
            let _ = webhook_task.await;
        };
        tokio::select! {
            () = webhooks_ended => {}
            () = second_signal(&mut sigterm, &mut sigint) => {}
        }
    }
    Ok(())
}

/// Starts a runner for each controller. A task that ends returns the kind of its controller. Each reconcile has a clone of
/// `running`, so its channel closes when the last one has ended.
fn start_runners(
    controllers: &[Arc<Registered>],
    metrics: &Arc<Metrics>,
    concurrency: u16,
    leadership: &Leadership,
    running: mpsc::Sender<Infallible>,
) -> JoinSet<&'static str> {
    let mut tasks = JoinSet::new();
    for registered in controllers {
        let runner = Runner {
            registered: registered.clone(),
            metrics: metrics.clone(),
            concurrency,
            leadership: leadership.clone(),
            running: running.clone(),
        };
        let kind = registered.controller.kind();
        tasks.spawn(runner.run().map(move |()| kind));
    }
    tasks
}

/// Opens the port for admission reviews, if webhooks are enabled.
fn listen_for_reviews(settings: &Settings, client: Client, unfenced: Caller) -> anyhow::Result<Option<Webhook>> {
    match Options::of(settings) {
        Some(options) => Webhook::listen(options, client, unfenced).map(Some),
        None => Ok(None),
    }
}

/// Serves the debug address. If that fails, the operator runs without it.
fn serve_debug(settings: &Settings, level: LogLevel) {
    match server::listen("--debug-bind", settings.debug_bind) {
        Ok(listener) => drop(tokio::spawn(server::serve_debug(listener, level))),
        Err(error) => warn!(%error, "the log level can't be changed while running"),
    }
}

/// Aborts the running reconciles, and waits until none of them can send a write.
async fn abort(mut runners: JoinSet<&'static str>, mut all_ended: mpsc::Receiver<Infallible>, is_late: bool) {
    if is_late {
        let seconds = GRACE.as_secs();
        warn!("running reconciles did not end within {seconds} s; the next start continues");
    }
    runners.abort_all();
    let _ = all_ended.recv().await;
}

/// Ends the election, and releases the Lease if all reconciles have finished. Otherwise the API server may still process an aborted
/// write, so the Lease is left to expire before another replica leads.
async fn resign(elector: &Elector, election_task: JoinHandle<()>, is_finished: bool) {
    election_task.abort();
    let _ = election_task.await;
    if is_finished {
        elector.release().await;
    }
}

async fn second_signal(sigterm: &mut Signal, sigint: &mut Signal) {
    tokio::select! {
        _ = sigterm.recv() => {}
        _ = sigint.recv() => {}
    }
    warn!("received a second signal: exiting immediately");
}

/// Returns the leader elector of this process. Its identity is the name of the pod with its UID or, outside of a pod, with a random
/// suffix: two processes on one machine are two candidates.
fn elector(
    settings: &Settings,
    timings: Timings,
    client: Client,
    metrics: Arc<Metrics>,
    fence: Fence,
) -> (Elector, Leadership) {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "operator".into());
    let suffix = settings
        .pod_uid
        .clone()
        .unwrap_or_else(|| format!("{:08x}", fastrand::u32(..)));
    let identity = format!("{host}_{suffix}");
    Elector::new(client, metrics, settings.namespace.clone(), identity, timings, fence)
}

/// Returns the namespaces to watch.
fn scopes(settings: &Settings, client: Client) -> Scopes {
    let namespaces = settings.namespaces();
    let scopes = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces
            .into_iter()
            .map(|namespace| Some(namespace.to_owned()))
            .collect()
    };
    Scopes {
        client,
        scopes,
        resync: settings.resync_period,
    }
}

/// Runs the informers of all controllers, each in a task of its own. Does not return. They begin after the first attempt to acquire
/// the Lease: an operator that leads from the start then lists once. Those that new objects wait for begin before the others, which
/// would take processor time and bandwidth from them. Of these, two list at a time: more would not be faster.
async fn watch_all(controllers: Arc<[Arc<Registered>]>, scopes: Scopes, leadership: Leadership) {
    let all = controllers.iter().flat_map(|registered| &registered.informers);
    all.for_each(|informer| informer.expect(&scopes));
    leadership.attempted().await;
    let mut tasks = JoinSet::new();
    for registered in controllers.iter() {
        for index in 0..registered.informers.len() {
            let (registered, scopes) = (registered.clone(), scopes.clone());
            tasks.spawn(async move {
                let _ = timeout(MAX_WAIT, registered.turn(index)).await;
                registered.informers[index].run(&scopes).await;
            });
        }
    }
    tasks.join_next().await;
}

/// Serves webhooks until `stop` is sent. If webhooks are disabled, the task does nothing and does not end.
fn serve_webhooks(
    deps: &Deps,
    caller: Caller,
    webhook: Option<Webhook>,
    stop: oneshot::Receiver<()>,
) -> JoinHandle<anyhow::Result<()>> {
    let Some(webhook) = webhook else {
        return tokio::spawn(std::future::pending());
    };
    let suffixes = deps.settings.allowed_host_suffix.clone();
    let mut admission = Admission::new(caller, deps.stores.clone(), suffixes);
    admission.watches_config_maps = deps.settings.watch_configmaps;
    let stop = async {
        // A dropped sender also stops the server.
        let _ = stop.await;
    };
    tokio::spawn(webhook.run(router(admission), stop))
}
