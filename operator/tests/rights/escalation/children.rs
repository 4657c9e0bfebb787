//! The spec affects the children, and nothing else does.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Stage;
use crate::harness::{APP, DEPLOYMENT, INGRESS, OPERATOR, POD, PODSET, QUIET, SERVICE, eventually, text};

/// A spec with all that its author may say of pods.
fn everything() -> Value {
    json!({
        "image": "nginx:1.29", "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "registry"}],
        "command": ["sh", "-c"], "args": ["\n}; \" $(A) `id`"], "port": 80, "securityProfile": "Baseline",
        "env": [{"name": "A", "value": "\n}; \" $(B)"},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "own", "key": "password", "optional": true}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}],
        "envFrom": [{"prefix": "C_", "secretRef": {"name": "own", "optional": true}}],
        "healthCheck": {"path": "/healthz", "port": 8080, "periodSeconds": 5, "timeoutSeconds": 1, "startupSeconds": 60},
        "ports": [{"name": "dns", "port": 80, "protocol": "UDP", "appProtocol": "a"}],
        "preStopSleepSeconds": 5, "terminationGracePeriodSeconds": 20,
        "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}},
    })
}

/// Probes with all that can be said of them.
fn probes() -> Value {
    let http = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTPS",
        "httpHeaders": [{"name": "Host", "value": "shop.example.com"}]}, "initialDelaySeconds": 1});
    json!({"readiness": http, "liveness": {"exec": {"command": ["true"]}}, "startup": {"grpc": {"port": 8080, "service": "a"}}})
}

/// Metadata that an author might expect to be copied.
fn meta(name: &str) -> Value {
    json!({"name": name,
        "labels": {"app": "of-another", "appdeploy.dev/app": "other", "pod-security.kubernetes.io/enforce": "privileged"},
        "annotations": {"nginx.ingress.kubernetes.io/configuration-snippet": "evil", "kubectl.kubernetes.io/restartedAt": "\n}"}})
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object
        .as_object()
        .map(|fields| fields.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

#[track_caller]
fn has_only(object: &Value, allowed: &[&str]) {
    let beyond: Vec<_> = keys(object).into_iter().filter(|key| !allowed.contains(key)).collect();
    assert!(beyond.is_empty(), "{beyond:?} in {object:#}");
}

/// A pod without any privileges.
fn is_harmless(spec: &Value) {
    has_only(
        spec,
        &[
            "automountServiceAccountToken",
            "containers",
            "dnsPolicy",
            "enableServiceLinks",
            "imagePullSecrets",
            "restartPolicy",
            "schedulerName",
            "securityContext",
            "terminationGracePeriodSeconds",
            // Admission adds these to every pod.
            "preemptionPolicy",
            "priority",
            "tolerations",
        ],
    );
    assert_eq!(
        (&spec["automountServiceAccountToken"], &spec["enableServiceLinks"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(
        (text(spec, "/dnsPolicy"), text(spec, "/schedulerName")),
        ("ClusterFirst", "default-scheduler")
    );
    assert_eq!(
        spec["securityContext"],
        json!({"seccompProfile": {"type": "RuntimeDefault"}})
    );
    for toleration in spec["tolerations"].as_array().into_iter().flatten() {
        let key = text(toleration, "/key");
        assert!(
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].contains(&key),
            "{spec:#}"
        );
    }
    assert_eq!(spec["containers"].as_array().unwrap().len(), 1);
    let container = &spec["containers"][0];
    has_only(
        container,
        &[
            "args",
            "command",
            "env",
            "envFrom",
            "image",
            "imagePullPolicy",
            "lifecycle",
            "livenessProbe",
            "name",
            "ports",
            "readinessProbe",
            "resources",
            "securityContext",
            "startupProbe",
            "terminationMessagePath",
            "terminationMessagePolicy",
        ],
    );
    assert_eq!(container["lifecycle"], json!({"preStop": {"sleep": {"seconds": 5}}}));
    assert_eq!(container["securityContext"], json!({"allowPrivilegeEscalation": false}));
    assert_eq!(container["ports"].as_array().unwrap().len(), 2);
    for port in container["ports"].as_array().unwrap() {
        has_only(port, &["containerPort", "name", "protocol"]);
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[probe];
        has_only(&probe["httpGet"], &["httpHeaders", "path", "port", "scheme"]);
        has_only(&probe["grpc"], &["port", "service"]);
        has_only(&probe["exec"], &["command"]);
        let handlers = ["exec", "grpc", "httpGet", "tcpSocket"];
        let count = handlers.iter().filter(|handler| probe.get(**handler).is_some()).count();
        assert_eq!((count, probe.get("tcpSocket")), (1, None), "{probe:#}");
    }
}

#[test]
fn only_the_spec_affects_the_children() {
    let stage = Stage::new("children");
    let space = &stage.space;
    // The policy of the namespace applies to the operator's pods, too.
    space
        .cluster
        .control_plane
        .kubectl(&[
            "label",
            "namespace",
            &space.name,
            "pod-security.kubernetes.io/enforce=baseline",
        ])
        .unwrap();
    let mut app = everything();
    app["tls"] = json!({"secretName": "own"});
    stage.create(APP, "strict", meta("shop"), app).unwrap();
    let mut template = everything();
    template.as_object_mut().unwrap().remove("healthCheck");
    template["probes"] = probes();
    let set = json!({"replicas": 1, "template": template});
    stage.create(PODSET, "strict", meta("set"), set).unwrap();
    let [deployment, service, ingress] = [DEPLOYMENT, SERVICE, INGRESS].map(|kind| space.until_there(kind, "shop"));
    let pod = space.until_there(POD, "set-0");
    for child in [&deployment, &deployment["spec"]["template"], &service, &ingress, &pod] {
        has_only(
            &child["metadata"]["labels"],
            &[
                "app.kubernetes.io/managed-by",
                "app.kubernetes.io/name",
                crd::label::APP,
                crd::label::PODSET,
            ],
        );
        let ours = keys(&child["metadata"]["annotations"])
            .into_iter()
            .all(|key| key.starts_with("appdeploy.dev/"));
        assert!(ours, "{child:#}");
    }
    assert_eq!(deployment["metadata"]["labels"][crd::label::APP], "shop");
    is_harmless(&deployment["spec"]["template"]["spec"]);
    is_harmless(&pod["spec"]);
    let twin = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "twin", "namespace": space.name},
        "spec": deployment["spec"]["template"]["spec"]});
    let admin = space
        .cluster
        .control_plane
        .kubectl_as(&space.cluster.control_plane.kubeconfig());
    admin
        .run_with_input(&["create", "--dry-run=server", "-f", "-"], &twin.to_string())
        .unwrap();

    has_only(&ingress["spec"], &["ingressClassName", "rules", "tls"]);
    assert_eq!(ingress["spec"]["rules"][0]["host"], format!("shop.{}", space.name));
    assert_eq!(
        ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"],
        "shop"
    );
    assert_eq!(service["spec"]["type"], "ClusterIP");
    for field in ["externalIPs", "externalName", "loadBalancerIP", "externalTrafficPolicy"] {
        assert!(service["spec"].get(field).is_none(), "{field}");
    }
    std::thread::sleep(QUIET);
    let asked = space
        .cluster
        .control_plane
        .audit()
        .all()
        .unwrap()
        .by_user(OPERATOR)
        .writes();
    let system = ["", "default", crd::OPERATOR_NAMESPACE, "kube-system", "kube-public"];
    let elsewhere = asked.that(|request| system.contains(&request.namespace.as_str()));
    assert_eq!(elsewhere.count(), 0, "{:?}", elsewhere.tally());
}

/// A PodSet adopts pods by their label, as a ReplicaSet does: those without a controller, in its own namespace.
#[test]
fn pod_set_adopts_no_pod_with_a_controller() {
    let stage = Stage::new("adopts");
    let owner = stage
        .space
        .create(APP, json!({"metadata": {"name": "owner"}, "spec": {"image": "nginx"}}));
    let spec = json!({"containers": [{"name": "app", "image": "app"}]});
    let references = json!([{"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "owner", "controller": true,
        "uid": owner["metadata"]["uid"]}]);
    let pod = |name: &str, meta: Value| {
        let mut meta = meta;
        meta["name"] = json!(name);
        stage.space.create(POD, json!({"metadata": meta, "spec": spec}));
        stage.space.bytes(POD, name)
    };
    let before = [
        pod("unlabelled", json!({})),
        pod(
            "owned",
            json!({"labels": {crd::label::PODSET: "set"}, "ownerReferences": references}),
        ),
        pod("set-0", json!({"labels": {"app": "of-another"}})),
    ];
    let set = json!({"replicas": 1, "template": {"image": "nginx"}});
    stage.create(PODSET, "strict", json!({"name": "set"}), set).unwrap();
    eventually("the owner of the name is reported", || {
        text(&stage.space.get(PODSET, "set"), "/status/cause/reason") == "NameConflict"
    });
    stage.kubectl(&["scale", "podset", "set", "--replicas=0"], "").unwrap();
    stage.kubectl(&["delete", "podset", "set"], "").unwrap();
    std::thread::sleep(QUIET);
    let after = ["unlabelled", "owned", "set-0"].map(|name| stage.space.bytes(POD, name));
    assert_eq!(after, before);
}
