//! Metrics, with the names that dashboards for controllers use. `docs/metrics.md` describes each; a test compares the two.

mod labels;
mod outcome;
mod process;
mod register;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::controller::{Controller, Registered};
use crate::informer::Informer;
use crate::key::Key;
use crate::lease;
use crate::primary::ReadyState;
use crate::queue::{Meter, Queue, Work};
pub use outcome::Outcome;
use register::Controllers;

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics. The series of controllers exist from the start: no label is looked up during a reconcile, and the first increase is one.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    controllers: Controllers,
    requests: Family<labels::Request, Counter>,
    latencies: Histograms<labels::Verb>,
    failures: Family<labels::Failure, Counter>,
    watch_errors: Family<labels::Resource, Counter>,
    watch_lists: Family<labels::Resource, Counter>,
    synced: Family<labels::Resource, Gauge>,
    failing: Family<labels::Resource, Gauge>,
    cached: Family<labels::Resource, Gauge>,
    objects: Family<labels::Objects, Gauge>,
    queue_calls: Family<labels::QueueCall, Counter>,
    queue_drift: Family<labels::Drift, Counter>,
    leader: Family<labels::Name, Gauge>,
    certificate: Family<labels::Sole, Gauge>,
}

/// What is counted of one controller.
#[derive(Debug)]
pub struct Counted {
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

impl Counted {
    /// Counts a reconcile.
    pub fn reconciled(&self, outcome: Outcome, took: Duration) {
        self.results[outcome as usize].inc();
        self.time.observe(took.as_secs_f64());
        if outcome != Outcome::Success {
            self.errors.inc();
        }
        match outcome {
            Outcome::Success | Outcome::Error => {}
            Outcome::Terminal => drop(self.terminal.inc()),
            Outcome::Timeout => drop(self.timeouts.inc()),
            Outcome::Panic => drop(self.panics.inc()),
        }
    }

    /// Counts that an object is retried because something failed.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// Sets how many objects are reconciled concurrently at most.
    pub fn works_at_most(&self, concurrency: u16) {
        self.most.set(concurrency.into());
    }
}

impl Metrics {
    /// Returns what is counted of a controller. Its series are shown from now on.
    #[must_use]
    pub fn controller(&self, name: &'static str) -> Counted {
        self.controllers.counted(name)
    }

    /// Returns an empty queue that is counted as that of a controller.
    #[must_use]
    pub fn queue(&self, name: &'static str) -> Queue<Key> {
        Queue::counted(self.controller(name).meter)
    }

    /// Counts a request, and how long its answer took.
    pub fn request(&self, verb: &'static str, resource: &'static str, took: Duration) {
        self.requests.get_or_create(&labels::Request { verb, resource }).inc();
        self.latencies
            .get_or_create(&labels::Verb { verb })
            .observe(took.as_secs_f64());
    }

    /// Counts a failure of an object of a controller.
    pub fn failed(&self, controller: &'static str, class: &'static str) {
        self.failures
            .get_or_create(&labels::Failure { controller, class })
            .inc();
    }

    /// Counts a call to a queue service.
    pub fn queue_call(&self, action: &'static str, is_ok: bool) {
        let result = if is_ok { "success" } else { "error" };
        self.queue_calls
            .get_or_create(&labels::QueueCall { action, result })
            .inc();
    }

    /// Counts a change of a queue outside of the cluster that was repaired.
    pub fn queue_drift(&self, kind: &'static str) {
        self.queue_drift.get_or_create(&labels::Drift { kind }).inc();
    }

    /// Sets whether this operator leads.
    pub fn leads(&self, is: bool) {
        let labels = labels::Name { name: lease::NAME };
        self.leader.get_or_create(&labels).set(is.into());
    }

    /// Sets when the certificate of webhooks expires, in seconds since 1970, if there is one.
    pub fn certificate_expires_at(&self, seconds: Option<i64>) {
        match seconds {
            Some(seconds) => drop(self.certificate.get_or_create(&labels::Sole {}).set(seconds)),
            None => self.certificate.clear(),
        }
    }

    /// Returns everything in the `OpenMetrics` text format, with the state of this moment.
    #[must_use]
    pub fn render(&self, controllers: &[Arc<Registered>]) -> String {
        for registered in controllers {
            let controller = &registered.controller;
            let (counted, queue) = (self.controller(controller.name()), controller.queue());
            let Work {
                running,
                unfinished,
                longest,
            } = queue.work();
            counted.depth.set(gauge(queue.depth()));
            counted.active.set(gauge(running));
            counted.unfinished.set(unfinished.as_secs_f64());
            counted.longest.set(longest.as_secs_f64());
            registered.informers.iter().for_each(|informer| self.show(informer));
            self.count_states(&**controller);
        }
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn show(&self, informer: &Informer) {
        let (resource, health) = (informer.resource(), informer.health());
        let labels = labels::Resource { resource };
        let is_missing_option = informer.is_missing_option();
        let is_synced = health.is_synced() || is_missing_option;
        self.synced.get_or_create(&labels).set(is_synced.into());
        let is_failing = health.error().is_some() && !is_missing_option;
        self.failing.get_or_create(&labels).set(is_failing.into());
        self.cached.get_or_create(&labels).set(gauge(informer.store().len()));
        // The watch counts by itself; both only grow.
        let take_over = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        take_over(&self.watch_errors.get_or_create(&labels), informer.errors());
        take_over(&self.watch_lists.get_or_create(&labels), health.lists());
    }

    fn count_states(&self, controller: &dyn Controller) {
        let mut counts = ReadyState::ALL.map(|_| 0);
        for state in controller.ready_states() {
            counts[state as usize] += 1;
        }
        for (state, count) in ReadyState::ALL.into_iter().zip(counts) {
            let labels = labels::Objects {
                controller: controller.name(),
                state: state.as_str(),
            };
            self.objects.get_or_create(&labels).set(count);
        }
    }
}

fn gauge(count: usize) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
