//! Validates where the metrics of an app are.

use crd::PodFields;

use crate::desired::ports::{container_ports, metrics};

/// Adds a message for each invalid field. `at` is the path of the fields of the pod.
pub(super) fn add_problems(at: &str, pod: &PodFields, problems: &mut Vec<String>) {
    let Some(fields) = &pod.metrics else { return };
    if let Some(path) = fields.path.as_ref().filter(|path| !is_path(path)) {
        problems.push(format!(
            "{at}.metrics.path: invalid path {path:?}: write it like /metrics"
        ));
    }
    let Some(metrics) = metrics(pod) else {
        problems.push(format!(
            "{at}.metrics: missing port: set {at}.metrics.port or {at}.port"
        ));
        return;
    };
    let (name, number) = (metrics.port.name, metrics.port.number);
    if fields.port.is_some() && !(1..=65535).contains(&number) {
        problems.push(format!(
            "{at}.metrics.port: invalid port {number}: use a number from 1 to 65535"
        ));
    }
    let same_name = container_ports(pod).into_iter().filter(|port| port.name == name);
    if same_name.count() > 1 && !metrics.is_of_service {
        problems.push(format!(
            "{at}.metrics.port: {at}.ports has another port with the name {name}: rename it, or set {at}.metrics.port to it"
        ));
    }
}

/// Whether Prometheus can request this path.
pub(crate) fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_have_a_port_of_their_own_or_a_known_one() {
        let named = |port: i32| json!([{"name": "metrics", "port": port}]);
        for (spec, is_valid) in [
            (json!({"port": 80, "metrics": {}}), true),
            (json!({"metrics": {}}), false),
            (json!({"metrics": {"port": 9090, "path": "/a?b=c"}}), true),
            (json!({"metrics": {"port": 0}}), false),
            (json!({"metrics": {"port": 9090, "path": "a"}}), false),
            (
                json!({"port": 80, "ports": named(9090), "metrics": {"port": 9090}}),
                true,
            ),
            (
                json!({"port": 80, "ports": named(9090), "metrics": {"port": 9091}}),
                false,
            ),
            (json!({"port": 80, "ports": named(9090), "metrics": {}}), true),
        ] {
            let mut pod = spec.clone();
            pod["image"] = json!("nginx");
            let mut problems = Vec::new();
            add_problems("spec", &serde_json::from_value(pod).unwrap(), &mut problems);
            assert_eq!(problems.is_empty(), is_valid, "{spec}: {problems:?}");
        }
    }
}
