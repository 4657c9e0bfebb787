//! Everything that is counted, with its name and its help: the only list of it in the code.

use std::hash::Hash;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::process::Process;
use super::{Counted, Histograms, Metrics, Outcome, labels};
use crate::queue::{Meter, times};

/// Bounds of the time a reconcile takes, in seconds: from one that finds nothing to do to its deadline.
const BUCKETS: [f64; 12] = [0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 25.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut all = Register(Registry::default());
        let controllers = all.controllers();
        let build: Family<labels::Build, Gauge> =
            all.family("appdeploy_build_info", "1; its label says which version runs");
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&labels::Build { version }).set(1);
        let requests = all.family(
            "appdeploy_requests",
            "Requests for children, statuses, Events and Leases by verb and resource",
        );
        let latencies = all.histograms(
            "appdeploy_request_duration_seconds",
            "How long the API server took to answer them",
        );
        let failures = all.family("appdeploy_failures", "Failures of reconciles by class");
        let watch_errors = all.family("appdeploy_watch_errors", "Lists and watches that failed");
        let watch_lists = all.family("appdeploy_watch_lists", "Lists that succeeded");
        let synced = all.family("appdeploy_watch_synced", "1 once a kind was listed");
        let failing = all.family("appdeploy_watch_failing", "1 while a watch fails");
        let cached = all.family("appdeploy_cached_objects", "Cached objects of a kind");
        let objects = all.family("appdeploy_objects", "Objects by the state in their status");
        let queue_calls = all.family("appdeploy_queue_calls", "Calls to queue services by action and result");
        let queue_drift = all.family(
            "appdeploy_queue_drift",
            "Changes and deletions of queues outside of the cluster that were repaired",
        );
        let leader = all.family("leader_election_master_status", "1 while this replica leads");
        let certificate = all.family(
            "appdeploy_webhook_certificate_expiration_timestamp_seconds",
            "When the certificate of webhooks expires, in seconds since 1970",
        );
        all.0.register_collector(Box::new(Process::new()));
        Self {
            registry: all.0,
            controllers,
            requests,
            latencies,
            failures,
            watch_errors,
            watch_lists,
            synced,
            failing,
            cached,
            objects,
            queue_calls,
            queue_drift,
            leader,
            certificate,
        }
    }
}

/// The registry while it is filled.
struct Register(Registry);

impl Register {
    fn family<L, M>(&mut self, name: &str, help: &str) -> Family<L, M>
    where
        L: Clone + Hash + Eq,
        M: Default,
        Family<L, M>: Metric,
    {
        let family = Family::default();
        self.0.register(name, help, family.clone());
        family
    }

    fn histograms<L>(&mut self, name: &str, help: &str) -> Histograms<L>
    where
        L: Clone + Hash + Eq,
        Histograms<L>: Metric,
    {
        let family = Family::new_with_constructor(times as fn() -> Histogram);
        self.0.register(name, help, family.clone());
        family
    }

    /// Registers what is counted of each controller.
    fn controllers(&mut self) -> Controllers {
        let reconciles = self.family("controller_runtime_reconcile", "Reconciles by result");
        let errors = self.family("controller_runtime_reconcile_errors", "Reconciles that failed");
        let terminal = self.family(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that wait for a change of the spec",
        );
        let timeouts = self.family(
            "controller_runtime_reconcile_timeouts",
            "Reconciles that were given up because they took too long",
        );
        let panics = self.family("controller_runtime_reconcile_panics", "Reconciles that panicked");
        let time: Histograms<labels::Controller> =
            Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        self.0.register(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile takes",
            time.clone(),
        );
        let most = self.family(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles",
        );
        let active = self.family("controller_runtime_active_workers", "Reconciles that are running");
        let depth = self.family("workqueue_depth", "Objects that wait to be reconciled");
        let adds = self.family("workqueue_adds", "Objects that were added to the queue");
        let waited = self.histograms(
            "workqueue_queue_duration_seconds",
            "How long an object waits until it is taken",
        );
        let worked = self.histograms("workqueue_work_duration_seconds", "How long an object is reconciled");
        let retries = self.family(
            "workqueue_retries",
            "Objects that were requeued because something failed",
        );
        let unfinished = self.family(
            "workqueue_unfinished_work_seconds",
            "Sum of the times that running reconciles have taken so far",
        );
        let longest = self.family(
            "workqueue_longest_running_processor_seconds",
            "Time that the longest running reconcile has taken so far",
        );
        Controllers {
            reconciles,
            errors,
            terminal,
            timeouts,
            panics,
            time,
            most,
            active,
            depth,
            adds,
            waited,
            worked,
            retries,
            unfinished,
            longest,
        }
    }
}

/// What is counted of controllers, by their names.
#[derive(Debug)]
pub(super) struct Controllers {
    reconciles: Family<labels::Reconcile, Counter>,
    errors: Family<labels::Controller, Counter>,
    terminal: Family<labels::Controller, Counter>,
    timeouts: Family<labels::Controller, Counter>,
    panics: Family<labels::Controller, Counter>,
    time: Histograms<labels::Controller>,
    most: Family<labels::Controller, Gauge>,
    active: Family<labels::Controller, Gauge>,
    depth: Family<labels::Name, Gauge>,
    adds: Family<labels::Name, Counter>,
    waited: Histograms<labels::Name>,
    worked: Histograms<labels::Name>,
    retries: Family<labels::Name, Counter>,
    unfinished: Family<labels::Name, Gauge<f64, AtomicU64>>,
    longest: Family<labels::Name, Gauge<f64, AtomicU64>>,
}

impl Controllers {
    /// Returns the series of a controller.
    pub(super) fn counted(&self, controller: &'static str) -> Counted {
        let of = labels::Controller { controller };
        let name = labels::Name { name: controller };
        Counted {
            results: Outcome::ALL.map(|outcome| {
                self.reconciles.get_or_create_owned(&labels::Reconcile {
                    controller,
                    result: outcome.as_str(),
                })
            }),
            errors: self.errors.get_or_create_owned(&of),
            terminal: self.terminal.get_or_create_owned(&of),
            timeouts: self.timeouts.get_or_create_owned(&of),
            panics: self.panics.get_or_create_owned(&of),
            time: self.time.get_or_create_owned(&of),
            most: self.most.get_or_create_owned(&of),
            active: self.active.get_or_create_owned(&of),
            depth: self.depth.get_or_create_owned(&name),
            retries: self.retries.get_or_create_owned(&name),
            unfinished: self.unfinished.get_or_create_owned(&name),
            longest: self.longest.get_or_create_owned(&name),
            meter: Meter {
                adds: self.adds.get_or_create_owned(&name),
                waited: self.waited.get_or_create_owned(&name),
                worked: self.worked.get_or_create_owned(&name),
            },
        }
    }
}
