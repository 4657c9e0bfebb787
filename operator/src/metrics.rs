//! What is counted, under the names that dashboards for controllers already know. `docs/metrics.md` says what each means;
//! a test holds the two together.

mod labels;
mod outcome;
mod process;
mod register;
mod state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::controller::Queues;
use crate::lease;
use crate::primary::Primary;
use crate::queue::{Meter, Work};
use crate::world::{Watched, World};
pub use outcome::Outcome;
pub use state::State;

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All that is counted. What is counted while work goes on was made before: no label is looked up, and each series is
/// there from the start, so that its first increase is one.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    apps: Counted,
    podsets: Counted,
    requests: Family<labels::Request, Counter>,
    latencies: Histograms<labels::Verb>,
    failures: Family<labels::Failure, Counter>,
    watch_errors: Family<labels::Resource, Counter>,
    watch_lists: Family<labels::Resource, Counter>,
    synced: Family<labels::Resource, Gauge>,
    failing: Family<labels::Resource, Gauge>,
    cached: Family<labels::Resource, Gauge>,
    objects: Family<labels::Objects, Gauge>,
    leader: Family<labels::Name, Gauge>,
    certificate: Family<labels::Sole, Gauge>,
}

/// What is counted of one kind.
#[derive(Debug)]
struct Counted {
    results: [Counter; Outcome::ALL.len()],
    errors: Counter,
    terminal: Counter,
    timeouts: Counter,
    panics: Counter,
    time: Histogram,
    most: Gauge,
    active: Gauge,
    depth: Gauge,
    retries: Counter,
    unfinished: Gauge<f64, AtomicU64>,
    longest: Gauge<f64, AtomicU64>,
    meter: Meter,
}

impl Metrics {
    /// Counts a reconcile of an object of a kind.
    pub fn reconciled(&self, kind: crd::Kind, outcome: Outcome, took: Duration) {
        let counted = self.of(kind);
        counted.results[outcome as usize].inc();
        counted.time.observe(took.as_secs_f64());
        if outcome != Outcome::Success {
            counted.errors.inc();
        }
        match outcome {
            Outcome::Success | Outcome::Error => {}
            Outcome::Terminal => drop(counted.terminal.inc()),
            Outcome::Timeout => drop(counted.timeouts.inc()),
            Outcome::Panic => drop(counted.panics.inc()),
        }
    }

    /// Counts that an object of a kind will be tried again, because something failed.
    pub fn retried(&self, kind: crd::Kind) {
        self.of(kind).retries.inc();
    }

    /// Takes in how many objects of a kind are worked on at a time at most.
    pub fn works_at_most(&self, kind: crd::Kind, concurrency: u16) {
        self.of(kind).most.set(concurrency.into());
    }

    /// Returns what the queue of a kind is to count in.
    #[must_use]
    pub fn meter(&self, kind: crd::Kind) -> Meter {
        self.of(kind).meter.clone()
    }

    /// Counts a request, and how long its answer took.
    pub fn request(&self, verb: &'static str, resource: &'static str, took: Duration) {
        self.requests.get_or_create(&labels::Request { verb, resource }).inc();
        self.latencies
            .get_or_create(&labels::Verb { verb })
            .observe(took.as_secs_f64());
    }

    /// Counts a failure of an object of a kind.
    pub fn failed(&self, kind: crd::Kind, class: &'static str) {
        let controller = kind.singular();
        self.failures
            .get_or_create(&labels::Failure { controller, class })
            .inc();
    }

    /// Takes in whether this operator leads.
    pub fn leads(&self, is: bool) {
        let labels = labels::Name { name: lease::NAME };
        self.leader.get_or_create(&labels).set(is.into());
    }

    /// Takes in when the certificate of webhooks ends to be valid, in seconds since 1970, if there is one.
    pub fn certificate_expires_at(&self, seconds: Option<i64>) {
        match seconds {
            Some(seconds) => drop(self.certificate.get_or_create(&labels::Sole {}).set(seconds)),
            None => self.certificate.clear(),
        }
    }

    /// Returns everything in the `OpenMetrics` text format, with the state of this moment.
    #[must_use]
    pub fn render(&self, world: &World, queues: &Queues) -> String {
        for kind in crd::Kind::ALL {
            let (counted, queue) = (self.of(kind), queues.of(kind));
            let Work {
                running,
                unfinished,
                longest,
            } = queue.work();
            counted.depth.set(gauge(queue.depth()));
            counted.active.set(gauge(running));
            counted.unfinished.set(unfinished.as_secs_f64());
            counted.longest.set(longest.as_secs_f64());
        }
        world.watches().into_iter().for_each(|watched| self.look_at(watched));
        self.count_states::<crd::AppDeploy>(world);
        self.count_states::<crd::PodSet>(world);
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn look_at(&self, watched: Watched<'_>) {
        let Watched { resource, health, .. } = watched;
        let labels = labels::Resource { resource };
        self.synced.get_or_create(&labels).set(health.is_synced().into());
        self.failing.get_or_create(&labels).set(health.error().is_some().into());
        self.cached.get_or_create(&labels).set(gauge(watched.objects));
        // The watch counts by itself; both only grow.
        let take_over = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        take_over(&self.watch_errors.get_or_create(&labels), health.errors());
        take_over(&self.watch_lists.get_or_create(&labels), health.lists());
    }

    fn count_states<K: Primary>(&self, world: &World) {
        let mut counts = State::ALL.map(|_| 0);
        K::known(world)
            .cache
            .for_each(|root| counts[State::of(root) as usize] += 1);
        for (state, count) in State::ALL.into_iter().zip(counts) {
            let labels = labels::Objects {
                controller: K::KIND.singular(),
                state: state.as_str(),
            };
            self.objects.get_or_create(&labels).set(count);
        }
    }

    const fn of(&self, kind: crd::Kind) -> &Counted {
        match kind {
            crd::Kind::AppDeploy => &self.apps,
            crd::Kind::PodSet => &self.podsets,
        }
    }
}

fn gauge(count: usize) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
