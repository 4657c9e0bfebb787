//! Starts the parts of the operator, and ends them in order.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::FutureExt as _;
use futures::future::join_all;
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
use crate::reconcile::{app, podset};
use crate::runner::Runner;
use crate::server::{self, ProbeState};
use crate::settings::Settings;
use crate::stores::Stores;
use crate::telemetry::LogLevel;
use crate::webhook::admission::{Admission, router};
use crate::webhook::{Options, Webhook};

/// How long running work may take after SIGTERM. The Deployment allows 45 s.
const GRACE: Duration = Duration::from_secs(20);

/// How long webhooks are served after SIGTERM, until API servers send no more requests to this replica.
const WEBHOOK_GRACE: Duration = Duration::from_secs(3);

/// Returns the controllers of the operator: the list that everything else iterates over.
#[must_use]
pub fn controllers(deps: &Deps) -> Vec<Arc<dyn Controller>> {
    vec![
        Arc::new(app::Reconciler::new(deps)),
        Arc::new(podset::Reconciler::new(deps)),
    ]
}

/// Runs the operator until it receives a signal to end.
///
/// # Errors
/// Returns why it could not start: an address that is in use, invalid settings.
pub async fn run(settings: Settings, client: Client, level: LogLevel) -> anyhow::Result<()> {
    run_with(Stores::default(), controllers, settings, client, level).await
}

/// Like [`run`], with other controllers, and for apps with the kinds of children that `stores` caches.
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
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let timings = Timings::of(settings.leader_elect_lease_duration);
    let fence = if settings.leader_elect {
        Fence::closed(timings.grace)
    } else {
        Fence::open()
    };
    let probes = server::listen("--bind", settings.bind).await?;
    // Not fenced: a follower serves webhooks, too.
    let unfenced = Caller::new(client.clone(), metrics.clone(), Fence::open());
    let webhook = webhook(&settings, client.clone(), unfenced.clone()).await?;
    let leads = fence.clone();
    let election = settings
        .leader_elect
        .then(|| elector(&settings, timings, client.clone(), metrics.clone(), fence.clone()));
    let (elector, leadership) = election.map_or((None, Leadership::alone()), |(elector, leadership)| {
        (Some(Arc::new(elector)), leadership)
    });
    let mut election_task = elector
        .clone()
        .map(|elector| tokio::spawn(async move { elector.run().await }));
    let restraint = leadership.clone();
    let deps = Deps {
        caller: Caller::new(client.clone(), metrics.clone(), fence),
        stores,
        metrics: metrics.clone(),
        settings: settings.clone(),
    };
    let controllers = controllers(&deps).into_iter().map(Registered::new).map(Arc::new);
    let controllers: Arc<[Arc<Registered>]> = controllers.collect();
    let probe_state = ProbeState {
        controllers: controllers.clone(),
        metrics: metrics.clone(),
        fence: leads,
        certificate: webhook.as_ref().map(Webhook::served),
    };
    let mut serving = tokio::spawn(server::serve(probes, probe_state));
    serve_debug(&settings, level).await;
    info!(version = env!("CARGO_PKG_VERSION"), bind = %settings.bind, concurrency = settings.concurrency, "starting");
    let mut watches = tokio::spawn(watch_all(controllers.clone(), scopes(&settings, client)));
    let (running, mut ended) = mpsc::channel(1);
    let mut work = start(&controllers, &metrics, settings.concurrency, &restraint, running);
    let (end_webhooks, webhooks_end) = oneshot::channel();
    let mut webhook_task = admit(&deps, unfenced, webhook, webhooks_end);

    let reason = tokio::select! {
        _ = end.recv() => "SIGTERM".to_owned(),
        _ = interrupt.recv() => "SIGINT".to_owned(),
        // None of these ends by itself. Without one of them the operator would look healthy and do nothing: it is better to end, and
        // to be restarted.
        _ = &mut watches => bail!("the watches have ended; this is a bug, please report it"),
        Some(kind) = work.join_next() => {
            let kind = kind.unwrap_or("other kind");
            bail!("the reconciles of {kind}s have ended; this is a bug, please report it")
        }
        _ = &mut serving => bail!("the server of probes has ended; this is a bug, please report it"),
        ended = &mut webhook_task => {
            let why = ended.map_err(anyhow::Error::from).flatten().err();
            bail!("webhooks are no longer served: {}", why.map_or_else(String::new, |why| format!("{why:#}")))
        }
        // Cached objects may be outdated, and another replica reconciles now.
        () = leadership.lost() => bail!("another operator leads, or may do so by now; ending, to start as a follower"),
    };
    info!(reason, "ending: running reconciles are finished, no new one begins");
    watches.abort();
    controllers
        .iter()
        .for_each(|registered| registered.controller.queue().close());
    let webhooks_end_at = Instant::now() + WEBHOOK_GRACE;
    let finished = tokio::select! {
        finished = timeout(GRACE, ended.recv()) => Some(finished.is_ok()),
        () = second_signal(&mut end, &mut interrupt) => None,
    };
    if finished != Some(true) {
        abort(work, ended, finished.is_some()).await;
    }
    if let (Some(elector), Some(election_task)) = (elector, election_task.take()) {
        resign(&elector, election_task, finished == Some(true)).await;
    }
    if settings.webhooks && finished.is_some() {
        let part = async {
            sleep_until(webhooks_end_at).await;
            let _ = end_webhooks.send(());
            let _ = webhook_task.await;
        };
        tokio::select! {
            () = part => {}
            () = second_signal(&mut end, &mut interrupt) => {}
        }
    }
    Ok(())
}

/// Starts the reconciles of each controller, and returns the tasks with their kinds. `running` is dropped when all have ended.
fn start(
    controllers: &[Arc<Registered>],
    metrics: &Arc<Metrics>,
    concurrency: u16,
    leadership: &Leadership,
    running: mpsc::Sender<Infallible>,
) -> JoinSet<&'static str> {
    let mut work = JoinSet::new();
    for registered in controllers {
        let runner = Runner {
            registered: registered.clone(),
            metrics: metrics.clone(),
            concurrency,
            leadership: leadership.clone(),
            running: running.clone(),
        };
        let kind = registered.controller.kind();
        work.spawn(runner.run().map(move |()| kind));
    }
    work
}

/// Listens for reviews, if webhooks are enabled.
async fn webhook(settings: &Settings, client: Client, unfenced: Caller) -> anyhow::Result<Option<Webhook>> {
    match Options::of(settings) {
        Some(options) => Webhook::listen(options, client, unfenced).await.map(Some),
        None => Ok(None),
    }
}

/// Serves the debug address. The operator also runs if that fails.
async fn serve_debug(settings: &Settings, level: LogLevel) {
    match server::listen("--debug-bind", settings.debug_bind).await {
        Ok(listener) => drop(tokio::spawn(server::serve_debug(listener, level))),
        Err(error) => warn!(%error, "the log level can't be changed while running"),
    }
}

/// Aborts reconciles, and waits until none of them can write.
async fn abort(mut work: JoinSet<&'static str>, mut ended: mpsc::Receiver<Infallible>, is_late: bool) {
    if is_late {
        let seconds = GRACE.as_secs();
        warn!("running reconciles did not end within {seconds} s; the next start continues");
    }
    work.abort_all();
    let _ = ended.recv().await;
}

/// Ends the election. The API server may still carry out a write that was aborted, and no other replica may lead before that: then the
/// Lease is left to expire.
async fn resign(elector: &Elector, election_task: JoinHandle<()>, is_finished: bool) {
    election_task.abort();
    let _ = election_task.await;
    if is_finished {
        elector.release().await;
    }
}

async fn second_signal(end: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    warn!("received a second signal, ending immediately");
}

/// Returns the candidate of this process. Its name begins with that of its pod, and differs at each start.
fn elector(
    settings: &Settings,
    timings: Timings,
    client: Client,
    metrics: Arc<Metrics>,
    fence: Fence,
) -> (Elector, Leadership) {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "operator".into());
    let name = format!("{host}_{:08x}", fastrand::u32(..));
    let caller = Caller::new(client, metrics, Fence::open());
    Elector::new(caller, settings.namespace.clone(), name, timings, fence)
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

/// Runs the informers of all controllers. Never ends.
async fn watch_all(controllers: Arc<[Arc<Registered>]>, scopes: Scopes) {
    let informers = || controllers.iter().flat_map(|registered| &registered.informers);
    informers().for_each(|informer| informer.expect(&scopes));
    join_all(informers().map(|informer| informer.run(&scopes))).await;
}

/// Serves webhooks until `end`; without webhooks, does nothing and does not end.
fn admit(
    deps: &Deps,
    caller: Caller,
    webhook: Option<Webhook>,
    end: oneshot::Receiver<()>,
) -> JoinHandle<anyhow::Result<()>> {
    let Some(webhook) = webhook else {
        return tokio::spawn(std::future::pending());
    };
    let suffixes = deps.settings.allowed_host_suffix.clone();
    let admission = Admission::new(caller, deps.stores.clone(), suffixes);
    let end = async {
        // A sender that was dropped is the end, too.
        let _ = end.await;
    };
    tokio::spawn(webhook.run(router(admission), end))
}
