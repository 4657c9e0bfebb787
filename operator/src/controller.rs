//! One primary kind at work: it waits until what it needs was seen, then has its queue worked on. A kind never
//! waits for another one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use model::Failure;
use tokio::time::sleep;
use tracing::info;

use crate::dispatch::{Reconcile, Running, Verdict, dispatch};
use crate::key::Key;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::queue::{Queue, Urgency};
use crate::watch::Scope;
use crate::world::{Watched, World};

/// The time between two looks at what only time changes.
const GLANCE: Duration = Duration::from_secs(5);

/// The queue of each primary kind.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    /// That of AppDeploys.
    pub apps: Arc<Queue<Key>>,
    /// That of PodSets.
    pub podsets: Arc<Queue<Key>>,
}

impl Queues {
    /// Makes empty ones that count in these metrics.
    #[must_use]
    pub fn counted_by(metrics: &Metrics) -> Self {
        Self {
            apps: Arc::new(Queue::counted(metrics.meter(crd::Kind::AppDeploy))),
            podsets: Arc::new(Queue::counted(metrics.meter(crd::Kind::PodSet))),
        }
    }

    /// Returns the queue of a kind.
    #[must_use]
    pub const fn of(&self, kind: crd::Kind) -> &Arc<Queue<Key>> {
        match kind {
            crd::Kind::AppDeploy => &self.apps,
            crd::Kind::PodSet => &self.podsets,
        }
    }

    /// Lets all work end.
    pub fn close(&self) {
        for kind in crd::Kind::ALL {
            self.of(kind).close();
        }
    }
}

/// What the work on a primary kind needs.
pub struct Controller {
    /// The kind.
    pub kind: crd::Kind,
    /// What is known.
    pub world: Arc<World>,
    /// Which of its objects are to be looked at.
    pub queue: Arc<Queue<Key>>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How many are worked on at a time.
    pub concurrency: u16,
    /// Whether this operator is to do the work.
    pub leadership: Leadership,
    /// Held as long as it reconciles.
    pub running: Running,
}

impl Controller {
    /// Runs until the queue is closed, and then until the work that has begun has ended.
    pub async fn run<R: Reconcile>(self, reconciler: R) {
        self.metrics.works_at_most(self.kind, self.concurrency);
        let ready = async {
            self.seen().await;
            // A follower is warm: it has seen everything, and what has changed waits in its queue.
            self.leadership.acquired().await;
        };
        tokio::select! {
            () = ready => {}
            () = self.queue.closed() => return,
        }
        info!(kind = %self.kind, "reconciling");
        let open = Arc::new(Open::default());
        let (seen, late): (Vec<Scope>, Vec<Scope>) = {
            let scopes = self.world.health(self.kind).scopes().into_iter();
            scopes.partition(|scope| self.seen_in(scope.as_deref()).now_or_never().is_some())
        };
        for scope in seen {
            open.add(scope);
        }
        let sweeps = async {
            tokio::join!(
                join_all(late.into_iter().map(|scope| self.open_when_seen(scope, &open))),
                self.sweep_when_listed(),
                self.sweep_when_outdated()
            );
        };
        let reconciler = Arc::new(Opened {
            open: open.clone(),
            reconciler,
        });
        let (queue, metrics, running) = (self.queue.clone(), self.metrics.clone(), self.running.clone());
        tokio::select! {
            () = dispatch(self.kind, queue, self.concurrency, metrics, running, reconciler) => {}
            () = sweeps => {}
        }
    }

    /// Before everything was seen, what is there already would be taken for missing. A kind of child that can't be
    /// seen at all holds up nothing but itself, and a namespace that may not be read no other one.
    async fn seen(&self) {
        self.world.health(self.kind).usable().await;
        for watched in self.watches() {
            watched.health.settled().await;
        }
    }

    async fn seen_in(&self, scope: Option<&str>) {
        self.world.health(self.kind).listed_in(scope).await;
        for watched in self.watches() {
            watched.health.settled_in(scope).await;
        }
    }

    /// Opens a namespace that could not be read at the start.
    async fn open_when_seen(&self, scope: Scope, open: &Open) {
        self.seen_in(scope.as_deref()).await;
        info!(kind = %self.kind, namespace = scope, "can be read now");
        open.add(scope.clone());
        self.sweep(scope.as_deref());
    }

    /// Looks again at every object once a watch that had nothing to tell at the start has.
    async fn sweep_when_listed(&self) {
        let scopes = self.world.health(self.kind).scopes();
        let all = self
            .watches()
            .flat_map(|watched| scopes.iter().map(move |scope| (watched, scope.as_deref())));
        let late = all.filter(|(watched, scope)| !watched.health.is_listed(*scope));
        join_all(late.map(|(watched, scope)| async move {
            watched.health.listed_in(scope).await;
            info!(resource = watched.resource, namespace = scope, "can be seen now");
            self.sweep(scope);
        }))
        .await;
    }

    /// Looks again at what is told by what is not shown any more, and again when it is. Nobody tells either: a watch that
    /// is denied has nothing to tell, and one that has begun again tells what has changed.
    async fn sweep_when_outdated(&self) {
        let scopes = self.world.health(self.kind).scopes();
        let outdated = || -> BTreeSet<(&'static str, Option<&str>)> {
            let all = self
                .watches()
                .flat_map(|watched| scopes.iter().map(move |scope| (watched, scope.as_deref())));
            let outdated = all.filter(|(watched, scope)| watched.health.outdated(*scope).is_some());
            outdated.map(|(watched, scope)| (watched.resource, scope)).collect()
        };
        let mut known = BTreeSet::new();
        loop {
            sleep(GLANCE).await;
            let now = outdated();
            for (resource, scope) in known.symmetric_difference(&now) {
                if now.contains(&(*resource, *scope)) {
                    info!(resource, namespace = scope, "can't be seen any more");
                } else {
                    info!(resource, namespace = scope, "can be seen again");
                }
                self.sweep(*scope);
            }
            known = now;
        }
    }

    fn sweep(&self, scope: Option<&str>) {
        let keys = self.world.keys(self.kind).into_iter();
        for key in keys.filter(|key| key.is_in(scope)) {
            self.queue.add(key, Urgency::Sweep);
        }
    }

    fn watches(&self) -> impl Iterator<Item = Watched<'_>> {
        let kind = self.kind;
        let all = self.world.watches().into_iter();
        all.filter(move |watched| watched.controller == kind)
    }
}

/// Reconciles the objects of namespaces that were seen.
struct Opened<R> {
    open: Arc<Open>,
    reconciler: R,
}

impl<R: Reconcile> Reconcile for Opened<R> {
    async fn reconcile(&self, key: Key) -> Verdict {
        if self.open.holds(&key) {
            self.reconciler.reconcile(key).await
        } else {
            // It is reconciled when its namespace is opened.
            Verdict::Settled
        }
    }

    async fn report(&self, key: &Key, failure: Failure) {
        self.reconciler.report(key, failure).await;
    }
}

/// The namespaces that were seen, with all that belongs to their objects as far as it can be. Before a list is complete,
/// nobody knows who else claims a host.
#[derive(Debug, Default)]
struct Open(Mutex<Vec<Scope>>);

impl Open {
    fn add(&self, scope: Scope) {
        self.lock().push(scope);
    }

    fn holds(&self, key: &Key) -> bool {
        self.lock().iter().any(|scope| key.is_in(scope.as_deref()))
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Vec<Scope>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
