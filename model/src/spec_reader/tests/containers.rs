//! Init containers and sidecars.

use super::*;

fn read(pod: &Value) -> (Vec<String>, Vec<String>, Vec<String>) {
    let deployment = json!({"spec": {"template": {"spec": pod}}});
    let live = LiveObjects {
        deployment: Some(&deployment),
        ..LiveObjects::default()
    };
    let found = read_app("shop", "a", live);
    let pod = &found.spec.pod;
    let sidecars = pod.sidecars.iter().map(|sidecar| sidecar.container.name.clone());
    let inits = pod.init_containers.iter().map(|container| container.name.clone());
    let unmapped = found.unmapped.into_iter().map(|(_, field)| field.path);
    (sidecars.collect(), inits.collect(), unmapped.collect())
}

#[test]
fn containers_that_a_spec_cannot_express_are_unmapped() {
    let found = read(&json!({
        "securityContext": {"runAsNonRoot": true},
        "volumes": [{"name": "work", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [{"name": "shop", "image": "shop:1"}],
        "initContainers": [
            {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "ports": [{"containerPort": 15000}],
             "livenessProbe": {"httpGet": {"port": 15000, "host": "example.com"}}, "securityContext": {"runAsUser": 1, "runAsNonRoot": true},
             "lifecycle": {"preStop": {"exec": {"command": ["stop"]}}}},
            {"name": "app", "image": "other:1"},
            {"name": "setup", "image": "setup:1", "workingDir": "/a", "volumeMounts": [
                {"name": "work", "mountPath": "/work"}, {"name": "data", "mountPath": "/data"},
                {"name": "work", "mountPath": "/part", "subPath": "part"}]},
            {"name": "late", "image": "late:1", "restartPolicy": "Always"}],
    }));
    insta::assert_debug_snapshot!(found);
}
