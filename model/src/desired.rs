//! Renders the children of an app as Kubernetes objects.
//!
//! Rendering can't fail, because it takes a [`Valid`] app. The operator, `--dry-run` and `export` get the same bytes.

mod container;
mod env;
mod other_containers;
mod placement;
pub(crate) mod pod_template;
mod pod_volumes;
pub(crate) mod ports;
pub(crate) mod probes;
pub(crate) mod queue_env;

pub(crate) use pod_template::{app_pod_spec, pod_spec};

use std::collections::BTreeMap;

use crd::{annotation, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;
use serde_json::{Value, json};

use crate::children::CHILDREN;
use crate::digest::stable_hash;
use crate::{ChildId, ChildKind, Valid, deferred_defaults};

/// The name of the container.
pub const CONTAINER: &str = "app";
/// The name of the port in the container and in the Service.
pub const PORT: &str = "http";

/// The desired children of an app, in the order in which they are written. Other children of the app are pruned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired(Vec<DesiredChild>);

/// A desired child.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredChild {
    /// Its kind and name.
    pub id: ChildId,
    /// The object to send.
    pub object: Value,
}

impl Desired {
    /// Returns all children.
    pub fn iter(&self) -> impl Iterator<Item = &DesiredChild> {
        self.0.iter()
    }

    /// Returns the children of a kind.
    pub fn of(&self, kind: &ChildKind) -> impl Iterator<Item = &DesiredChild> {
        self.iter().filter(move |wanted| wanted.id.kind == kind)
    }

    /// Returns the child of a kind that an app has at most one of.
    #[must_use]
    pub fn first(&self, kind: &ChildKind) -> Option<&Value> {
        self.of(kind).map(|wanted| &wanted.object).next()
    }

    /// Returns the child of this kind and name.
    #[must_use]
    pub fn get(&self, id: &ChildId) -> Option<&Value> {
        self.iter().find(|wanted| wanted.id == *id).map(|wanted| &wanted.object)
    }

    /// Whether the app has a child of this kind and name.
    #[must_use]
    pub fn contains(&self, id: &ChildId) -> bool {
        self.iter().any(|wanted| wanted.id == *id)
    }

    /// Keeps only the children of some kinds.
    pub fn retain(&mut self, is_kept: impl Fn(&ChildKind) -> bool) {
        self.0.retain(|wanted| is_kept(wanted.id.kind));
    }
}

/// Renders the children of an app.
#[must_use]
pub fn desired(app: &Valid<'_>) -> Desired {
    render(CHILDREN, app)
}

/// Renders the children of an app, of some kinds only.
#[must_use]
pub fn render(kinds: &[&'static ChildKind], app: &Valid<'_>) -> Desired {
    let of_kind = |kind: &'static ChildKind| {
        (kind.render)(app).into_iter().map(move |object| DesiredChild {
            id: ChildId::new(kind, object["metadata"]["name"].as_str().unwrap_or_default()),
            object,
        })
    };
    let kinds = kinds.iter().copied().filter(|kind| app.serves(kind));
    Desired(kinds.flat_map(of_kind).collect())
}

/// Returns the label that selects the pods of an app. Selectors are immutable, so it must never change.
#[must_use]
pub fn selector(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(label::APP.to_owned(), name.to_owned())])
}

fn labels(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (label::APP.to_owned(), name.to_owned()),
        (label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned()),
        (label::NAME.to_owned(), name.to_owned()),
    ])
}

/// Returns the labels of pods. `app.kubernetes.io/name` is not one of them: any user can choose the name of an app, and a
/// Service of another application may select pods by this label.
fn pod_labels(name: &str) -> BTreeMap<String, String> {
    let mut labels = selector(name);
    labels.insert(label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned());
    labels
}

/// Returns the metadata of a child: name, labels and owner reference. Annotations of the AppDeploy are not copied, because an
/// ingress controller may act on them.
#[must_use]
pub fn meta(app: &Valid<'_>) -> ObjectMeta {
    ObjectMeta {
        name: Some(app.name.clone()),
        namespace: Some(app.namespace.clone()),
        labels: Some(labels(&app.name)),
        owner_references: (!app.uid.is_empty()).then(|| {
            vec![OwnerReference {
                api_version: format!("{}/{}", crd::GROUP, crd::VERSION),
                kind: "AppDeploy".into(),
                name: app.name.clone(),
                uid: app.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]
        }),
        ..ObjectMeta::default()
    }
}

/// Converts a list; `None` if it is empty.
fn some_list<T, U>(items: &[T], convert: impl Fn(&T) -> U) -> Option<Vec<U>> {
    (!items.is_empty()).then(|| items.iter().map(convert).collect())
}

/// Serializes a typed object, and adds its hash as an annotation.
#[must_use]
pub fn finish(kind: &ChildKind, object: &impl Serialize) -> Value {
    // A typed object always serializes: its keys are strings.
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(kind.api_version());
    value["kind"] = json!(kind.kind);
    value["metadata"]["annotations"][annotation::DESIRED_HASH] =
        json!(format!("{:016x}", deferred_defaults::oldest_hash(&value)));
    value
}

/// Returns the hash that [`finish`] has added to an object.
#[must_use]
pub fn desired_hash(object: &Value) -> u64 {
    let hash = object["metadata"]["annotations"][annotation::DESIRED_HASH].as_str();
    let hash = hash.and_then(|hash| u64::from_str_radix(hash, 16).ok());
    hash.unwrap_or_else(|| stable_hash(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children::{DEPLOYMENT, INGRESS, POD_MONITOR, SERVICE, SERVICE_ACCOUNT};
    use crate::validate;

    fn render(name: &str, spec: Value) -> Desired {
        let app = serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": name, "namespace": "default", "uid": "u1"}, "spec": spec,
        }))
        .unwrap();
        desired(&validate(&app).unwrap())
    }

    #[test]
    fn app_with_every_field() {
        let objects = render(
            "shop",
            json!({
                "image": "ghcr.io/acme/shop:1.4", "replicas": 3, "port": 8080, "host": "shop.example.com", "path": "/cart",
                "ingressClassName": "traefik", "tls": {"secretName": "shop-tls"},
                "env": [{"name": "MODE", "value": "live"},
                        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
                        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "look", "key": "colour", "optional": true}}},
                        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "envFrom": [{"prefix": "DB_", "secretRef": {"name": "db"}}, {"configMapRef": {"name": "look", "optional": true}}],
                "command": ["/shop"], "args": ["--verbose"],
                "resources": {"requests": {"cpu": 0.5, "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
                "healthCheck": {"path": "/healthz", "startupSeconds": 30},
                "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "registry"}], "securityProfile": "Restricted",
                "ports": [{"name": "grpc", "port": 9090, "appProtocol": "kubernetes.io/h2c"}, {"name": "dns", "port": 9090, "protocol": "UDP"}],
                "terminationGracePeriodSeconds": 60, "preStopSleepSeconds": 5,
                "rollout": {"type": "RollingUpdate", "maxSurge": 1, "maxUnavailable": "10%", "progressDeadlineSeconds": 120},
                "volumes": [
                    {"name": "config", "mountPath": "/etc/shop", "configMap": {"name": "shop", "optional": true,
                        "items": [{"key": "shop.toml", "path": "conf/shop.toml"}]}},
                    {"name": "keys", "mountPath": "/keys", "readOnly": true, "secret": {"secretName": "shop-keys", "optional": false,
                        "items": [{"key": "tls.key", "path": "tls.key"}]}},
                    {"name": "cache", "mountPath": "/var/cache/shop", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
                    {"name": "inbox", "mountPath": "/inbox", "readOnly": true, "emptyDir": {}},
                    {"name": "assets", "mountPath": "/assets", "image": {"reference": "ghcr.io/acme/assets:1.4",
                        "pullPolicy": "Always"}},
                    {"name": "spool", "emptyDir": {}}],
                "initContainers": [{"name": "migrate", "image": "ghcr.io/acme/shop:1.4", "command": ["/migrate"],
                    "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "admin"}}}],
                    "mounts": [{"name": "config", "mountPath": "/etc/shop"}]}],
                "sidecars": [{"name": "exporter", "image": "ghcr.io/acme/exporter:2", "args": ["--all"],
                    "envFrom": [{"configMapRef": {"name": "exporter"}}], "imagePullPolicy": "IfNotPresent",
                    "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "32Mi"}},
                    "probes": {"liveness": {"tcpSocket": {"port": 9100}}},
                    "mounts": [{"name": "spool", "mountPath": "/spool"}, {"name": "cache", "mountPath": "/cache", "readOnly": true}]}],
                "serviceAccount": {"name": "shop"}, "automountServiceAccountToken": true, "onConfigChange": "Restart",
                "hostUsers": false,
                "metrics": {"port": 9100, "path": "/prometheus"},
                "placement": {"nodeSelector": {"disktype": "ssd"}, "tolerations": [{"key": "dedicated", "operator": "Equal",
                    "value": "shop", "effect": "NoExecute", "tolerationSeconds": 60}, {"operator": "Exists"}]}
            }),
        );
        insta::assert_yaml_snapshot!(objects.iter().map(|wanted| &wanted.object).collect::<Vec<_>>());
    }

    #[test]
    fn pods_have_the_hash_of_config_maps_that_have_changed() {
        let mut app: crd::AppDeploy =
            serde_json::from_value(json!({"metadata": {"name": "shop"}, "spec": {"image": "shop"}})).unwrap();
        let annotations = |app: &crd::AppDeploy| {
            let objects = desired(&validate(app).unwrap());
            let metadata = objects.first(&DEPLOYMENT).unwrap()["spec"]["template"]["metadata"].clone();
            metadata.get("annotations").cloned()
        };
        assert_eq!(annotations(&app), None);
        app.status.get_or_insert_default().config_hash = Some("1234".into());
        assert_eq!(annotations(&app), Some(json!({"appdeploy.dev/config-hash": "1234"})));
    }

    #[test]
    fn only_what_is_set_of_a_rollout_is_rendered() {
        let of = |rollout: Value| {
            let objects = render("shop", json!({"image": "shop", "rollout": rollout}));
            objects.first(&DEPLOYMENT).unwrap()["spec"].get("strategy").cloned()
        };
        assert_eq!(of(json!({})), None);
        assert_eq!(of(json!({"progressDeadlineSeconds": 60})), None);
        assert_eq!(
            of(json!({"type": "RollingUpdate"})),
            Some(json!({"type": "RollingUpdate"}))
        );
        assert_eq!(
            of(json!({"maxSurge": 1})),
            Some(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}))
        );
        assert_eq!(of(json!({"type": "Recreate"})), Some(json!({"type": "Recreate"})));
    }

    #[test]
    fn app_with_every_probe() {
        let objects = render(
            "shop",
            json!({"image": "shop", "port": 8080, "probes": {
                "readiness": {"httpGet": {"path": "/ready", "port": 8081, "scheme": "HTTPS",
                    "httpHeaders": [{"name": "Host", "value": "shop.example.com"}]}, "successThreshold": 2},
                "liveness": {"exec": {"command": ["/alive"]}, "initialDelaySeconds": 5, "timeoutSeconds": 2,
                    "terminationGracePeriodSeconds": 5},
                "startup": {"grpc": {"port": 9090, "service": "shop"}, "periodSeconds": 1, "failureThreshold": 60}}}),
        );
        let container = "/spec/template/spec/containers/0";
        let container = objects.first(&DEPLOYMENT).unwrap().pointer(container).unwrap();
        let probes = ["readinessProbe", "livenessProbe", "startupProbe"].map(|probe| &container[probe]);
        insta::assert_yaml_snapshot!(probes);
    }

    #[test]
    fn port_is_checked_unless_there_is_a_readiness_probe() {
        let of = |readiness: Value| {
            let probes = json!({"liveness": {"exec": {"command": ["/alive"]}}, "readiness": readiness});
            let objects = render("shop", json!({"image": "shop", "port": 8080, "probes": probes}));
            let readiness = "/spec/template/spec/containers/0/readinessProbe";
            objects.first(&DEPLOYMENT).unwrap().pointer(readiness).unwrap().clone()
        };
        assert_eq!(of(Value::Null)["tcpSocket"]["port"], 8080);
        let grpc = json!({"grpc": {"port": 9090}});
        assert_eq!(of(grpc.clone()), grpc);
    }

    #[test]
    fn smallest_app() {
        let objects = render("nginx", json!({"image": "nginx", "port": 80}));
        insta::assert_yaml_snapshot!(objects.iter().map(|wanted| &wanted.object).collect::<Vec<_>>());
    }

    #[test]
    fn metrics_have_a_pod_monitor_or_annotations_and_the_same_pods() {
        let app = |metrics: Value| -> crd::AppDeploy {
            let ports = json!([{"name": "admin", "port": 9000}, {"name": "dns", "port": 9090, "protocol": "UDP"}]);
            let spec = json!({"image": "shop", "port": 80, "ports": ports, "metrics": metrics});
            serde_json::from_value(json!({"metadata": {"name": "shop", "namespace": "a", "uid": "u1"}, "spec": spec}))
                .unwrap()
        };
        for (metrics, name, number, path) in [
            (json!({}), "http", "80", "/metrics"),
            (json!({"port": 9000, "path": "/prom"}), "admin", "9000", "/prom"),
            (json!({"port": 9090}), "metrics", "9090", "/metrics"),
        ] {
            let app = app(metrics);
            let without = validate(&app).unwrap();
            let with = Valid {
                served: vec![&POD_MONITOR],
                ..without.clone()
            };
            let (with, without) = (desired(&with), desired(&without));
            assert_eq!(without.first(&POD_MONITOR), None);
            let annotations = &without.first(&SERVICE).unwrap()["metadata"]["annotations"];
            assert_eq!(
                ["scrape", "port", "path"].map(|key| &annotations[format!("prometheus.io/{key}")]),
                [&json!("true"), &json!(number), &json!(path)]
            );
            let service = with.first(&SERVICE).unwrap();
            let annotations = service["metadata"]["annotations"].as_object().unwrap();
            assert_eq!(annotations.keys().collect::<Vec<_>>(), [annotation::DESIRED_HASH]);
            assert_eq!(
                with.first(&POD_MONITOR).unwrap()["spec"],
                json!({"selector": {"matchLabels": {"appdeploy.dev/app": "shop"}},
                    "podMetricsEndpoints": [{"port": name, "path": path}]})
            );
            // An API that appears restarts no pod.
            assert_eq!(with.first(&DEPLOYMENT), without.first(&DEPLOYMENT));
            let ports = with.first(&DEPLOYMENT).unwrap()["spec"]["template"]["spec"]["containers"][0]["ports"].clone();
            let count = if name == "metrics" { 4 } else { 3 };
            assert_eq!(ports.as_array().unwrap().len(), count);
            assert_eq!(service["spec"]["ports"].as_array().unwrap().len(), 3);
        }
    }

    #[test]
    fn own_service_account_has_the_name_of_the_app_and_the_annotations() {
        let children = render(
            "shop",
            json!({"image": "shop", "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/shop"}}}),
        );
        let kinds: Vec<_> = children.iter().map(|wanted| wanted.id.kind).collect();
        assert_eq!(kinds, [&SERVICE_ACCOUNT, &DEPLOYMENT]);
        insta::assert_yaml_snapshot!(children.first(&SERVICE_ACCOUNT).unwrap());
        let pod = &children.first(&DEPLOYMENT).unwrap()["spec"]["template"]["spec"];
        assert_eq!(
            (&pod["serviceAccountName"], &pod["automountServiceAccountToken"]),
            (&json!("shop"), &json!(false))
        );
    }

    #[test]
    fn worker_has_only_a_deployment() {
        let children = render("worker", json!({"image": "busybox"}));
        let kinds: Vec<_> = children.iter().map(|wanted| wanted.id.kind).collect();
        assert_eq!(kinds, [&DEPLOYMENT]);
        let deployment = children.first(&DEPLOYMENT).unwrap();
        assert_eq!(deployment.pointer("/spec/template/spec/containers/0/ports"), None);
    }

    #[test]
    fn host_changes_only_the_ingress() {
        let before = render("web", json!({"image": "nginx", "port": 80}));
        let after = render("web", json!({"image": "nginx", "port": 80, "host": "web.example.com"}));
        assert_eq!(changed(&before, &after), [&INGRESS]);
    }

    #[test]
    fn image_changes_only_the_deployment() {
        let before = render("web", json!({"image": "nginx", "port": 80}));
        let after = render("web", json!({"image": "nginx:1.27", "port": 80}));
        assert_eq!(changed(&before, &after), [&DEPLOYMENT]);
    }

    fn changed(before: &Desired, after: &Desired) -> Vec<&'static ChildKind> {
        let kinds = CHILDREN.iter().copied();
        kinds.filter(|kind| before.first(kind) != after.first(kind)).collect()
    }
}
