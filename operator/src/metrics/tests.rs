use std::collections::{BTreeMap, BTreeSet};

use clap::Parser as _;
use kube::Client;

use super::*;
use crate::call::Caller;
use crate::deps::Deps;
use crate::lease::Fence;
use crate::queue::Priority;
use crate::run::controllers;
use crate::settings::Settings;

/// Returns metrics and controllers that have not counted anything. A client needs a runtime, although it is not used.
fn nothing() -> (Arc<Metrics>, Vec<Arc<Registered>>) {
    let metrics = Arc::new(Metrics::default());
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    let deps = Deps {
        caller: Caller::new(Client::new(service, "default"), metrics.clone(), Fence::open()),
        stores: Arc::default(),
        metrics: metrics.clone(),
        settings: Settings::parse_from(["operator"]),
    };
    let registered = controllers(&deps).into_iter().map(Registered::new).map(Arc::new);
    (metrics, registered.collect())
}

/// Returns everything that can be counted, counted once.
fn everything() -> String {
    let (metrics, controllers) = nothing();
    let app = metrics.controller("appdeploy");
    app.reconciled(Outcome::Success, Duration::from_millis(3));
    app.reconciled(Outcome::Panic, Duration::from_millis(3));
    metrics.request("create", "services", Duration::from_millis(3));
    metrics.failed("appdeploy", "name_conflict");
    metrics.controller("podset").works_at_most(64);
    metrics.queue_call("CreateQueue", true);
    metrics.queue_drift("deleted");
    metrics.leads(true);
    metrics.certificate_expires_at(Some(1_800_000_000));
    let queue = controllers[0].controller.queue();
    queue.add(Key::new("default", "web"), Priority::Related);
    metrics.render(&controllers)
}

#[tokio::test]
async fn everything_counted_is_shown() {
    let text = everything();
    for line in [
        "controller_runtime_reconcile_total{controller=\"appdeploy\",result=\"success\"} 1",
        "controller_runtime_reconcile_total{controller=\"appdeploy\",result=\"panic\"} 1",
        "controller_runtime_reconcile_total{controller=\"podset\",result=\"error\"} 0",
        "controller_runtime_reconcile_errors_total{controller=\"appdeploy\"} 1",
        "controller_runtime_reconcile_panics_total{controller=\"appdeploy\"} 1",
        "controller_runtime_reconcile_time_seconds_count{controller=\"appdeploy\"} 2",
        "controller_runtime_max_concurrent_reconciles{controller=\"podset\"} 64",
        "appdeploy_requests_total{verb=\"create\",resource=\"services\"} 1",
        "appdeploy_request_duration_seconds_count{verb=\"create\"} 1",
        "appdeploy_failures_total{controller=\"appdeploy\",class=\"name_conflict\"} 1",
        "appdeploy_queue_calls_total{action=\"CreateQueue\",result=\"success\"} 1",
        "appdeploy_queue_drift_total{kind=\"deleted\"} 1",
        "workqueue_depth{name=\"appdeploy\"} 1",
        "workqueue_adds_total{name=\"appdeploy\"} 1",
        "workqueue_depth{name=\"podset\"} 0",
        "appdeploy_watch_synced{resource=\"appdeploys\"} 0",
        "appdeploy_watch_errors_total{resource=\"appdeploys\"} 0",
        "appdeploy_objects{controller=\"appdeploy\",state=\"stalled\"} 0",
        "leader_election_master_status{name=\"appdeploy-operator\"} 1",
        "appdeploy_webhook_certificate_expiration_timestamp_seconds{} 1800000000",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn missing_certificate_has_no_series() {
    let (metrics, controllers) = nothing();
    metrics.certificate_expires_at(Some(1));
    metrics.certificate_expires_at(None);
    let text = metrics.render(&controllers);
    assert!(!text.contains("timestamp_seconds{} 1\n"), "{text}");
}

/// Type and labels of a metric.
type Shape = (String, BTreeSet<String>);

#[tokio::test]
async fn documented_metrics_are_the_registered_ones() {
    assert_eq!(
        documented(include_str!("../../../docs/metrics.md")),
        shown(&everything())
    );
}

/// Reads the rows `| `name` | type | labels | … |`.
fn documented(page: &str) -> BTreeMap<String, Shape> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_default().to_owned();
        let (name, kind, labels) = (cell(), cell(), cell());
        let labels = labels.split('`').skip(1).step_by(2).map(ToOwned::to_owned);
        (name.trim_end_matches('`').to_owned(), (kind, labels.collect()))
    })
    .collect()
}

/// Reads the names as a query has them, without the endings of histograms.
fn shown(text: &str) -> BTreeMap<String, Shape> {
    let mut shapes = BTreeMap::<String, Shape>::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let ending = if kind == "counter" { "_total" } else { "" };
            current = format!("{name}{ending}");
            shapes.insert(current.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            let inside = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
            let pairs = inside.map_or("", |(labels, _)| labels).split(',');
            let labels = pairs.filter_map(|pair| pair.split_once('=')).map(|(label, _)| label);
            let known = shapes.get_mut(&current).map(|(_, labels)| labels);
            known
                .unwrap()
                .extend(labels.filter(|label| *label != "le").map(ToOwned::to_owned));
        }
    }
    shapes
}
