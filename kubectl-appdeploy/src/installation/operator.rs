//! The installed operator: its version, whether it works, and its namespaces.

use futures::join;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use model::{NextCommand, command};

use crate::cluster::connection::Cluster;
use crate::error::Error;
use crate::output::age::span;

/// The name of the operator's Deployment, ServiceAccount, ClusterRole and binding.
pub const NAME: &str = "appdeploy-operator";

/// The state of the operator of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Operator {
    /// It is installed, with this Deployment, and its Lease if the user may read it.
    Installed(Box<Deployment>, Option<Box<Lease>>),
    /// It does not exist.
    Absent,
    /// It can't be read: the right is missing, or the request failed.
    Unknown(Error),
}

/// Looks for the operator.
pub async fn find(cluster: &Cluster) -> Operator {
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), crd::OPERATOR_NAMESPACE);
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), crd::OPERATOR_NAMESPACE);
    let (deployment, lease) = join!(cluster.call(api.get_opt(NAME)), cluster.call(leases.get_opt(NAME)));
    match deployment {
        Ok(Some(deployment)) => Operator::Installed(Box::new(deployment), lease.ok().flatten().map(Box::new)),
        Ok(None) => Operator::Absent,
        Err(error) => Operator::Unknown(error),
    }
}

impl Operator {
    /// Returns why no operator manages an app, and the command to run next.
    pub fn absence(&self, namespace: Option<&str>, now: Timestamp) -> Option<(String, NextCommand)> {
        if let Self::Unknown(_) = self {
            return None;
        }
        self.fault(namespace, now).or_else(|| {
            namespace?;
            Some((
                "the operator runs, but has not seen it".to_owned(),
                "kubectl appdeploy check".into(),
            ))
        })
    }

    /// Returns why no operator manages a namespace, or any namespace, and the next command; `None` if one does.
    pub fn fault(&self, namespace: Option<&str>, now: Timestamp) -> Option<(String, NextCommand)> {
        let (deployment, lease) = match self {
            Self::Absent => {
                return Some((
                    "no operator is installed in this cluster".to_owned(),
                    "kubectl appdeploy install".into(),
                ));
            }
            Self::Unknown(_) => return None,
            Self::Installed(deployment, lease) => (deployment, lease),
        };
        let ready = deployment
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0);
        if ready == 0 {
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            return Some(if wanted == 0 {
                (
                    "the operator is switched off: its Deployment is scaled to 0".to_owned(),
                    command!(
                        "kubectl -n {} scale deployment {} --replicas=1",
                        crd::OPERATOR_NAMESPACE,
                        NAME
                    ),
                )
            } else {
                (
                    "the operator is not running: its Deployment has no ready pod".to_owned(),
                    command!("kubectl -n {} describe pods", crd::OPERATOR_NAMESPACE),
                )
            });
        }
        let lease = lease.as_deref().filter(|_| is_elected(deployment));
        if let Some(ago) = lease.and_then(|lease| expired(lease, now)) {
            return Some((
                format!("no operator works: the Lease of the last one expired {} ago", span(ago)),
                command!("kubectl -n {} logs deployment/{}", crd::OPERATOR_NAMESPACE, NAME),
            ));
        }
        let watched = watched(deployment);
        let namespace = namespace?;
        if watched.is_empty() || watched.iter().any(|one| one == namespace) {
            return None;
        }
        Some((
            format!("the operator watches only {}, not {namespace}", watched.join(", ")),
            command!(
                "kubectl appdeploy install --watch-namespace={},{}",
                watched.join(","),
                namespace
            ),
        ))
    }
}

/// Returns for how many seconds a Lease has been expired.
fn expired(lease: &Lease, now: Timestamp) -> Option<i64> {
    /// The clocks of two machines are never quite the same.
    const SKEW: i64 = 5;
    let spec = lease.spec.as_ref()?;
    let end = spec.renew_time.as_ref()?.0.as_second() + i64::from(spec.lease_duration_seconds?);
    Some(now.as_second() - end).filter(|ago| *ago > SKEW)
}

/// Returns the namespaces that an operator is limited to; none means all.
pub fn watched(deployment: &Deployment) -> Vec<String> {
    let values = setting(deployment, "watch-namespace");
    values
        .iter()
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Whether an operator answers API servers.
pub fn has_webhooks(deployment: &Deployment) -> bool {
    is_on(deployment, "webhooks")
}

/// Whether an operator leads only while it holds the Lease.
pub fn is_elected(deployment: &Deployment) -> bool {
    is_on(deployment, "leader-elect")
}

/// Whether an operator has credentials of its own for queue services.
pub fn has_queue_credentials(deployment: &Deployment) -> bool {
    !setting(deployment, "queue-credentials").is_empty()
}

/// Whether a setting is on that is off by default.
fn is_on(deployment: &Deployment, name: &str) -> bool {
    let values = setting(deployment, name);
    values
        .last()
        .is_some_and(|value| ["", "true"].contains(&value.as_str()))
}

/// Returns the values of a setting of the operator: from its arguments, otherwise from its environment.
fn setting(deployment: &Deployment, name: &str) -> Vec<String> {
    let Some(container) = container(deployment) else {
        return Vec::new();
    };
    let flag = format!("--{name}");
    let mut args = container.args.iter().flatten().peekable();
    let mut found = Vec::new();
    while let Some(arg) = args.next() {
        match arg.strip_prefix(&flag) {
            Some("") => found.push(
                args.next_if(|next| !next.starts_with("--"))
                    .cloned()
                    .unwrap_or_default(),
            ),
            Some(rest) => found.extend(rest.strip_prefix('=').map(ToOwned::to_owned)),
            None => {}
        }
    }
    if found.is_empty() {
        let variable = format!("APPDEPLOY_{}", name.replace('-', "_").to_uppercase());
        let env = container.env.iter().flatten();
        found.extend(
            env.filter(|var| var.name == variable)
                .filter_map(|var| var.value.clone()),
        );
    }
    found
}

/// Returns the image that an operator runs.
pub fn image(deployment: &Deployment) -> Option<&str> {
    container(deployment)?.image.as_deref()
}

/// Returns the tag of an image, also if a digest follows it; otherwise the digest, or `latest`.
pub fn tag(image: &str) -> &str {
    let (name, digest) = image
        .split_once('@')
        .map_or((image, None), |(name, digest)| (name, Some(digest)));
    let name = name.rsplit('/').next().unwrap_or(name);
    name.split_once(':').map_or(digest.unwrap_or("latest"), |(_, tag)| tag)
}

fn container(deployment: &Deployment) -> Option<&k8s_openapi::api::core::v1::Container> {
    deployment.spec.as_ref()?.template.spec.as_ref()?.containers.first()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn deployment(args: &Value, env: &Value, ready: i32) -> Deployment {
        serde_json::from_value(json!({"spec": {"selector": {}, "template": {"spec": {"containers": [
            {"name": "operator", "image": "r:5000/op:v1", "args": args, "env": env}]}}}, "status": {"readyReplicas": ready}}))
        .unwrap()
    }

    #[test]
    fn operator_settings_are_read_from_flags_and_environment() {
        let none = json!([]);
        assert_eq!(watched(&deployment(&none, &none, 1)), Vec::<String>::new());
        assert_eq!(
            watched(&deployment(
                &json!(["--watch-namespace=a,b", "--watch-namespace", "c"]),
                &none,
                1
            )),
            ["a", "b", "c"]
        );
        assert_eq!(
            watched(&deployment(
                &none,
                &json!([{"name": "APPDEPLOY_WATCH_NAMESPACE", "value": "a, b"}]),
                1
            )),
            ["a", "b"]
        );
    }

    fn installed(args: &Value, ready: i32, lease: Option<Value>) -> Operator {
        let lease = lease.map(|lease| Box::new(serde_json::from_value(lease).unwrap()));
        Operator::Installed(Box::new(deployment(args, &json!([]), ready)), lease)
    }

    fn noon() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn flag_overrides_the_environment() {
        let env = json!([{"name": "APPDEPLOY_WEBHOOKS", "value": "true"}]);
        for (args, env, is) in [
            (json!([]), &json!([]), false),
            (json!([]), &env, true),
            (json!(["--webhooks=false"]), &env, false),
            (json!(["--webhooks", "--webhook-bind=:1"]), &json!([]), true),
            (json!(["--webhooks", "false"]), &env, false),
        ] {
            assert_eq!(has_webhooks(&deployment(&args, env, 1)), is, "{args} {env}");
        }
    }

    #[test]
    fn app_in_an_unwatched_namespace_is_reported() {
        let operator = installed(&json!(["--watch-namespace=a"]), 1, None);
        let (why, next) = operator.absence(Some("b"), noon()).unwrap();
        assert_eq!(why, "the operator watches only a, not b");
        assert_eq!(next.as_str(), "kubectl appdeploy install --watch-namespace=a,b");
        assert_eq!(operator.fault(Some("a"), noon()), None);
        let (why, _) = installed(&json!([]), 0, None).absence(None, noon()).unwrap();
        assert_eq!(why, "the operator is not running: its Deployment has no ready pod");
    }

    #[test]
    fn hanging_operator_has_an_expired_lease() {
        let renewed = |time: &str| {
            let lease =
                json!({"spec": {"renewTime": format!("2026-06-01T{time}.000000Z"), "leaseDurationSeconds": 15}});
            installed(&json!(["--leader-elect"]), 1, Some(lease)).fault(Some("a"), noon())
        };
        assert_eq!(renewed("11:59:50"), None);
        assert_eq!(renewed("11:59:42"), None, "clocks differ");
        assert_eq!(
            renewed("11:55:45").unwrap().0,
            "no operator works: the Lease of the last one expired 4m ago"
        );
    }

    #[test]
    fn tag_of_an_image_is_its_version() {
        assert_eq!(tag("ghcr.io/a/b:v0.1.0"), "v0.1.0");
        assert_eq!(tag("localhost:5000/b"), "latest");
        assert_eq!(tag("localhost:5000/b:v1@sha256:abc"), "v1");
        assert_eq!(tag("localhost:5000/b@sha256:abc"), "sha256:abc");
    }
}
