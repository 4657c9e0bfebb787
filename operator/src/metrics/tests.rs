use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::queue::Urgency;

/// Returns everything that can be counted, counted once.
fn everything() -> String {
    let metrics = Metrics::default();
    let queues = Queues::counted_by(&metrics);
    metrics.reconciled(crd::Kind::AppDeploy, Outcome::Success, Duration::from_millis(3));
    metrics.reconciled(crd::Kind::AppDeploy, Outcome::Panic, Duration::from_millis(3));
    metrics.request("create", "services", Duration::from_millis(3));
    metrics.failed(crd::Kind::AppDeploy, "name_conflict");
    metrics.works_at_most(crd::Kind::PodSet, 64);
    metrics.leads(true);
    metrics.certificate_expires_at(Some(1_800_000_000));
    queues.apps.add(crate::key::Key::new("default", "web"), Urgency::Change);
    metrics.render(&World::default(), &queues)
}

#[test]
fn everything_counted_is_shown() {
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

#[test]
fn what_is_not_there_has_no_series() {
    let metrics = Metrics::default();
    metrics.certificate_expires_at(Some(1));
    metrics.certificate_expires_at(None);
    let text = metrics.render(&World::default(), &Queues::default());
    assert!(!text.contains("timestamp_seconds{} 1\n"), "{text}");
}

/// Type and labels of a metric.
type Shape = (String, BTreeSet<String>);

#[test]
fn the_reference_lists_what_is_shown_and_nothing_else() {
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
