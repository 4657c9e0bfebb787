//! What a scrape of a working operator shows.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::web;
use crate::seen::cluster;

/// Returns the names in the tables of the reference. Those that need webhooks, which this operator does not serve, or a
/// queue are left out.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next()).map(ToOwned::to_owned);
    names
        .filter(|name| !name.contains("webhook") && !name.starts_with("appdeploy_queue_"))
        .collect()
}

/// Returns the names that series have, without the endings of histograms.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split(['{', ' ']).next());
    let whole = |name: &str| {
        let endings = ["_bucket", "_sum", "_count"];
        let base = endings.iter().find_map(|ending| name.strip_suffix(ending));
        base.unwrap_or(name).to_owned()
    };
    names.map(whole).collect()
}

#[test]
fn each_documented_metric_has_a_series() {
    let cluster = cluster();
    let shop = cluster.namespace("metrics");
    let operator = cluster.operator(&["--watch-namespace", "metrics"]);
    shop.settled_app("good", web());
    let refused = json!({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}});
    let mut spec = web();
    spec["resources"] = refused;
    shop.settled_app("refused", spec);
    let body = operator.until("/metrics", "what was done is counted", |_, body| {
        body.contains("appdeploy_failures_total{controller=\"appdeploy\",class=\"rejected\"}")
            && body.contains("appdeploy_objects{controller=\"appdeploy\",state=\"progressing\"} 1")
            && body.contains("appdeploy_objects{controller=\"appdeploy\",state=\"stalled\"} 1")
            && body.contains("controller_runtime_active_workers{controller=\"appdeploy\"} 0")
    });
    assert_eq!(series(&body), documented());
    let value = |series: &str| -> f64 {
        let found = body
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found
            .unwrap_or_else(|| panic!("{series} is not in\n{body}"))
            .parse()
            .unwrap()
    };
    let of_apps = "{controller=\"appdeploy\"}";
    let reconciles = value(&format!("controller_runtime_reconcile_time_seconds_count{of_apps}"));
    assert!(reconciles >= 2.0);
    let queue = "{name=\"appdeploy\"}";
    for name in [
        "workqueue_queue_duration_seconds_count",
        "workqueue_work_duration_seconds_count",
    ] {
        assert!(value(&format!("{name}{queue}")) >= reconciles, "{body}");
    }
    assert!(value(&format!("workqueue_adds_total{queue}")) >= reconciles, "{body}");
    assert!(value(&format!("controller_runtime_reconcile_errors_total{of_apps}")) >= 1.0);
    assert!(value(&format!("controller_runtime_max_concurrent_reconciles{of_apps}")) > 1.0);
    assert!(value("appdeploy_watch_lists_total{resource=\"appdeploys\"}") >= 1.0);
    // An optional kind that the cluster does not serve is not counted.
    let of_monitors = "{resource=\"podmonitors\"}";
    for (name, expected) in [("synced", 1), ("failing", 0), ("errors_total", 0), ("lists_total", 0)] {
        let line = format!("appdeploy_watch_{name}{of_monitors} {expected}");
        assert!(body.lines().any(|found| found == line), "{line} is not in\n{body}");
    }
    assert!(value("appdeploy_request_duration_seconds_count{verb=\"create\"}") >= 4.0);
}
