//! What is counted, under the names that dashboards for controllers already know.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::dispatch::Verdict;
use crate::lease;
use crate::world::{Watched, World};

/// Bounds of the time a reconcile takes, in seconds: from one that finds nothing to do to its deadline.
const BUCKETS: [f64; 12] = [0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 25.0];

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do.
    Success,
    /// It will be tried again.
    Error,
    /// It waits for a change of the spec.
    Terminal,
    /// It took too long.
    Timeout,
    /// It panicked.
    Panic,
}

impl Outcome {
    /// Returns the outcome of a reconcile that ended by itself.
    #[must_use]
    pub const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Settled | Verdict::Onward | Verdict::Again => Self::Success,
            Verdict::Failed => Self::Error,
            Verdict::GaveUp => Self::Terminal,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Terminal => "terminal_error",
            Self::Timeout => "timeout",
            Self::Panic => "panic",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    controller: &'static str,
    class: &'static str,
}

/// All counters. Labels are words from the code, never names of objects, so their number is bounded.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: Family<ReconcileLabels, Counter>,
    durations: Family<ControllerLabels, Histogram>,
    requests: Family<RequestLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    depth: Family<QueueLabels, Gauge>,
    synced: Family<ResourceLabels, Gauge>,
    failing: Family<ResourceLabels, Gauge>,
    objects: Family<ResourceLabels, Gauge>,
    leader: Family<QueueLabels, Gauge>,
    memory: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            reconciles: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            requests: Family::default(),
            failures: Family::default(),
            depth: Family::default(),
            synced: Family::default(),
            failing: Family::default(),
            objects: Family::default(),
            leader: Family::default(),
            memory: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register(
            "controller_runtime_reconcile",
            "Reconciles by how they ended",
            metrics.reconciles.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Time a reconcile takes",
            metrics.durations.clone(),
        );
        registry.register(
            "workqueue_depth",
            "Objects waiting to be looked at",
            metrics.depth.clone(),
        );
        registry.register(
            "appdeploy_requests",
            "Requests for children, statuses and Events by verb and resource",
            metrics.requests.clone(),
        );
        registry.register(
            "appdeploy_failures",
            "What kept reconciles from their goal",
            metrics.failures.clone(),
        );
        registry.register(
            "appdeploy_watch_synced",
            "1 once a kind was listed",
            metrics.synced.clone(),
        );
        registry.register(
            "appdeploy_watch_failing",
            "1 while a watch is stuck at an error",
            metrics.failing.clone(),
        );
        registry.register(
            "appdeploy_cached_objects",
            "Objects known of a kind",
            metrics.objects.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "1 while this operator is the one that writes",
            metrics.leader.clone(),
        );
        registry.register(
            "process_resident_memory_bytes",
            "Resident memory",
            metrics.memory.clone(),
        );
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// Counts a reconcile of an object of a kind.
    pub fn reconciled(&self, kind: crd::Kind, outcome: Outcome, took: Duration) {
        let controller = kind.singular();
        let labels = ReconcileLabels {
            controller,
            result: outcome.as_str(),
        };
        self.reconciles.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&ControllerLabels { controller })
            .observe(took.as_secs_f64());
    }

    /// Counts a request.
    pub fn request(&self, verb: &'static str, resource: &'static str) {
        self.requests.get_or_create(&RequestLabels { verb, resource }).inc();
    }

    /// Counts a failure of an object of a kind.
    pub fn failed(&self, kind: crd::Kind, class: &'static str) {
        let labels = FailureLabels {
            controller: kind.singular(),
            class,
        };
        self.failures.get_or_create(&labels).inc();
    }

    /// Takes in whether this operator leads.
    pub fn leads(&self, is: bool) {
        let labels = QueueLabels { name: lease::NAME };
        self.leader.get_or_create(&labels).set(is.into());
    }

    /// Returns everything in the `OpenMetrics` text format, with the state of this moment.
    #[must_use]
    pub fn render(&self, world: &World, depths: impl IntoIterator<Item = (crd::Kind, usize)>) -> String {
        for (kind, depth) in depths {
            self.depth
                .get_or_create(&QueueLabels { name: kind.singular() })
                .set(depth.try_into().unwrap_or(i64::MAX));
        }
        for watched in world.watches() {
            let Watched { resource, health, .. } = watched;
            let labels = ResourceLabels { resource };
            self.synced.get_or_create(&labels).set(health.is_synced().into());
            self.failing.get_or_create(&labels).set(health.error().is_some().into());
            self.objects
                .get_or_create(&labels)
                .set(watched.objects.try_into().unwrap_or(i64::MAX));
        }
        if let Some(bytes) = resident_memory() {
            self.memory.set(bytes);
        }
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Reads `VmRSS` of this process; nothing where there is no `/proc`.
fn resident_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_counted_is_shown() {
        let metrics = Metrics::default();
        metrics.reconciled(crd::Kind::AppDeploy, Outcome::Success, Duration::from_millis(3));
        metrics.request("create", "services");
        metrics.failed(crd::Kind::AppDeploy, "name_conflict");
        let text = metrics.render(&World::default(), [(crd::Kind::AppDeploy, 5), (crd::Kind::PodSet, 0)]);
        for line in [
            "controller_runtime_reconcile_total{controller=\"appdeploy\",result=\"success\"} 1",
            "controller_runtime_reconcile_time_seconds_count{controller=\"appdeploy\"} 1",
            "appdeploy_requests_total{verb=\"create\",resource=\"services\"} 1",
            "appdeploy_failures_total{controller=\"appdeploy\",class=\"name_conflict\"} 1",
            "workqueue_depth{name=\"appdeploy\"} 5",
            "workqueue_depth{name=\"podset\"} 0",
            "appdeploy_watch_synced{resource=\"appdeploys\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
