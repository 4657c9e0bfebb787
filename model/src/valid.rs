//! Validates a stored AppDeploy. Children that are rendered from a [`Valid`] app are accepted by Kubernetes.
//!
//! The schema has nearly all of these rules. They are checked again because an object may be older than a rule, and because
//! the schema may have been replaced.

mod containers;
mod metrics;
mod placement;
mod ports;
mod probes;
mod service_account;
mod volumes;

use crd::{AppDeploy, AppDeploySpec, PodFields, RolloutStrategy, RolloutType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;

pub(crate) use self::metrics::is_path as is_metrics_path;
pub(crate) use self::placement::problems as placement_problems;
pub(crate) use self::service_account::is_annotation;
pub(crate) use self::volumes::is_mount_path;
use crate::children::{Api, ChildKind};
use crate::defaults::GRACE;
use crate::resources;

/// The maximum length of a name, so that names derived from it are not too long.
pub const MAX_NAME: usize = 53;

/// A valid AppDeploy, with its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Valid<'a> {
    /// The name of the application and of each child.
    pub name: String,
    /// The namespace of the application and of each child.
    pub namespace: String,
    /// The UID, which each child has in its owner reference. Empty for an app that only exists in a file.
    pub uid: String,
    /// The fields of the pods.
    pub pod: &'a PodFields,
    /// The number of pods.
    pub replicas: i32,
    /// How changed pods are rolled out.
    pub rollout: Option<&'a RolloutStrategy>,
    /// Whether the rollout is paused.
    pub paused: bool,
    /// The time of the last restart, as in the annotation.
    pub restarted_at: Option<String>,
    /// The hash of the ConfigMaps that the pods use, since one of them has changed.
    pub config_hash: Option<String>,
    /// How the app is reached; `None` for a worker.
    pub route: Option<Route>,
    /// The optional kinds of children that the cluster serves. [`validate`] knows none.
    pub served: Vec<&'static ChildKind>,
}

impl Valid<'_> {
    /// Whether the cluster serves a kind of children.
    #[must_use]
    pub fn serves(&self, kind: &ChildKind) -> bool {
        kind.api == Api::Required || self.served.contains(&kind)
    }
}

/// How an app is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The port of the container and of the Service.
    pub port: i32,
    /// The Ingress, if the app is public.
    pub ingress: Option<IngressRoute>,
}

/// The Ingress of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressRoute {
    /// The host name.
    pub host: String,
    /// The path, `/` by default.
    pub path: String,
    /// The IngressClass, if one is named.
    pub class: Option<String>,
    /// The Secret with the certificate, if the host is served over HTTPS.
    pub tls_secret: Option<String>,
}

impl IngressRoute {
    /// Returns the URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls_secret.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host, self.path)
    }
}

/// Why an object is invalid: a message for each field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Invalid(pub Vec<String>);

/// Checks the size of a spec, in bytes of JSON. The limit bounds the memory of the operator's caches.
///
/// # Errors
/// Returns a message with the size and the limit.
pub fn check_size(spec: usize) -> Result<(), Invalid> {
    if spec <= crd::MAX_SPEC_BYTES {
        return Ok(());
    }
    Err(Invalid(vec![format!(
        "spec: {} KiB of JSON, and at most {} KiB are allowed; move large values into a ConfigMap and refer to them with \
         valueFrom",
        spec.div_ceil(1024),
        crd::MAX_SPEC_BYTES / 1024
    )]))
}

/// Validates an AppDeploy and fills in its defaults.
///
/// # Errors
/// Returns a message for each invalid field.
pub fn validate(app: &AppDeploy) -> Result<Valid<'_>, Invalid> {
    let mut problems = Vec::new();
    let spec = &app.spec;
    let name = app.name_any();
    let namespace = app.namespace().unwrap_or_else(|| "default".into());

    if !is_name(&name) {
        problems.push(format!(
            "metadata.name: invalid name {name:?}: use at most {MAX_NAME} lower-case letters, digits \
             and '-', starting with a letter"
        ));
    }
    if spec.replicas < 0 {
        problems.push(format!("spec.replicas: {} is less than 0", spec.replicas));
    }
    pod_problems("spec", &spec.pod, &mut problems);
    problems.extend(spec.rollout.as_deref().and_then(rollout_problem));
    let route = spec.pod.container.port.map(|port| Route {
        port,
        ingress: ingress_route(spec, &name, &namespace, &mut problems),
    });

    if !problems.is_empty() {
        return Err(Invalid(problems));
    }
    Ok(Valid {
        name,
        namespace,
        uid: app.uid().unwrap_or_default(),
        pod: &spec.pod,
        replicas: spec.replicas,
        rollout: spec.rollout.as_deref(),
        paused: spec.paused,
        restarted_at: app.annotations().get(crd::annotation::RESTARTED_AT).cloned(),
        config_hash: app.status.as_ref().and_then(|status| status.config_hash.clone()),
        route,
        served: Vec::new(),
    })
}

/// Returns why a Deployment can't have this strategy.
fn rollout_problem(rollout: &RolloutStrategy) -> Option<String> {
    let (surge, unavailable) = (&rollout.max_surge, &rollout.max_unavailable);
    let is_zero = |limit: &Option<IntOrString>| match limit {
        Some(IntOrString::Int(number)) => *number == 0,
        Some(IntOrString::String(share)) => share == "0%",
        None => false,
    };
    if rollout.type_ == Some(RolloutType::Recreate) && (surge.is_some() || unavailable.is_some()) {
        return Some("spec.rollout: maxSurge and maxUnavailable are for type RollingUpdate: remove them".to_owned());
    }
    (is_zero(surge) && is_zero(unavailable))
        .then(|| "spec.rollout: maxSurge and maxUnavailable can't both be 0: raise one of them".to_owned())
}

/// Adds a message for each invalid field of the pods. `at` is the path of the fields.
pub(crate) fn pod_problems(at: &str, pod: &PodFields, problems: &mut Vec<String>) {
    if pod.container.image.is_empty() || pod.container.image.contains(char::is_whitespace) {
        problems.push(format!(
            "{at}.image: invalid image {:?}: write it like nginx or ghcr.io/acme/shop:1.4",
            pod.container.image
        ));
    }
    problems.extend(resources::problems(pod, at));
    if pod.container.env_from.iter().any(containers::is_ambiguous) {
        problems.push(format!(
            "{at}.envFrom: each entry needs exactly one of configMapRef and secretRef"
        ));
    }
    ports::add_problems(at, &pod.container, problems);
    metrics::add_problems(at, pod, problems);
    probes::add_problems(at, &pod.container, problems);
    let grace = pod.termination_grace_period_seconds.unwrap_or(GRACE);
    if pod.pre_stop_sleep_seconds.is_some_and(|sleep| sleep >= grace) {
        problems.push(format!(
            "{at}.preStopSleepSeconds: must be smaller than terminationGracePeriodSeconds, which is {grace}"
        ));
    }
    volumes::problems(at, pod, problems);
    containers::add_problems(at, pod, problems);
    problems.extend(
        pod.placement
            .iter()
            .flat_map(|placement| placement_problems(at, placement)),
    );
    if pod.host_users == Some(true) {
        problems.push(format!("{at}.hostUsers: can only be false: remove it"));
    }
    service_account::add_problems(at, pod, problems);
    let health_port = pod.container.health_check.as_ref().and_then(|check| check.port);
    for (field, port) in [("port", pod.container.port), ("healthCheck.port", health_port)] {
        if let Some(port) = port
            && !(1..=65535).contains(&port)
        {
            problems.push(format!(
                "{at}.{field}: invalid port {port}: use a number from 1 to 65535"
            ));
        }
    }
    if pod.container.health_check.is_some() && pod.container.port.or(health_port).is_none() {
        problems.push(format!(
            "{at}.healthCheck: missing port: set {at}.port or {at}.healthCheck.port"
        ));
    }
}

fn ingress_route(
    spec: &AppDeploySpec,
    name: &str,
    namespace: &str,
    problems: &mut Vec<String>,
) -> Option<IngressRoute> {
    if !spec.is_public() {
        return None;
    }
    let host = spec.host.clone().unwrap_or_else(|| format!("{name}.{namespace}"));
    if !is_host(&host) {
        problems.push(format!(
            "spec.host: invalid host name {host:?}: write it like shop.example.com"
        ));
    }
    let path = spec.path.clone().unwrap_or_else(|| "/".into());
    if !is_path(&path) {
        problems.push(format!("spec.path: invalid path {path:?}: write it like /shop"));
    }
    let tls_secret = spec.tls.as_ref().and_then(|tls| tls.secret_name.clone());
    if spec.tls.is_some() && tls_secret.is_none() {
        problems.push("spec.tls: this version of the operator needs spec.tls.secretName".to_owned());
    }
    Some(IngressRoute {
        host,
        path,
        class: spec.ingress_class_name.clone(),
        tls_secret,
    })
}

/// Whether a name can be a DNS label of a host and the name of a Service, which must start with a letter.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME && name.starts_with(|c: char| c.is_ascii_lowercase()) && is_label(name)
}

/// Whether it is a DNS label (RFC 1123).
pub(crate) fn is_label(label: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&label.len()) && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

/// Whether an object such as a Secret can have this name: it is a DNS subdomain (RFC 1123). Other names can't be part of
/// the URL of an object.
#[must_use]
pub fn is_object_name(name: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_edge) && part.ends_with(is_edge) && part.chars().all(|c| is_edge(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

/// Whether it is a DNS name without a wildcard. An Ingress does not accept IP addresses.
fn is_host(host: &str) -> bool {
    let numeric = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    host.len() <= 253 && !numeric && host.split('.').all(is_label)
}

/// Whether a path has only letters, digits and `/ . _ ~ -`, which have no special meaning for ingress controllers.
fn is_path(path: &str) -> bool {
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._~-".contains(c));
    let relative = path.split('/').any(|part| matches!(part, "." | ".."));
    path.starts_with('/') && plain && !relative && !path.contains("//")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn app(name: &str, spec: serde_json::Value) -> AppDeploy {
        serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": name, "namespace": "shop", "uid": "u1"}, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn names_of_objects_are_dns_subdomains() {
        for name in ["a", "0", "shop-tls", "a.b-c.d", &"a".repeat(253)] {
            assert!(is_object_name(name), "{name}");
        }
        for name in [
            "",
            "-n",
            "a-",
            ".a",
            "a..b",
            "A",
            "a b",
            "a/b",
            "../a",
            "a?b",
            "a\u{1b}",
            "ä",
            &"a".repeat(254),
        ] {
            assert!(!is_object_name(name), "{name:?}");
        }
    }

    #[test]
    fn defaults_are_filled_in() {
        let app = app("web", json!({"image": "nginx", "port": 80}));
        let valid = validate(&app).unwrap();
        assert_eq!(valid.replicas, 1);
        let ingress = valid.route.unwrap().ingress.unwrap();
        assert_eq!((ingress.url().as_str(), ingress.class), ("http://web.shop/", None));
    }

    #[test]
    fn size_of_a_spec_is_limited() {
        assert_eq!(check_size(256 * 1024), Ok(()));
        assert_eq!(
            check_size(256 * 1024 + 1).unwrap_err().to_string(),
            "spec: 257 KiB of JSON, and at most 256 KiB are allowed; move large values into a ConfigMap and refer to them \
             with valueFrom"
        );
    }

    #[test]
    fn app_without_a_port_is_a_worker() {
        assert_eq!(validate(&app("web", json!({"image": "nginx"}))).unwrap().route, None);
    }

    #[test]
    fn app_that_is_not_public_has_no_ingress() {
        let app = app("web", json!({"image": "nginx", "port": 80, "expose": "Cluster"}));
        assert_eq!(
            validate(&app).unwrap().route.unwrap(),
            Route {
                port: 80,
                ingress: None
            }
        );
    }

    #[test]
    fn rollout_that_can_replace_no_pod_and_sleep_until_the_end_are_invalid() {
        for (fields, is_valid) in [
            (json!({"rollout": {"maxSurge": 0, "maxUnavailable": "0%"}}), false),
            (json!({"rollout": {"maxSurge": 0}}), true),
            (json!({"rollout": {"type": "Recreate", "maxSurge": 1}}), false),
            (
                json!({"rollout": {"type": "Recreate", "progressDeadlineSeconds": 5}}),
                true,
            ),
            (json!({"preStopSleepSeconds": 30}), false),
            (
                json!({"preStopSleepSeconds": 30, "terminationGracePeriodSeconds": 31}),
                true,
            ),
            (
                json!({"preStopSleepSeconds": 5, "terminationGracePeriodSeconds": 5}),
                false,
            ),
        ] {
            let mut spec = fields.clone();
            spec["image"] = json!("nginx");
            assert_eq!(validate(&app("web", spec)).is_ok(), is_valid, "{fields}");
        }
    }

    #[test]
    fn variables_from_two_objects_in_one_entry_are_invalid() {
        for (entry, is_valid) in [
            (json!({"secretRef": {"name": "a"}}), true),
            (json!({"prefix": "A_"}), false),
            (
                json!({"secretRef": {"name": "a"}, "configMapRef": {"name": "a"}}),
                false,
            ),
        ] {
            let app = app("web", json!({"image": "nginx", "envFrom": [entry]}));
            assert_eq!(validate(&app).is_ok(), is_valid, "{entry}");
        }
    }

    #[test]
    fn certificate_of_a_newer_version_is_an_invalid_spec() {
        let app = app(
            "web",
            json!({"image": "nginx", "port": 80, "tls": {"issuerRef": {"name": "ca"}}}),
        );
        assert_eq!(
            validate(&app).unwrap_err().to_string(),
            "spec.tls: this version of the operator needs spec.tls.secretName"
        );
    }

    #[test]
    fn all_problems_are_reported_together() {
        let app = app(
            "1web",
            json!({"image": "a b", "port": 0, "host": "*.example.com", "path": "/a;b", "replicas": -1}),
        );
        let Invalid(problems) = validate(&app).unwrap_err();
        let fields: Vec<_> = problems.iter().map(|p| p.split(':').next().unwrap()).collect();
        assert_eq!(
            fields,
            [
                "metadata.name",
                "spec.replicas",
                "spec.image",
                "spec.port",
                "spec.host",
                "spec.path"
            ]
        );
    }

    #[test]
    fn hosts_are_dns_names() {
        for good in [
            "a",
            "web.shop",
            "shop.example.com",
            "xn--bcher-kva.example",
            "1.example.com",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "",
            "*.a",
            "A.b",
            "a..b",
            ".a",
            "a.",
            "-a.b",
            "10.0.0.1",
            "a_b",
            "a/b",
            "a:80",
            "bücher.example",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
