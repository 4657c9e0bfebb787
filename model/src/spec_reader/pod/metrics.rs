//! Reads where the metrics of an app are.

use crd::Metrics;
use serde_json::{Value, json};

use super::{items, port_of};
use crate::children::{SCRAPE, SCRAPED_PATH, SCRAPED_PORT};
use crate::desired::ports::METRICS_PATH;
use crate::valid::is_metrics_path;

/// Reads the PodMonitor of an app, if it has one, or the annotations of its Service. `port` is the main port of the app.
/// Returns `None` if a spec can't express them.
pub(super) fn read(
    container: &Value,
    port: Option<i32>,
    service: Option<&Value>,
    monitor: Option<&Value>,
) -> Option<Metrics> {
    let (number, path) = monitor
        .and_then(|monitor| of_monitor(container, monitor))
        .or_else(|| of_service(port, service?))?;
    let path = path.unwrap_or_else(|| METRICS_PATH.to_owned());
    ((1..=65535).contains(&number) && is_metrics_path(&path)).then(|| Metrics {
        port: Some(number).filter(|number| Some(*number) != port),
        path: Some(path).filter(|path| path != METRICS_PATH),
    })
}

fn of_monitor(container: &Value, monitor: &Value) -> Option<(i32, Option<String>)> {
    let mut endpoints = items(&monitor["spec"]["podMetricsEndpoints"]);
    let (endpoint, None) = (endpoints.next()?, endpoints.next()) else {
        return None;
    };
    Some((
        port_of(&endpoint["port"], container)?,
        endpoint["path"].as_str().map(str::to_owned),
    ))
}

fn of_service(port: Option<i32>, service: &Value) -> Option<(i32, Option<String>)> {
    let annotations = &service["metadata"]["annotations"];
    if annotations[SCRAPE] != json!("true") {
        return None;
    }
    let number = match annotations[SCRAPED_PORT].as_str() {
        Some(number) => number.parse().ok()?,
        None => port?,
    };
    Some((number, annotations[SCRAPED_PATH].as_str().map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_monitor_or_annotations_of_the_service_are_read() {
        let container = json!({"ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 9100, "name": "m"}]});
        let monitor = |endpoints: Value| json!({"spec": {"podMetricsEndpoints": endpoints}});
        let service = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        let of = |service: Option<Value>, monitor: Option<Value>| {
            json!(read(&container, Some(80), service.as_ref(), monitor.as_ref()))
        };
        let of_monitor = |endpoints: Value| of(None, Some(monitor(endpoints)));
        assert_eq!(
            of_monitor(json!([{"port": "m", "path": "/prom"}])),
            json!({"port": 9100, "path": "/prom"})
        );
        assert_eq!(of_monitor(json!([{"port": "http"}])), json!({}));
        assert_eq!(of_monitor(json!([{"port": "other"}])), Value::Null);
        assert_eq!(of_monitor(json!([{"port": "m"}, {"port": "http"}])), Value::Null);
        let of_service = |annotations: Value| of(Some(service(annotations)), None);
        let scrape = json!({"prometheus.io/scrape": "true", "prometheus.io/port": "9100"});
        assert_eq!(of_service(scrape), json!({"port": 9100}));
        assert_eq!(of_service(json!({"prometheus.io/scrape": "true"})), json!({}));
        assert_eq!(of_service(json!({"prometheus.io/scrape": "false"})), Value::Null);
        assert_eq!(
            of_service(json!({"prometheus.io/scrape": "true", "prometheus.io/port": "m"})),
            Value::Null
        );
        assert_eq!(of(None, None), Value::Null);
    }
}
