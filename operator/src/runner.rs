//! Runs one controller: waits until what it watches was listed, then reconciles the objects in its queue. A controller never
//! waits for another one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use tokio::time::sleep;
use tracing::info;

use crate::controller::{Controller, Registered};
use crate::dispatch::{Running, dispatch};
use crate::informer::{Informer, Need};
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::open_namespaces::OpenNamespaces;
use crate::queue::Priority;
use crate::watch::{Health, Scope};

/// How often it is checked whether a watch has failed, which no event reports.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Runs one controller.
pub struct Runner {
    /// The controller, and what it watches.
    pub registered: Arc<Registered>,
    /// Counts its reconciles.
    pub metrics: Arc<Metrics>,
    /// How many objects are reconciled concurrently.
    pub concurrency: u16,
    /// Whether this operator leads.
    pub leadership: Leadership,
    /// Held while reconciles run.
    pub running: Running,
}

impl Runner {
    /// Reconciles until the queue is closed, and then until the reconciles that have begun have ended.
    pub async fn run(self) {
        let controller = self.controller().clone();
        let counted = self.metrics.controller(controller.name());
        counted.works_at_most(self.concurrency);
        let ready = async {
            self.synced(Informer::is_for_new_objects).await;
            // A follower is warm: its caches are complete, and what has changed waits in its queue. But the former leader may
            // have acted on newer objects than its watches have reported.
            let since = self.leadership.acquired().await;
            for watched in self.watches().filter(|watched| watched.need() != Need::Helps) {
                watched.health().demand(since);
            }
            self.synced(Informer::is_for_new_objects).await;
        };
        let queue = controller.queue().clone();
        tokio::select! {
            () = ready => {}
            () = queue.closed() => return,
        }
        queue.open();
        let open = Arc::new(OpenNamespaces::default());
        let resyncs = async {
            self.synced(|_| true).await;
            info!(kind = self.controller().kind(), "reconciling");
            let (seen, late): (Vec<Scope>, Vec<Scope>) = {
                let scopes = self.scopes().into_iter();
                scopes.partition(|scope| self.synced_in(scope.as_deref()).now_or_never().is_some())
            };
            for scope in seen {
                self.open(scope, &open);
            }
            tokio::join!(
                join_all(late.into_iter().map(|scope| self.open_when_synced(scope, &open))),
                self.resync_when_listed(),
                self.resync_when_outdated()
            );
        };
        let work = dispatch(
            controller,
            open.clone(),
            self.concurrency,
            counted,
            self.running.clone(),
        );
        tokio::select! {
            () = work => {}
            () = resyncs => {}
        }
    }

    fn controller(&self) -> &Arc<dyn Controller> {
        &self.registered.controller
    }

    /// Returns the health of the watch of the reconciled objects, if there is one.
    fn primary(&self) -> Option<&Health> {
        self.registered.informers.first().map(Informer::health)
    }

    fn scopes(&self) -> Vec<Scope> {
        self.primary().map(Health::scopes).unwrap_or_default()
    }

    /// Waits until the reconciled objects were listed, and everything that `counts`. Before that, existing objects would count as
    /// missing. A kind of child that can't be listed delays only itself, and a namespace that must not be read does not delay
    /// others.
    async fn synced(&self, counts: fn(&Informer) -> bool) {
        if let Some(primary) = self.primary() {
            primary.usable().await;
        }
        for watched in self.watches().filter(|watched| counts(watched)) {
            watched.health().settled().await;
        }
    }

    async fn synced_in(&self, scope: Option<&str>) {
        if let Some(primary) = self.primary() {
            primary.listed_in(scope).await;
        }
        for watched in self.watches() {
            watched.health().settled_in(scope).await;
        }
    }

    /// Opens a namespace that could not be read at the start.
    async fn open_when_synced(&self, scope: Scope, open: &OpenNamespaces) {
        self.synced_in(scope.as_deref()).await;
        info!(kind = self.controller().kind(), namespace = scope, "can be read now");
        self.open(scope, open);
    }

    fn open(&self, scope: Scope, open: &OpenNamespaces) {
        for key in open.open(scope) {
            self.controller().queue().add(key, Priority::Resync);
        }
    }

    /// Reconciles each object again once a watch has listed that had not listed at the start.
    async fn resync_when_listed(&self) {
        let scopes = self.scopes();
        let all = self
            .watches()
            .flat_map(|watched| scopes.iter().map(move |scope| (watched, scope.as_deref())));
        let late = all.filter(|(watched, scope)| !watched.health().is_listed(*scope));
        join_all(late.map(|(watched, scope)| async move {
            watched.health().listed_in(scope).await;
            info!(resource = watched.resource(), namespace = scope, "can be listed now");
            self.resync(scope);
        }))
        .await;
    }

    /// Reconciles objects again when a watch they depend on is denied or its kind is no longer served, and when it works again.
    /// Neither is an event: such a watch reports nothing, and one that works again reports only changes.
    async fn resync_when_outdated(&self) {
        let scopes = self.scopes();
        let outdated = || -> BTreeSet<(&'static str, Option<&str>)> {
            let all = self
                .watches()
                .flat_map(|watched| scopes.iter().map(move |scope| (watched, scope.as_deref())));
            let outdated = all.filter(|(watched, scope)| watched.health().outdated(*scope).is_some());
            outdated.map(|(watched, scope)| (watched.resource(), scope)).collect()
        };
        let options = || -> Vec<Option<(bool, u64)>> { self.watches().map(Informer::option).collect() };
        let (mut known, mut known_options) = (BTreeSet::new(), options());
        loop {
            sleep(POLL_INTERVAL).await;
            // A kind can be removed and installed again between two polls.
            let now = options();
            if known_options != now {
                info!("the server serves other optional kinds");
                self.resync(None);
                known_options = now;
            }
            let now = outdated();
            for (resource, scope) in known.symmetric_difference(&now) {
                if now.contains(&(*resource, *scope)) {
                    info!(resource, namespace = scope, "can't be listed any more");
                } else {
                    info!(resource, namespace = scope, "can be listed again");
                }
                self.resync(*scope);
            }
            known = now;
        }
    }

    fn resync(&self, scope: Option<&str>) {
        let keys = self.controller().keys().into_iter();
        for key in keys.filter(|key| key.is_in(scope)) {
            self.controller().queue().add(key, Priority::Resync);
        }
    }

    fn watches(&self) -> impl Iterator<Item = &Informer> {
        self.registered.informers.iter()
    }
}
