//! Validates probes.

use crd::{ContainerFields, Probes};

/// Adds a message for each invalid probe of a container. `at` is the path of its fields.
pub(super) fn add_problems(at: &str, container: &ContainerFields, problems: &mut Vec<String>) {
    let Some(probes) = &container.probes else { return };
    if container.health_check.is_some() {
        problems.push(format!(
            "{at}.healthCheck: the short form of probes: remove {at}.healthCheck or {at}.probes"
        ));
    }
    add_problems_of(at, probes, problems);
}

/// Adds a message for each invalid probe. `at` is the path of the fields of the container.
pub(super) fn add_problems_of(at: &str, probes: &Probes, problems: &mut Vec<String>) {
    for (name, probe) in probes.named() {
        let at = format!("{at}.probes.{name}");
        let checks = [
            probe.http_get.is_some(),
            probe.tcp_socket.is_some(),
            probe.grpc.is_some(),
            probe.exec.is_some(),
        ];
        if checks.iter().filter(|is_set| **is_set).count() != 1 {
            problems.push(format!(
                "{at}: a probe needs exactly one of httpGet, tcpSocket, grpc and exec"
            ));
        }
        if let Some(port) = probe.port().filter(|port| !(1..=65535).contains(port)) {
            problems.push(format!("{at}: invalid port {port}: use a number from 1 to 65535"));
        }
        if name != "readiness" && probe.success_threshold.is_some_and(|count| count != 1) {
            problems.push(format!("{at}.successThreshold: can only be 1; remove it"));
        }
        if name == "readiness" && probe.termination_grace_period_seconds.is_some() {
            problems.push(format!(
                "{at}.terminationGracePeriodSeconds: a readiness probe restarts no container; remove it"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(fields: Value) -> Vec<String> {
        let container: ContainerFields = serde_json::from_value(fields).unwrap();
        let mut problems = Vec::new();
        add_problems("spec", &container, &mut problems);
        problems
    }

    #[test]
    fn each_invalid_probe_is_reported() {
        let tcp = json!({"tcpSocket": {"port": 80}});
        assert_eq!(
            problems(json!({"image": "nginx", "probes": {"readiness": tcp, "liveness": {"exec": {"command": ["a"]}}}})),
            Vec::<String>::new()
        );
        let found = problems(json!({"image": "nginx", "healthCheck": {}, "probes": {
            "readiness": {"tcpSocket": {"port": 0}, "terminationGracePeriodSeconds": 5},
            "liveness": {"tcpSocket": {"port": 80}, "grpc": {"port": 80}, "successThreshold": 2},
            "startup": {"periodSeconds": 1}}}));
        let fields: Vec<_> = found.iter().map(|problem| problem.split(':').next().unwrap()).collect();
        assert_eq!(
            fields,
            [
                "spec.healthCheck",
                "spec.probes.readiness",
                "spec.probes.readiness.terminationGracePeriodSeconds",
                "spec.probes.liveness",
                "spec.probes.liveness.successThreshold",
                "spec.probes.startup"
            ]
        );
    }
}
