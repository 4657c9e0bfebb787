//! One primary kind at work: it waits until what it needs was seen, then has its queue worked on. A kind never
//! waits for another one.

use std::future::{Future, pending};
use std::sync::Arc;

use futures::future::join_all;
use tracing::info;

use crate::dispatch::{Verdict, dispatch};
use crate::key::Key;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::queue::{Queue, Urgency};
use crate::world::{Watched, World};

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
}

impl Controller {
    /// Runs until the queue is closed, and then until the work that has begun has ended.
    pub async fn run<W, F>(self, work: W)
    where
        W: Fn(Key) -> F + Send + Sync + 'static,
        F: Future<Output = Verdict> + Send + 'static,
    {
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
        let sweeps = async {
            let late = self.watches().filter(|watched| !watched.health.is_synced());
            join_all(late.map(|watched| self.sweep_when_synced(watched))).await;
            pending::<()>().await;
        };
        tokio::select! {
            () = dispatch(self.kind, self.queue.clone(), self.concurrency, self.metrics.clone(), work) => {}
            () = sweeps => {}
        }
    }

    /// Before everything was seen, what is there already would be taken for missing. A kind of child that can't be
    /// seen at all holds up nothing but itself.
    async fn seen(&self) {
        self.world.health(self.kind).synced().await;
        for watched in self.watches() {
            watched.health.settled().await;
        }
    }

    /// Looks at every object again once a watch that had nothing to tell at the start has.
    async fn sweep_when_synced(&self, watched: Watched<'_>) {
        watched.health.synced().await;
        info!(resource = watched.resource, "can be seen now");
        for key in self.world.keys(self.kind) {
            self.queue.add(key, Urgency::Sweep);
        }
    }

    fn watches(&self) -> impl Iterator<Item = Watched<'_>> {
        let kind = self.kind;
        let all = self.world.watches().into_iter();
        all.filter(move |watched| watched.controller == kind)
    }
}
