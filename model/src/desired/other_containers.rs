//! Renders sidecars and init containers.

use crd::{OtherContainer, PodFields};
use k8s_openapi::api::core::v1::Container;

use super::container::{TERMINATION_MESSAGE_POLICY, resources, security_context};
use super::env::{env_from, env_var};
use super::probes::as_written;
use super::{pod_volumes, some_list};

/// The restart policy of a sidecar.
const ALWAYS: &str = "Always";

/// Renders the init containers of a pod, to which sidecars belong in Kubernetes; `None` without any. The sidecars are first, so
/// that the others can use them.
pub(super) fn render(pod: &PodFields, restricted: bool) -> Option<Vec<Container>> {
    let sidecars = pod.sidecars.iter().map(|sidecar| {
        let probes = sidecar.probes.as_deref().map(as_written).unwrap_or_default();
        Container {
            restart_policy: Some(ALWAYS.into()),
            startup_probe: probes.startup,
            readiness_probe: probes.readiness,
            liveness_probe: probes.liveness,
            ..container(pod, &sidecar.container, restricted)
        }
    });
    let inits = pod.init_containers.iter().map(|one| container(pod, one, restricted));
    let all: Vec<_> = sidecars.chain(inits).collect();
    (!all.is_empty()).then_some(all)
}

fn container(pod: &PodFields, fields: &OtherContainer, restricted: bool) -> Container {
    Container {
        name: fields.name.clone(),
        image: Some(fields.image.clone()),
        image_pull_policy: fields.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        command: some_list(&fields.command, Clone::clone),
        args: some_list(&fields.args, Clone::clone),
        env: some_list(&fields.env, env_var),
        env_from: some_list(&fields.env_from, env_from),
        resources: fields.resources.as_ref().map(resources),
        volume_mounts: pod_volumes::mounts_of(pod, &fields.mounts),
        security_context: Some(security_context(restricted)),
        termination_message_policy: Some(TERMINATION_MESSAGE_POLICY.into()),
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::desired::pod_spec;

    fn rendered(spec: Value) -> Value {
        let pod = serde_json::from_value(spec).unwrap();
        serde_json::to_value(pod_spec(&pod)).unwrap()
    }

    #[test]
    fn sidecars_come_before_init_containers() {
        let found = rendered(json!({"image": "shop:1", "securityProfile": "Restricted",
            "volumes": [
                {"name": "work", "mountPath": "/work", "readOnly": true, "emptyDir": {}},
                {"name": "keys", "secret": {"secretName": "keys"}}],
            "initContainers": [{"name": "migrate", "image": "shop:1", "command": ["/migrate"],
                "env": [{"name": "A", "value": "1"}], "mounts": [{"name": "work", "mountPath": "/out"}]}],
            "sidecars": [{"name": "proxy", "image": "proxy:1", "imagePullPolicy": "Always",
                "resources": {"limits": {"memory": "64Mi"}}, "envFrom": [{"secretRef": {"name": "keys"}}],
                "probes": {"startup": {"tcpSocket": {"port": 15000}}},
                "mounts": [{"name": "keys", "mountPath": "/keys"}, {"name": "work", "mountPath": "/in", "readOnly": true}]}]}));
        let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        assert_eq!(
            found["initContainers"],
            json!([
                {"name": "proxy", "image": "proxy:1", "imagePullPolicy": "Always", "restartPolicy": "Always",
                 "resources": {"limits": {"memory": "64Mi"}}, "envFrom": [{"secretRef": {"name": "keys"}}],
                 "startupProbe": {"tcpSocket": {"port": 15000}}, "securityContext": security,
                 "terminationMessagePolicy": "FallbackToLogsOnError", "volumeMounts": [
                    {"name": "keys", "mountPath": "/keys", "readOnly": true}, {"name": "work", "mountPath": "/in", "readOnly": true}]},
                {"name": "migrate", "image": "shop:1", "command": ["/migrate"], "env": [{"name": "A", "value": "1"}],
                 "securityContext": security, "terminationMessagePolicy": "FallbackToLogsOnError",
                 "volumeMounts": [{"name": "work", "mountPath": "/out"}]},
            ])
        );
        assert_eq!(
            found["containers"][0]["volumeMounts"],
            json!([{"name": "work", "mountPath": "/work", "readOnly": true}]),
            "a volume without mountPath is mounted in other containers only"
        );
    }

    #[test]
    fn pod_without_other_containers_has_no_such_field() {
        assert_eq!(rendered(json!({"image": "shop:1"})).get("initContainers"), None);
    }
}
