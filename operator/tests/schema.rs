//! The API server refuses what can't work, with a sentence that says what to write instead.

mod containers;
mod ownership;
mod pods;
mod status;
mod stored;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, Namespace, Shared};

fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| Cluster::start(ControlPlane::builder())).namespace(name)
}

/// A spec with a port, and other fields.
fn with(fields: Value) -> Value {
    let mut spec = json!({"image": "nginx", "port": 80});
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    spec
}

/// Names that no Secret or ConfigMap can have.
const HOSTILE: [&str; 7] = ["a b", "x;id", "$(id)", "Db", "-n", "../x", "a\u{1b}[2Jb"];

/// Specs that refer to an object of a name, in each field that does.
fn references(name: &str) -> Vec<(Value, &'static str)> {
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("a");
        volume["mountPath"] = json!("/a");
        with(json!({"volumes": [volume]}))
    };
    let from = |field: &str| with(json!({"env": [{"name": "A", "valueFrom": {field: {"name": name, "key": "k"}}}]}));
    let all = |field: &str| with(json!({"envFrom": [{field: {"name": name}}]}));
    vec![
        (
            with(json!({"imagePullSecrets": [{"name": name}]})),
            "write it like registry-password",
        ),
        (with(json!({"tls": {"secretName": name}})), "write it like shop-tls"),
        (
            volume(json!({"configMap": {"name": name}})),
            "write it like shop-config",
        ),
        (
            volume(json!({"secret": {"secretName": name}})),
            "write it like shop-keys",
        ),
        (with(json!({"serviceAccount": {"name": name}})), "write it like shop"),
        (from("secretKeyRef"), "write it like shop-db"),
        (from("configMapKeyRef"), "write it like shop-db"),
        (all("secretRef"), "write it like shop-db"),
        (all("configMapRef"), "write it like shop-db"),
    ]
}

/// Specs with a request above its limit, as numbers and as texts.
fn requests_above_limits() -> impl Iterator<Item = (Value, &'static str)> {
    let amounts = [
        ("cpu", json!(2), json!("1500m")),
        ("cpu", json!(3), json!(2)),
        ("memory", json!("2Gi"), json!("1024Mi")),
        ("ephemeral-storage", json!("1.1"), json!(1)),
    ];
    amounts.into_iter().map(|(name, request, limit)| {
        let resources = json!({"requests": {name: request}, "limits": {name: limit}});
        (with(json!({"resources": resources})), "a request is above its limit")
    })
}

fn bad_specs() -> Vec<(Value, &'static str)> {
    let image = "write it like nginx or ghcr.io/acme/shop:1.4";
    let host = "write it like shop.example.com";
    let path = "a path starts with '/'";
    [
        (json!({}), "spec.image: Required value"),
        (json!({"image": ""}), "at least 1 chars long"),
        (json!({"image": "Nginx"}), image),
        (json!({"image": "a b"}), image),
        (json!({"image": "nginx\n"}), image),
        (json!({"image": "nginx:a:b"}), image),
        (with(json!({"args": ["x".repeat(131_073)]})), "131072"),
        (
            with(json!({"resources": {"limits": {"mem": "64Mi"}}})),
            "unknown resource: use cpu, memory",
        ),
        (with(json!({"resources": {"limits": {"cpu": "1".repeat(65)}}})), "64"),
        (
            with(json!({"resources": {"limits": {(format!("a/{}", "b".repeat(316))): "1"}}})),
            "the name of a resource has at most 317 characters",
        ),
        (
            with(json!({"tls": {}})),
            "tls needs a certificate: set spec.tls.secretName",
        ),
        (with(json!({"replicas": -1})), "greater than or equal to 0"),
        (with(json!({"replicas": 1001})), "less than or equal to 1000"),
        (with(json!({"replicas": "3"})), "must be of type integer"),
        (with(json!({"replicas": 1.5})), "must be of type integer"),
        (with(json!({"port": 0})), "greater than or equal to 1"),
        (with(json!({"port": 65536})), "less than or equal to 65535"),
        (
            with(json!({"host": "*.example.com"})),
            "a wildcard host would take the hosts of others",
        ),
        (with(json!({"host": "Shop.example.com"})), host),
        (with(json!({"host": "shop.example.com."})), host),
        (with(json!({"host": "http://shop"})), host),
        (
            with(json!({"host": "10.0.0.1"})),
            "an Ingress has no IP address for a host",
        ),
        (with(json!({"path": "shop"})), path),
        (with(json!({"path": "/a;b"})), path),
        (with(json!({"path": "/a\n}"})), path),
        (
            with(json!({"ingressClassName": "Lane"})),
            "see kubectl get ingressclass",
        ),
        (
            json!({"image": "nginx", "host": "a.b"}),
            "set spec.port, or remove them",
        ),
        (
            with(json!({"expose": "Cluster", "host": "a.b"})),
            "set spec.expose to Public, or remove them",
        ),
        (
            with(json!({"expose": "Ingress"})),
            "supported values: \"Public\", \"Cluster\"",
        ),
        (
            json!({"image": "nginx", "healthCheck": {}}),
            "a health check needs a port to ask",
        ),
        (with(json!({"healthCheck": {"path": "no"}})), "should match"),
        (with(json!({"env": [{"name": "1A"}]})), "starts with no digit"),
        (with(json!({"env": [{"name": "A"}, {"name": "A"}]})), "Duplicate value"),
        (
            with(
                json!({"env": [{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}),
            ),
            "either value or valueFrom",
        ),
        (with(json!({"resources": {"limits": {"cpu": "lots"}}})), "should match"),
        (with(json!({"resources": {"limits": {"cpu": "-1"}}})), "should match"),
        (
            with(json!({"securityProfile": "privileged"})),
            "supported values: \"Baseline\", \"Restricted\"",
        ),
        (
            with(json!({"imagePullPolicy": "Sometimes"})),
            "\"Always\", \"IfNotPresent\", \"Never\"",
        ),
        (
            with(json!({"env": [{"name": "A", "valueFrom": {}}]})),
            "exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        ),
    ]
    .into_iter()
    .chain(requests_above_limits())
    .chain(bad_volumes())
    .chain(pods::bad_fields())
    .chain(containers::bad_containers())
    .chain(HOSTILE.iter().flat_map(|name| references(name)))
    .collect()
}

fn bad_volumes() -> Vec<(Value, &'static str)> {
    let volumes = |volumes: Value| with(json!({"volumes": volumes}));
    let dir = |name: &str, path: &str| json!({"name": name, "mountPath": path, "emptyDir": {}});
    let path = "write it like /etc/nginx/conf.d";
    let one = "a volume needs exactly one of configMap, secret, emptyDir and image";
    let file = |path: &str| {
        let map = json!({"name": "a", "items": [{"key": "a", "path": path}]});
        volumes(json!([{"name": "a", "mountPath": "/a", "configMap": map}]))
    };
    let paths = ["a/b", "/a/", "//a", "/a/../b", "/a/.", "/a:b", "/a b"];
    let paths = paths.map(|bad| (volumes(json!([dir("a", bad)])), path));
    let others = [
        (volumes(json!([dir("A", "/a")])), "write it like config"),
        (volumes(json!([dir("a", "/a"), dir("a", "/b")])), "Duplicate value"),
        (
            volumes(json!([dir("a", "/a"), dir("b", "/a")])),
            "two volumes have the same mountPath",
        ),
        (volumes(json!([{"name": "a", "mountPath": "/a"}])), one),
        (
            volumes(json!([{"name": "a", "mountPath": "/a", "emptyDir": {}, "image": {"reference": "a"}}])),
            one,
        ),
        (
            volumes(json!([{"name": "a", "mountPath": "/a", "readOnly": false, "image": {"reference": "a"}}])),
            "only an emptyDir can be written",
        ),
        (
            volumes(json!([{"name": "a", "mountPath": "/a", "image": {"reference": "a b"}}])),
            "write it like ghcr.io/acme/assets:1.4",
        ),
        (file("../a"), "write it like nginx.conf"),
        (file("/a"), "write it like nginx.conf"),
        (
            with(json!({"serviceAccount": {}})),
            "serviceAccount needs exactly one of name",
        ),
        (
            with(json!({"serviceAccount": {"name": "a", "annotations": {}}})),
            "serviceAccount needs exactly one of name",
        ),
        (
            with(json!({"serviceAccount": {"annotations": {"a b": "c"}}})),
            "write it like eks.amazonaws.com/role-arn",
        ),
        (
            with(json!({"serviceAccount": {"annotations": {"appdeploy.dev/a": "c"}}})),
            "annotations of appdeploy.dev are set by the operator",
        ),
        (
            with(json!({"automountServiceAccountToken": true})),
            "automountServiceAccountToken needs a ServiceAccount: set spec.serviceAccount, or",
        ),
    ];
    paths.into_iter().chain(others).collect()
}

#[test]
fn invalid_spec_is_rejected_with_what_to_write_instead() {
    let shop = namespace("bad");
    for (spec, sentence) in bad_specs() {
        let refused = shop.try_create(APP, json!({"metadata": {"name": "shop"}, "spec": spec}));
        let message = refused.map_or_else(|error| error.to_string(), |_| "it was taken".to_owned());
        assert!(
            message.contains(sentence),
            "{spec}\nexpected: {sentence}\nbut was:  {message}"
        );
    }
}

/// Variables with all fields of a pod that a spec can name.
fn fields_of_pods() -> Vec<Value> {
    let paths = crd::FieldPath::ALL.iter().enumerate();
    let variable =
        |(number, path)| json!({"name": format!("F{number}"), "valueFrom": {"fieldRef": {"fieldPath": path}}});
    paths.map(variable).collect()
}

#[test]
fn valid_spec_is_accepted() {
    let shop = namespace("good");
    let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let specs = [
        json!({"image": "nginx"}),
        json!({"image": format!("registry.example.com:5000/acme/shop_a.b-c:v1.2@{digest}"), "replicas": 0}),
        with(json!({"port": 65535, "host": "xn--bcher-kva.example", "path": "/a/~b/c_d.e-f"})),
        with(json!({"port": 1, "expose": "Cluster", "replicas": 1000})),
        with(
            json!({"healthCheck": {}, "resources": {"requests": {"cpu": "0.5", "memory": "64Mi"}, "limits": {"cpu": 2}}}),
        ),
        with(
            json!({"resources": {"requests": {"cpu": 2, "memory": "1Gi", "ephemeral-storage": 1, "example.com/gpu": 1},
                "limits": {"cpu": "2000m", "memory": "1024Mi", "ephemeral-storage": 2, "example.com/gpu": "1"}}}),
        ),
        json!({"image": "nginx", "healthCheck": {"port": 8080, "path": "/healthz?full=1"}}),
        json!({"image": "nginx", "envFrom": [{"prefix": "DB_", "secretRef": {"name": "db", "optional": true}},
            {"configMapRef": {"name": "look.1"}}], "env": fields_of_pods()}),
        json!({"image": "nginx", "probes": {}}),
        json!({"image": "nginx", "metrics": {"port": 9100, "path": "/prom?a=b"}}),
        with(json!({"ports": [{"name": "metrics", "port": 81}], "metrics": {"port": 81}})),
        with(json!({"ports": [{"name": "metrics", "port": 81}], "metrics": {}})),
        json!({"image": "nginx", "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/a", "b": ""}},
            "automountServiceAccountToken": true}),
        json!({"image": "nginx", "hostUsers": false, "placement": {
            "nodeSelector": {"topology.kubernetes.io/zone": "eu_1", "empty": ""}, "tolerations": [{"operator": "Exists"},
            {"key": "nvidia.com/gpu", "value": "a", "effect": "NoExecute", "tolerationSeconds": 0}]}}),
        with(
            json!({"ports": [{"name": "grpc", "port": 81, "appProtocol": "kubernetes.io/h2c"},
            {"name": "dns", "port": 80, "protocol": "UDP"}]}),
        ),
        json!({"image": "nginx", "rollout": {"type": "Recreate", "progressDeadlineSeconds": 60}}),
        json!({"image": "nginx", "rollout": {"maxSurge": 0, "maxUnavailable": "100%"}, "preStopSleepSeconds": 29}),
        json!({"image": "nginx", "rollout": {}, "preStopSleepSeconds": 50, "terminationGracePeriodSeconds": 51}),
        json!({"image": "nginx", "probes": {
            "readiness": {"httpGet": {"path": "/ready?full=1", "port": 8443, "scheme": "HTTPS",
                "httpHeaders": [{"name": "Host", "value": "shop.example.com"}]}, "successThreshold": 3},
            "liveness": {"exec": {"command": ["/alive", ""]}, "terminationGracePeriodSeconds": 1},
            "startup": {"grpc": {"port": 9090, "service": "shop"}, "initialDelaySeconds": 0, "failureThreshold": 1000}}}),
        json!({"image": "nginx", "serviceAccount": {"name": "shop"}, "automountServiceAccountToken": true, "volumes": [
            {"name": "config", "mountPath": "/etc/nginx/conf.d", "readOnly": true, "configMap": {"name": "web.conf",
                "optional": true, "items": [{"key": "default.conf", "path": "a/default.conf"}]}},
            {"name": "keys", "mountPath": "/keys", "secret": {"secretName": "keys"}},
            {"name": "tmp", "mountPath": "/tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "assets", "mountPath": "/a..b/.c", "image": {"reference": "assets@sha256:0123456789abcdef0123456789abcdef"}}]}),
    ];
    for (number, spec) in specs.into_iter().chain(containers::good_containers()).enumerate() {
        shop.app(&format!("shop-{number}"), spec);
    }
}

#[test]
fn name_of_an_app_must_be_valid_as_host_and_service() {
    let shop = namespace("names");
    let long = "a".repeat(53);
    shop.app(&long, json!({"image": "nginx"}));
    shop.app("a", json!({"image": "nginx"}));
    for (name, sentence) in [
        ("1shop", "the name becomes a host and a Service"),
        ("a.b", "the name becomes a host and a Service"),
        (&format!("{long}a"), "use at most 53 characters"),
    ] {
        let refused = shop.try_create(APP, json!({"metadata": {"name": name}, "spec": {"image": "nginx"}}));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(sentence), "{name}: {message}");
    }
}

/// A user who may write AppDeploys must not be able to do with the operator what their own rights do not allow.
#[test]
fn fields_with_effects_outside_the_pods_do_not_exist() {
    let shop = namespace("further");
    let further = json!({"serviceAccountName": "admin", "hostNetwork": true, "nodeName": "control-plane",
        "namespace": "kube-system", "volumeMounts": [{"name": "root", "mountPath": "/"}], "privileged": true});
    let spec = shop.app("shop", with(further))["spec"].clone();
    let mut kept: Vec<&String> = spec.as_object().unwrap().keys().collect();
    kept.sort();
    assert_eq!(
        kept,
        ["image", "port", "replicas"],
        "with the default of replicas, and nothing else"
    );
}

#[test]
fn kubectl_explains_every_field() {
    let shop = namespace("explain");
    let explained = shop.kubectl(&["explain", "appdeploy.spec"]);
    for description in [
        "The container image to run, such as `nginx`",
        "The number of pods. 0 stops the application",
        "Where the application can be reached",
        "The TCP port that the application listens on",
    ] {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words(&explained).contains(description),
            "{description} is not in\n{explained}"
        );
    }
    let fields = shop.kubectl(&["explain", "appdeploy", "--recursive"]);
    assert!(
        fields.contains("secretKeyRef") && fields.contains("lastTransitionTime"),
        "{fields}"
    );
    assert!(
        !shop
            .kubectl(&["explain", "appdeploy.status"])
            .contains("<no description>")
    );
}
