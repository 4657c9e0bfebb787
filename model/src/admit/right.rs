//! The rights that the author of an object must have.

use std::collections::BTreeSet;

use crd::{
    AppDeploy, AppQueue, ContainerFields, EnvFromSource, EnvVar, OtherContainer, PodFields, Probe, Probes, Sidecar,
};

use super::{Admitted, gated_fields, spec_without_replicas};
use crate::children::{DEPLOYMENT, SERVICE_ACCOUNT};
use crate::command;
use crate::queue::config_map_name;
use crate::spec_reader::Additions;

/// A right that the author of a spec must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequiredRight {
    /// The verb.
    pub verb: &'static str,
    /// The API group of the object; empty for the core group.
    pub group: &'static str,
    /// The plural name of its kind: `secrets`, `configmaps`, `deployments`, `pods` or `serviceaccounts`.
    pub resource: &'static str,
    /// Its name. Empty for a right that is not about one object.
    pub name: String,
    /// Why the right is needed.
    pub reason: RightReason,
}

/// Why the author of a spec needs a right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightReason {
    /// This field refers to the object, so the author's program could read it. The first such field, if there are several.
    Field(String),
    /// These fields of the pods reach further than the other fields of a spec.
    Create(Vec<String>),
    /// The Deployment has these fields that other managers added, and the change starts another program in its pods.
    Added(Box<str>),
    /// Whether the Deployment has such fields is not known, for this reason.
    Unknown(Box<str>),
}

impl RequiredRight {
    fn get(resource: &'static str, name: &str, field: String) -> Self {
        Self {
            verb: "get",
            group: "",
            resource,
            name: name.to_owned(),
            reason: RightReason::Field(field),
        }
    }

    const fn create(resource: &'static str, fields: Vec<String>) -> Self {
        Self {
            verb: "create",
            group: "",
            resource,
            name: String::new(),
            reason: RightReason::Create(fields),
        }
    }

    /// Returns the message for an author who lacks the right.
    #[must_use]
    pub fn denial(&self, author: &str, namespace: &str) -> String {
        let Self { resource, name, .. } = self;
        let why = match &self.reason {
            RightReason::Create(fields) => {
                let kind = resource.trim_end_matches('s');
                let grant = command!(
                    "kubectl create role {}-creator -n {} --verb=create --resource={}",
                    kind,
                    namespace,
                    resource
                )
                .and(command!(
                    "&& kubectl create rolebinding {}-creator -n {} --role={}-creator --user={}",
                    kind,
                    namespace,
                    kind,
                    author
                ));
                return format!(
                    "{} needs the right to create {resource} in namespace {namespace}, which {author} does not have: ask \
                     an administrator to apply it, or to grant the right: {}",
                    fields.join(", "),
                    grant.as_str()
                );
            }
            RightReason::Field(field) => {
                return format!(
                    "{field} refers to {} {name}, which {author} may not get in namespace {namespace}: ask an \
                     administrator to apply it, or to grant the right to get {resource}/{name}",
                    resource.trim_end_matches('s')
                );
            }
            RightReason::Added(fields) => format!(
                "deployment {name} has fields that were added by another manager ({fields}), and a new image, command, \
                 argument or variable could read them"
            ),
            RightReason::Unknown(why) => {
                format!("the operator cannot see whether other managers added fields to deployment {name}: {why}")
            }
        };
        let grant = command!(
            "kubectl create role {}-deployer -n {} --verb=patch --resource=deployments.apps --resource-name={}",
            name,
            namespace,
            name
        )
        .and(command!(
            "&& kubectl create rolebinding {}-deployer -n {} --role={}-deployer --user={}",
            name,
            namespace,
            name,
            author
        ));
        format!(
            "{why}; this change needs the right to patch deployments/{name} in namespace {namespace}, which {author} does \
             not have: ask an administrator to apply the change, or to grant the right: {}",
            grant.as_str()
        )
    }
}

/// Returns the rights to read the objects that a spec refers to, each object once, and the rights to create pods and
/// ServiceAccounts if the spec has fields that need them.
///
/// An update that changes only the number of replicas needs none: users who scale an app need not be able to read its
/// Secrets.
#[must_use]
pub fn rights_to_references<K: Admitted>(new: &K, old: Option<&K>) -> Vec<RequiredRight> {
    if old.is_some_and(|old| spec_without_replicas(old) == spec_without_replicas(new)) {
        return Vec::new();
    }
    let at = K::POD;
    let mut found = Vec::new();
    let mut add =
        |resource: &'static str, name: &str, field: String| found.push(RequiredRight::get(resource, name, field));
    let ours = &new.pod().container;
    add_variables(at, &ours.env, &ours.env_from, &mut add);
    for (list, container) in new.pod().other_containers() {
        let at = format!("{at}.{list}[{}]", container.name);
        add_variables(&at, &container.env, &container.env_from, &mut add);
    }
    for volume in &new.pod().volumes {
        let field = format!("{at}.volumes[{}]", volume.name);
        if let Some(secret) = &volume.secret {
            add("secrets", &secret.secret_name, field.clone());
        }
        if let Some(map) = &volume.config_map {
            add("configmaps", &map.name, field);
        }
    }
    for secret in &new.pod().image_pull_secrets {
        add("secrets", &secret.name, format!("{at}.imagePullSecrets"));
    }
    for queue in &new.pod().queues {
        add("configmaps", &config_map_name(&queue.name), format!("{at}.queues"));
    }
    for (name, field) in new.secrets() {
        add("secrets", &name, field);
    }
    let mut known = BTreeSet::new();
    found.retain(|reference| known.insert((reference.resource, reference.name.clone())));
    let gated = gated_fields(new.pod(), at);
    if !gated.is_empty() {
        found.push(RequiredRight::create("pods", gated));
    }
    let account = new.pod().service_account.as_ref();
    if account.is_some_and(|account| account.annotations.is_some()) {
        let field = format!("{at}.serviceAccount.annotations");
        found.push(RequiredRight::create(SERVICE_ACCOUNT.plural, vec![field]));
    }
    found
}

/// Adds the objects that the variables of a container refer to. `at` is the path of its fields.
fn add_variables(
    at: &str,
    env: &[EnvVar],
    env_from: &[EnvFromSource],
    add: &mut impl FnMut(&'static str, &str, String),
) {
    for var in env {
        let Some(source) = &var.value_from else { continue };
        let field = format!("{at}.env {}", var.name);
        if let Some(key) = &source.secret_key_ref {
            add("secrets", &key.name, field.clone());
        }
        if let Some(key) = &source.config_map_key_ref {
            add("configmaps", &key.name, field);
        }
    }
    for source in env_from {
        let field = format!("{at}.envFrom");
        if let Some(secret) = &source.secret_ref {
            add("secrets", &secret.name, field.clone());
        }
        if let Some(map) = &source.config_map_ref {
            add("configmaps", &map.name, field);
        }
    }
}

/// Returns the right to read the Secret with the credentials of an AppQueue. An update that does not change the spec needs
/// none.
#[must_use]
pub fn right_to_credentials(new: &AppQueue, old: Option<&AppQueue>) -> Option<RequiredRight> {
    if old.is_some_and(|old| old.spec == new.spec) {
        return None;
    }
    let secret = &new.spec.credentials.as_ref()?.secret_ref.name;
    Some(RequiredRight::get(
        "secrets",
        secret,
        "spec.credentials.secretRef".to_owned(),
    ))
}

/// Whether an update changes which program runs, which could use what other managers added to the Deployment.
///
/// `old` is `None` if the stored object can't be read. That counts as a change.
#[must_use]
pub fn changes_program(new: &AppDeploy, old: Option<&AppDeploy>) -> bool {
    old.is_none_or(|old| program(&old.spec.pod) != program(&new.spec.pod))
}

/// Returns the right that a change of the program needs if other managers added these fields to the Deployment of an app: the right
/// to patch it, with which the author could add the same fields.
#[must_use]
pub fn right_to_additions(app: &str, additions: Additions) -> Option<RequiredRight> {
    let reason = match additions {
        Additions::None => return None,
        Additions::Fields(fields) => RightReason::Added(fields),
        Additions::Unknown(why) => RightReason::Unknown(why),
    };
    Some(RequiredRight {
        verb: "patch",
        group: "apps",
        resource: DEPLOYMENT.plural,
        name: app.to_owned(),
        reason,
    })
}

/// Returns the fields of a spec that determine which program runs and what it does: all but those that are known to have no
/// effect on it. Variables are part of it because of `LD_PRELOAD` and `PATH`, probes because of their commands, and volumes
/// because of the files in them.
fn program(pod: &PodFields) -> PodFields {
    PodFields {
        container: ContainerFields {
            port: None,
            ports: Vec::new(),
            resources: None,
            health_check: None,
            probes: commands(pod.container.probes.as_deref()),
            ..pod.container.clone()
        },
        termination_grace_period_seconds: None,
        pre_stop_sleep_seconds: None,
        security_profile: None,
        on_config_change: None,
        init_containers: pod.init_containers.iter().map(without_resources).collect(),
        sidecars: pod
            .sidecars
            .iter()
            .map(|sidecar| Sidecar {
                container: without_resources(&sidecar.container),
                probes: commands(sidecar.probes.as_deref()),
            })
            .collect(),
        placement: None,
        host_users: None,
        metrics: None,
        ..pod.clone()
    }
}

fn without_resources(container: &OtherContainer) -> OtherContainer {
    OtherContainer {
        resources: None,
        ..container.clone()
    }
}

/// Returns only the commands of probes.
fn commands(probes: Option<&Probes>) -> Option<Box<Probes>> {
    let command = |probe: Option<&Probe>| {
        let exec = probe?.exec.clone()?;
        Some(Probe {
            exec: Some(exec),
            ..Probe::default()
        })
    };
    let probes = probes?;
    let commands = Probes {
        readiness: command(probes.readiness.as_ref()),
        liveness: command(probes.liveness.as_ref()),
        startup: command(probes.startup.as_ref()),
    };
    (commands != Probes::default()).then(|| Box::new(commands))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn app(spec: Value) -> AppDeploy {
        serde_json::from_value(json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "a"}, "spec": spec}))
        .unwrap()
    }

    fn referring(replicas: i32) -> AppDeploy {
        app(json!({
            "image": "nginx:1", "port": 80, "replicas": replicas,
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "db", "key": "a"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "db", "key": "b"}}},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "db", "key": "c"}}},
                {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "envFrom": [
                {"secretRef": {"name": "db"}}, {"secretRef": {"name": "more", "optional": true}},
                {"configMapRef": {"name": "look"}},
            ],
            "imagePullSecrets": [{"name": "registry"}],
            "queues": [{"name": "orders"}],
            "tls": {"secretName": "tls"},
            "volumes": [
                {"name": "config", "mountPath": "/a", "configMap": {"name": "settings"}},
                {"name": "keys", "mountPath": "/b", "secret": {"secretName": "keys"}},
                {"name": "again", "mountPath": "/c", "secret": {"secretName": "db"}},
                {"name": "assets", "mountPath": "/d", "image": {"reference": "assets:1"}},
            ],
            "serviceAccount": {"name": "shop"},
            "initContainers": [{"name": "migrate", "image": "shop:1",
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "admin", "key": "a"}}}],
                "envFrom": [{"secretRef": {"name": "db"}}]}],
            "sidecars": [{"name": "proxy", "image": "proxy:1", "envFrom": [{"configMapRef": {"name": "proxy"}}]}],
        }))
    }

    #[test]
    fn right_to_read_each_referenced_object_is_needed_once() {
        let mut needed = rights_to_references(&referring(1), None);
        let pods = needed.pop().unwrap();
        assert_eq!((pods.verb, pods.resource, &*pods.name), ("create", "pods", ""));
        let fields = [
            "spec.serviceAccount",
            "spec.volumes[assets].image",
            "spec.initContainers",
            "spec.sidecars",
        ];
        let fields = fields.map(str::to_owned);
        assert_eq!(pods.reason, RightReason::Create(fields.into()));
        insta::assert_snapshot!(pods.denial("jane", "blue"), @"spec.serviceAccount, spec.volumes[assets].image, spec.initContainers, spec.sidecars needs the right to create pods in namespace blue, which jane does not have: ask an administrator to apply it, or to grant the right: kubectl create role pod-creator -n blue --verb=create --resource=pods && kubectl create rolebinding pod-creator -n blue --role=pod-creator --user=jane");
        let needed: Vec<_> = needed
            .into_iter()
            .map(|r| (r.verb, r.resource, r.name, r.reason))
            .collect();
        let expected = [
            ("secrets", "db", "spec.env A"),
            ("configmaps", "db", "spec.env C"),
            ("secrets", "more", "spec.envFrom"),
            ("configmaps", "look", "spec.envFrom"),
            ("configmaps", "proxy", "spec.sidecars[proxy].envFrom"),
            ("secrets", "admin", "spec.initContainers[migrate].env A"),
            ("configmaps", "settings", "spec.volumes[config]"),
            ("secrets", "keys", "spec.volumes[keys]"),
            ("secrets", "registry", "spec.imagePullSecrets"),
            ("configmaps", "orders-queue", "spec.queues"),
            ("secrets", "tls", "spec.tls.secretName"),
        ];
        let expected = expected.map(|(r, n, f)| ("get", r, n.to_owned(), RightReason::Field(f.to_owned())));
        assert_eq!(needed, expected);
    }

    #[test]
    fn right_to_read_the_credentials_of_a_queue_is_needed_with_each_change_of_the_spec() {
        let queue = |secret: Option<&str>, delay: i32| -> AppQueue {
            let credentials = secret.map(|name| json!({"secretRef": {"name": name}}));
            let mut object =
                json!({"metadata": {"name": "orders"}, "spec": {"sqs": {"region": "a", "delaySeconds": delay}}});
            if let Some(credentials) = credentials {
                object["spec"]["credentials"] = credentials;
            }
            serde_json::from_value(object).unwrap()
        };
        let old = queue(Some("sqs"), 1);
        let needed = right_to_credentials(&old, None).unwrap();
        assert_eq!((needed.verb, needed.resource, &*needed.name), ("get", "secrets", "sqs"));
        assert_eq!(right_to_credentials(&old, Some(&old)), None);
        assert!(right_to_credentials(&queue(Some("sqs"), 2), Some(&old)).is_some());
        assert_eq!(right_to_credentials(&queue(None, 1), Some(&old)), None);
    }

    #[test]
    fn fields_that_determine_what_runs_are_known() {
        let old = app(json!({"image": "nginx:1", "replicas": 1}));
        for change in [
            json!({"image": "nginx:2"}),
            json!({"image": "nginx:1", "command": ["cat", "/keys/key"]}),
            json!({"image": "nginx:1", "args": ["/keys/key"]}),
            json!({"image": "nginx:1", "env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}),
            json!({"image": "nginx:1", "envFrom": [{"secretRef": {"name": "mine"}}]}),
            json!({"image": "nginx:1", "probes": {"liveness": {"exec": {"command": ["cat", "/keys/key"]}}}}),
            json!({"image": "nginx:1", "imagePullPolicy": "Always"}),
            json!({"image": "nginx:1", "imagePullSecrets": [{"name": "mine"}]}),
            json!({"image": "nginx:1", "queues": [{"name": "mine"}]}),
            json!({"image": "nginx:1", "volumes": [{"name": "a", "mountPath": "/lib", "emptyDir": {}}]}),
            json!({"image": "nginx:1", "serviceAccount": {"name": "mine"}}),
            json!({"image": "nginx:1", "initContainers": [{"name": "a", "image": "a"}]}),
            json!({"image": "nginx:1", "sidecars": [{"name": "a", "image": "a"}]}),
        ] {
            assert!(changes_program(&app(change.clone()), Some(&old)), "{change}");
        }
        let other = json!({"image": "nginx:1", "replicas": 9, "port": 80, "resources": {"limits": {"cpu": "1"}},
            "healthCheck": {"path": "/"}, "securityProfile": "Restricted", "host": "shop.example.com"});
        assert!(!changes_program(&app(other), Some(&old)));
        let probes = json!({"image": "nginx:1", "probes": {"readiness": {"tcpSocket": {"port": 80}}}});
        assert!(!changes_program(&app(probes), Some(&old)));
        assert!(changes_program(&old, None));
    }

    #[test]
    fn added_fields_need_the_right_to_patch_the_deployment() {
        for additions in [
            Additions::Fields("spec.template.spec.volumes[keys]".into()),
            Additions::Unknown("no answer".into()),
        ] {
            let needed = right_to_additions("shop", additions).unwrap();
            let right = (needed.verb, needed.group, needed.resource, &*needed.name);
            assert_eq!(right, ("patch", "apps", "deployments", "shop"));
        }
        assert_eq!(right_to_additions("shop", Additions::None), None);
    }

    #[test]
    fn denial_names_the_fields_and_the_right_and_the_next_command() {
        let denial = |additions| {
            let needed = right_to_additions("shop", additions).unwrap();
            needed.denial("system:serviceaccount:ci:o'brien", "blue")
        };
        insta::assert_snapshot!(denial(Additions::Fields("spec.template.spec.volumes[keys]".into())), @r"deployment shop has fields that were added by another manager (spec.template.spec.volumes[keys]), and a new image, command, argument or variable could read them; this change needs the right to patch deployments/shop in namespace blue, which system:serviceaccount:ci:o'brien does not have: ask an administrator to apply the change, or to grant the right: kubectl create role shop-deployer -n blue --verb=patch --resource=deployments.apps --resource-name=shop && kubectl create rolebinding shop-deployer -n blue --role=shop-deployer --user='system:serviceaccount:ci:o'\''brien'");
        let unknown = denial(Additions::Unknown("no answer".into()));
        let sentence = "the operator cannot see whether other managers added fields to deployment shop: no answer; this \
                        change needs the right to patch deployments/shop in namespace blue";
        assert!(unknown.starts_with(sentence), "{unknown}");
    }

    #[test]
    fn scaling_needs_no_right_to_read_references() {
        assert_eq!(rights_to_references(&referring(2), Some(&referring(1))), []);
        let mut other = referring(1);
        other.spec.pod.container.command = vec!["env".into()];
        assert_eq!(rights_to_references(&other, Some(&referring(1))).len(), 12);
    }
}
