//! Init containers and sidecars.

use serde_json::{Value, json};

use super::with;

fn container(name: &str, fields: Value) -> Value {
    let mut container = json!({"name": name, "image": "busybox"});
    container
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    container
}

pub(super) fn bad_containers() -> Vec<(Value, &'static str)> {
    let both = |fields: Value| {
        ["initContainers", "sidecars"].map(|list| with(json!({list: [container("a", fields.clone())]})))
    };
    let mount = |volume: &str, read_only: Option<bool>| json!({"mounts": [{"name": volume, "mountPath": "/a", "readOnly": read_only}]});
    let mounting = |fields: Value| {
        let mut specs = both(fields);
        for spec in &mut specs {
            spec["volumes"] = json!([{"name": "keys", "mountPath": "/k", "secret": {"secretName": "keys"}}]);
        }
        specs
    };
    let many: Vec<Value> = (0..9)
        .map(|number| container(&format!("a{number}"), json!({})))
        .collect();
    let twice = json!([{"name": "keys", "mountPath": "/a"}, {"name": "keys", "mountPath": "/a"}]);
    let of_both = [
        (both(json!({"name": "App"})), "write it like migrate"),
        (both(json!({"name": "app"})), "choose another name, like migrate"),
        (
            both(json!({"image": "a b"})),
            "write it like nginx or ghcr.io/acme/shop:1.4",
        ),
        (both(json!({"env": [{"name": "1A"}]})), "starts with no digit"),
        (
            both(json!({"envFrom": [{}]})),
            "exactly one of configMapRef and secretRef",
        ),
        (
            both(json!({"resources": {"limits": {"mem": "64Mi"}}})),
            "unknown resource: use cpu, memory",
        ),
        (
            both(mount("none", None)),
            "name volumes of the spec: add the missing volume",
        ),
        (
            mounting(mount("none", None)),
            "name volumes of the spec: add the missing volume",
        ),
        (
            mounting(mount("keys", Some(false))),
            "can only write to an emptyDir: remove readOnly",
        ),
        (
            mounting(json!({"mounts": [{"name": "keys", "mountPath": "a/"}]})),
            "write it like /etc/nginx/conf.d",
        ),
        (mounting(json!({"mounts": twice})), "Duplicate value"),
    ];
    let of_both = of_both
        .into_iter()
        .flat_map(|(specs, why)| specs.map(|spec| (spec, why)));
    let one = container("a", json!({}));
    let others = [
        (
            with(json!({"initContainers": [one], "sidecars": [one]})),
            "rename the container that is in both",
        ),
        (with(json!({"initContainers": [one, one]})), "Duplicate value"),
        (with(json!({"initContainers": many})), "must have at most 8 items"),
        (with(json!({"sidecars": many})), "must have at most 8 items"),
        (
            with(json!({"sidecars": [container("a", json!({"probes": {"liveness": {}}}))]})),
            "exactly one of httpGet",
        ),
        (
            with(json!({"volumes": [{"name": "a", "emptyDir": {}}]})),
            "volumes need a mountPath, unless",
        ),
        (
            with(json!({"volumes": [{"name": "a", "readOnly": true, "emptyDir": {}}]})),
            "readOnly is about the mountPath",
        ),
    ];
    of_both.chain(others).collect()
}

pub(super) fn good_containers() -> Vec<Value> {
    let mounts = json!([{"name": "work", "mountPath": "/a"}, {"name": "work", "mountPath": "/b", "readOnly": true},
        {"name": "keys", "mountPath": "/k", "readOnly": true}]);
    let full = json!({"command": ["a"], "args": ["b"], "env": [{"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "envFrom": [{"secretRef": {"name": "db"}}], "resources": {"limits": {"memory": "64Mi"}}, "imagePullPolicy": "Never",
        "mounts": mounts});
    let mut sidecar = container("proxy", full.clone());
    sidecar["probes"] = json!({"startup": {"tcpSocket": {"port": 15000}}, "readiness": {"grpc": {"port": 15000}}});
    let eight = |prefix: &str| -> Vec<Value> {
        (0..8)
            .map(|number| container(&format!("{prefix}-{number}"), json!({})))
            .collect()
    };
    vec![
        with(
            json!({"volumes": [{"name": "work", "emptyDir": {}}, {"name": "keys", "secret": {"secretName": "keys"}}],
            "initContainers": [container("migrate", full)], "sidecars": [sidecar]}),
        ),
        with(json!({"initContainers": eight("init"), "sidecars": eight("side")})),
    ]
}
