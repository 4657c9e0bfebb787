//! What can be written into a spec.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Stage;
use crate::harness::{APP, Kind, PODSET};

/// All fields for pods. Before one is added, `docs/security.md` must say what its author can do with it beyond their own rights.
const OF_PODS: [&str; 63] = [
    "args",
    "automountServiceAccountToken",
    "command",
    "env.name",
    "env.value",
    "env.valueFrom.configMapKeyRef.key",
    "env.valueFrom.configMapKeyRef.name",
    "env.valueFrom.configMapKeyRef.optional",
    "env.valueFrom.fieldRef.fieldPath",
    "env.valueFrom.secretKeyRef.key",
    "env.valueFrom.secretKeyRef.name",
    "env.valueFrom.secretKeyRef.optional",
    "envFrom.configMapRef.name",
    "envFrom.configMapRef.optional",
    "envFrom.prefix",
    "envFrom.secretRef.name",
    "envFrom.secretRef.optional",
    "healthCheck.path",
    "healthCheck.periodSeconds",
    "healthCheck.port",
    "healthCheck.startupSeconds",
    "healthCheck.timeoutSeconds",
    "hostUsers",
    "image",
    "imagePullPolicy",
    "imagePullSecrets.name",
    "metrics.path",
    "metrics.port",
    "onConfigChange",
    "placement.nodeSelector.*",
    "placement.tolerations.effect",
    "placement.tolerations.key",
    "placement.tolerations.operator",
    "placement.tolerations.tolerationSeconds",
    "placement.tolerations.value",
    "port",
    "ports.appProtocol",
    "ports.name",
    "ports.port",
    "ports.protocol",
    "preStopSleepSeconds",
    "queues.name",
    "resources.limits.*",
    "resources.requests.*",
    "securityProfile",
    "serviceAccount.annotations.*",
    "serviceAccount.name",
    "terminationGracePeriodSeconds",
    "volumes.configMap.items.key",
    "volumes.configMap.items.path",
    "volumes.configMap.name",
    "volumes.configMap.optional",
    "volumes.emptyDir.medium",
    "volumes.emptyDir.sizeLimit",
    "volumes.image.pullPolicy",
    "volumes.image.reference",
    "volumes.mountPath",
    "volumes.name",
    "volumes.readOnly",
    "volumes.secret.items.key",
    "volumes.secret.items.path",
    "volumes.secret.optional",
    "volumes.secret.secretName",
];
/// The fields of each probe.
const OF_PROBES: [&str; 15] = [
    "exec.command",
    "failureThreshold",
    "grpc.port",
    "grpc.service",
    "httpGet.httpHeaders.name",
    "httpGet.httpHeaders.value",
    "httpGet.path",
    "httpGet.port",
    "httpGet.scheme",
    "initialDelaySeconds",
    "periodSeconds",
    "successThreshold",
    "tcpSocket.port",
    "terminationGracePeriodSeconds",
    "timeoutSeconds",
];
/// The fields of each init container and sidecar.
const OF_OTHERS: [&str; 24] = [
    "args",
    "command",
    "env.name",
    "env.value",
    "env.valueFrom.configMapKeyRef.key",
    "env.valueFrom.configMapKeyRef.name",
    "env.valueFrom.configMapKeyRef.optional",
    "env.valueFrom.fieldRef.fieldPath",
    "env.valueFrom.secretKeyRef.key",
    "env.valueFrom.secretKeyRef.name",
    "env.valueFrom.secretKeyRef.optional",
    "envFrom.configMapRef.name",
    "envFrom.configMapRef.optional",
    "envFrom.prefix",
    "envFrom.secretRef.name",
    "envFrom.secretRef.optional",
    "image",
    "imagePullPolicy",
    "mounts.mountPath",
    "mounts.name",
    "mounts.readOnly",
    "name",
    "resources.limits.*",
    "resources.requests.*",
];
const OF_APPS: [&str; 11] = [
    "expose",
    "host",
    "ingressClassName",
    "path",
    "paused",
    "replicas",
    "rollout.maxSurge",
    "rollout.maxUnavailable",
    "rollout.progressDeadlineSeconds",
    "rollout.type",
    "tls.secretName",
];
const OF_SETS: [&str; 6] = [
    "maxUnavailable",
    "minReadySeconds",
    "paused",
    "replacePods.name",
    "replacePods.uid",
    "replicas",
];

/// What a pod template has, and must not be had through us.
const BEYOND: [&str; 34] = [
    "activeDeadlineSeconds",
    "affinity",
    "annotations",
    "containers",
    "dnsConfig",
    "dnsPolicy",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "hostname",
    "labels",
    "lifecycle",
    "metadata",
    "namespace",
    "nodeName",
    "nodeSelector",
    "podTemplate",
    "priorityClassName",
    "privileged",
    "resourceClaims",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "selector",
    "serviceAccountName",
    "shareProcessNamespace",
    "sysctls",
    "tolerations",
    "topologySpreadConstraints",
    "volumeDevices",
    "volumeMounts",
];

/// What an Ingress, a Service or a Deployment has beyond that.
const BEYOND_PODS: [&str; 7] = [
    "defaultBackend",
    "externalIPs",
    "externalName",
    "ingressAnnotations",
    "loadBalancerIP",
    "rules",
    "targetNamespace",
];

/// Returns a volume with a source that there is not.
fn volume(source: &str, value: Value) -> Value {
    json!({"volumes": [{"name": "a", "mountPath": "/a", "emptyDir": {}, source: value}]})
}

/// Returns another container with a field that there is not.
fn other(list: &str, field: &str, value: Value) -> Value {
    json!({list: [{"name": "a", "image": "a", field: value}]})
}

/// What stands inside of a field that is there, with the name by which the API server complains of it.
fn beyond_inside() -> [(Value, &'static str); 24] {
    [
        (
            json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}),
            "resourceFieldRef",
        ),
        (
            json!({"envFrom": [{"secretRef": {"name": "a", "namespace": "kube-system"}}]}),
            "namespace",
        ),
        (json!({"healthCheck": {"exec": {"command": ["sh"]}}}), "exec"),
        (
            json!({"ports": [{"name": "a", "port": 81, "hostPort": 81}]}),
            "hostPort",
        ),
        (json!({"healthCheck": {"host": "192.0.2.1"}}), "host"),
        (
            json!({"probes": {"readiness": {"httpGet": {"port": 80, "host": "192.0.2.1"}}}}),
            "host",
        ),
        (
            json!({"probes": {"readiness": {"tcpSocket": {"port": 80, "host": "192.0.2.1"}}}}),
            "host",
        ),
        (
            json!({"imagePullSecrets": [{"name": "a", "namespace": "kube-system"}]}),
            "namespace",
        ),
        (json!({"resources": {"claims": [{"name": "gpu"}]}}), "claims"),
        (json!({"placement": {"nodeName": "control-plane"}}), "nodeName"),
        (json!({"placement": {"affinity": {}}}), "affinity"),
        (volume("hostPath", json!({"path": "/"})), "hostPath"),
        (volume("nfs", json!({"server": "192.0.2.1", "path": "/"})), "nfs"),
        (volume("csi", json!({"driver": "a"})), "csi"),
        (volume("projected", json!({"sources": []})), "projected"),
        (volume("downwardAPI", json!({"items": []})), "downwardAPI"),
        (volume("ephemeral", json!({})), "ephemeral"),
        (
            volume("persistentVolumeClaim", json!({"claimName": "a"})),
            "persistentVolumeClaim",
        ),
        (volume("mountPropagation", json!("Bidirectional")), "mountPropagation"),
        (
            other("initContainers", "securityContext", json!({"privileged": true})),
            "securityContext",
        ),
        (
            other("sidecars", "securityContext", json!({"privileged": true})),
            "securityContext",
        ),
        (
            other("sidecars", "ports", json!([{"containerPort": 80, "hostPort": 80}])),
            "ports",
        ),
        (other("sidecars", "volumeDevices", json!([])), "volumeDevices"),
        (
            other(
                "sidecars",
                "lifecycle",
                json!({"preStop": {"httpGet": {"host": "192.0.2.1", "port": 80}}}),
            ),
            "lifecycle",
        ),
    ]
}

/// Returns a spec whose pods have these fields, and the path to them.
fn spec(kind: Kind, fields: &Value) -> (Value, &'static str) {
    let mut pods = json!({"image": "nginx", "port": 80});
    pods.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    match kind.name() {
        "PodSet" => (json!({"template": pods}), "spec.template"),
        _ => (pods, "spec"),
    }
}

#[test]
fn fields_that_grant_more_rights_are_rejected_and_not_stored() {
    let stage = Stage::new("fields");
    for kind in [APP, PODSET] {
        let (harmless, _) = spec(kind, &json!({}));
        stage
            .create(kind, "strict", json!({"name": "harmless"}), harmless)
            .unwrap();
        let kept = stage.space.get(kind, "harmless")["spec"].clone();
        let further = BEYOND.iter().chain(&BEYOND_PODS);
        // The value does not matter: the field is unknown.
        let fields: Map<String, Value> = further.clone().map(|field| (field.to_string(), json!(true))).collect();
        let (evil, path) = spec(kind, &fields.into());
        let refused = stage
            .create(kind, "strict", json!({"name": "evil"}), evil.clone())
            .unwrap_err();
        for field in further {
            let words = format!("unknown field \"{path}.{field}\"");
            assert!(refused.contains(&words), "{words} is not in {refused}");
        }
        stage.create(kind, "ignore", json!({"name": "evil"}), evil).unwrap();
        assert_eq!(stage.space.get(kind, "evil")["spec"], kept, "{kind:?}");
        for (inside, field) in beyond_inside() {
            let (evil, _) = spec(kind, &inside);
            let refused = stage
                .create(kind, "strict", json!({"name": "inside"}), evil)
                .unwrap_err();
            assert!(refused.contains(&format!(".{field}\"")), "{field} is not in {refused}");
        }
    }
    let of_statefulset =
        json!({"template": {"image": "nginx"}, "selector": {}, "serviceName": "a", "volumeClaimTemplates": []});
    let refused = stage
        .create(PODSET, "strict", json!({"name": "of-statefulset"}), of_statefulset)
        .unwrap_err();
    for field in ["selector", "serviceName", "volumeClaimTemplates"] {
        assert!(
            refused.contains(&format!("unknown field \"spec.{field}\"")),
            "{refused}"
        );
    }
}

#[test]
fn each_field_of_the_spec_is_classified() {
    let stage = Stage::new("judged");
    let probes = ["readiness", "liveness", "startup"]
        .iter()
        .flat_map(|probe| OF_PROBES.map(|field| format!("probes.{probe}.{field}")));
    let probes: Vec<String> = probes.collect();
    let of_sidecars = probes.iter().map(|field| format!("sidecars.{field}"));
    let others = ["initContainers", "sidecars"].into_iter();
    let others = others.flat_map(|list| OF_OTHERS.map(|field| format!("{list}.{field}")));
    let of_pods = OF_PODS.map(String::from).into_iter().chain(of_sidecars).chain(others);
    let of_pods: Vec<String> = of_pods.chain(probes.iter().cloned()).collect();
    let apps: BTreeSet<String> = of_pods.iter().cloned().chain(OF_APPS.map(String::from)).collect();
    let in_template = of_pods.iter().map(|field| format!("template.{field}"));
    let sets: BTreeSet<String> = in_template.chain(OF_SETS.map(String::from)).collect();
    for (kind, judged) in [(APP, apps), (PODSET, sets)] {
        let name = format!("{}.{}", kind.plural(), crd::GROUP);
        let definition = stage.space.kubectl(&["get", "crd", &name, "-o", "json"]);
        let definition: Value = serde_json::from_str(&definition).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut found = BTreeSet::new();
        collect(schema, "", &mut found);
        assert_eq!(found, judged, "{name}");
    }
}

/// Collects the paths of all fields that hold a value. One that takes anything would be seen as a value, too.
fn collect(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    assert_ne!(
        schema["x-kubernetes-preserve-unknown-fields"], true,
        "{path} takes anything"
    );
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            let inner = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            collect(property, &inner, found);
        }
    } else if schema["items"].is_object() {
        collect(&schema["items"], path, found);
    } else if schema["additionalProperties"].is_object() {
        collect(&schema["additionalProperties"], &format!("{path}.*"), found);
    } else {
        found.insert(path.to_owned());
    }
}

/// Ingress controllers have been configured, and attacked, through strings that they put into their own files.
#[test]
fn no_field_injects_configuration_into_an_ingress() {
    let stage = Stage::new("text");
    let texts = [
        "a\n}", "a;b", "a\"b", "a{b", "a}b", "a'b", "a b", "a`b", "a$b", "a\\b", "a#b", "*", ".a", "a..b",
    ];
    for field in ["host", "path", "ingressClassName"] {
        for text in texts {
            let value = if field == "path" {
                format!("/{text}")
            } else {
                text.to_owned()
            };
            let (evil, _) = spec(APP, &json!({field: value}));
            let taken = stage.create(APP, "strict", json!({"name": format!("evil-{field}")}), evil);
            // Dots alone are no harm to a path.
            let is_harmless = field == "path" && [".a", "a..b"].contains(&text);
            assert_eq!(taken.is_ok(), is_harmless, "{field} {text:?}: {taken:?}");
            if is_harmless {
                stage.kubectl(&["delete", "appdeploy", "evil-path"], "").unwrap();
            }
        }
    }
    for text in texts {
        let (evil, _) = spec(APP, &json!({"tls": {"secretName": text}}));
        let taken = stage.create(APP, "strict", json!({"name": "evil-secret"}), evil);
        assert!(taken.is_err(), "tls.secretName {text:?}: {taken:?}");
    }
}
