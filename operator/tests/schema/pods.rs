//! Invalid fields of pods and rollouts, each with a part of its message.

use serde_json::{Value, json};

use super::with;

/// Variables from other objects.
fn bad_variables() -> Vec<(Value, &'static str)> {
    vec![
        (
            with(
                json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}, "configMapKeyRef": {"name": "a", "key": "b"}}}]}),
            ),
            "exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        ),
        (
            with(json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]})),
            "supported values: \"metadata.name\"",
        ),
        (
            with(json!({"envFrom": [{"prefix": "A_"}]})),
            "exactly one of configMapRef and secretRef",
        ),
        (
            with(json!({"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]})),
            "exactly one of configMapRef and secretRef",
        ),
        (
            with(json!({"envFrom": [{"prefix": "..A", "secretRef": {"name": "a"}}]})),
            "write it like DB_",
        ),
    ]
}

/// Ports, rollouts and shutdown.
fn bad_ports_and_rollouts() -> Vec<(Value, &'static str)> {
    vec![
        (
            with(json!({"rollout": {"type": "Recreate", "maxSurge": 1}})),
            "maxSurge and maxUnavailable are for type RollingUpdate",
        ),
        (
            with(json!({"rollout": {"maxSurge": "0%", "maxUnavailable": 0}})),
            "maxSurge and maxUnavailable can't both be 0",
        ),
        (
            with(json!({"rollout": {"maxSurge": "101%"}})),
            "maxSurge is a number from 0 to 1000, or a percentage",
        ),
        (
            with(json!({"rollout": {"maxUnavailable": -1}})),
            "maxUnavailable is a number from 0 to 1000, or a percentage",
        ),
        (
            with(json!({"rollout": {"type": "Canary"}})),
            "supported values: \"RollingUpdate\", \"Recreate\"",
        ),
        (
            with(json!({"preStopSleepSeconds": 30})),
            "preStopSleepSeconds must be smaller than terminationGracePeriodSeconds",
        ),
        (
            with(json!({"preStopSleepSeconds": 5, "terminationGracePeriodSeconds": 5})),
            "preStopSleepSeconds must be smaller than terminationGracePeriodSeconds",
        ),
        (
            with(json!({"ports": [{"name": "http", "port": 81}]})),
            "choose another name, like admin",
        ),
        (
            with(json!({"ports": [{"name": "8080", "port": 81}]})),
            "write it like metrics",
        ),
        (
            with(json!({"ports": [{"name": "a", "port": 81}, {"name": "b", "port": 81, "protocol": "TCP"}]})),
            "two ports have the same number and protocol",
        ),
        (
            with(json!({"ports": [{"name": "a", "port": 81}, {"name": "a", "port": 82}]})),
            "Duplicate value",
        ),
        (
            with(json!({"ports": [{"name": "a", "port": 80}]})),
            "ports are in addition to port",
        ),
        (
            json!({"image": "nginx", "ports": [{"name": "a", "port": 80}]}),
            "ports are in addition to port",
        ),
        (
            with(json!({"ports": [{"name": "a", "port": 81, "protocol": "ICMP"}]})),
            "supported values: \"TCP\", \"UDP\", \"SCTP\"",
        ),
        (
            with(json!({"ports": [{"name": "a", "port": 81, "appProtocol": "a b"}]})),
            "write it like grpc or kubernetes.io/h2c",
        ),
    ]
}

/// Probes.
fn bad_probes() -> Vec<(Value, &'static str)> {
    vec![
        (
            with(json!({"healthCheck": {}, "probes": {}})),
            "healthCheck is the short form of probes: remove one of them",
        ),
        (
            with(json!({"probes": {"readiness": {"periodSeconds": 1}}})),
            "a probe needs exactly one of httpGet, tcpSocket, grpc and exec",
        ),
        (
            with(json!({"probes": {"startup": {"grpc": {"port": 1}, "exec": {"command": ["a"]}}}})),
            "a probe needs exactly one of httpGet, tcpSocket, grpc and exec",
        ),
        (
            with(json!({"probes": {"readiness": {"grpc": {"port": 1}, "terminationGracePeriodSeconds": 1}}})),
            "a readiness probe restarts no container",
        ),
        (
            with(json!({"probes": {"liveness": {"grpc": {"port": 1}, "successThreshold": 2}}})),
            "can only be 1; remove it",
        ),
        (
            with(json!({"probes": {"liveness": {"httpGet": {"port": 1, "path": "a b"}}}})),
            "write it like /healthz",
        ),
        (
            with(
                json!({"probes": {"liveness": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a:b", "value": ""}]}}}}),
            ),
            "write it like X-Probe",
        ),
        (
            with(json!({"probes": {"liveness": {"httpGet": {"path": "/"}}}})),
            "httpGet.port: Required value",
        ),
    ]
}

/// Nodes, users and metrics.
fn bad_placements() -> Vec<(Value, &'static str)> {
    let selector = |key: &str, value: &str| with(json!({"placement": {"nodeSelector": {key: value}}}));
    let toleration = |toleration: Value| with(json!({"placement": {"tolerations": [toleration]}}));
    vec![
        (selector("a b", "c"), "write it like disktype"),
        (selector("", "c"), "write it like disktype"),
        (selector("a/b/c", "c"), "write it like disktype"),
        (selector("a", "b c"), "write it like ssd"),
        (selector("a", &"b".repeat(64)), "than 63"),
        (
            toleration(json!({"value": "a"})),
            "a toleration without a key tolerates all taints",
        ),
        (
            toleration(json!({"key": "a", "operator": "Exists", "value": "b"})),
            "a toleration with the operator Exists has no value",
        ),
        (
            toleration(json!({"key": "a", "tolerationSeconds": 5})),
            "tolerationSeconds is for the effect NoExecute",
        ),
        (toleration(json!({"key": "-a"})), "write it like dedicated"),
        (
            toleration(json!({"key": "a", "effect": "Never"})),
            "supported values: \"NoSchedule\"",
        ),
        (with(json!({"hostUsers": true})), "hostUsers can only be false"),
        (json!({"image": "nginx", "metrics": {}}), "metrics need a port to read"),
        (
            with(json!({"ports": [{"name": "metrics", "port": 81}], "metrics": {"port": 82}})),
            "metrics.port has the name metrics, which one of ports has",
        ),
        (with(json!({"metrics": {"path": "metrics"}})), "write it like /metrics"),
    ]
}

/// All of them.
pub fn bad_fields() -> impl Iterator<Item = (Value, &'static str)> {
    let of_containers = bad_variables().into_iter().chain(bad_probes());
    of_containers.chain(bad_ports_and_rollouts()).chain(bad_placements())
}
