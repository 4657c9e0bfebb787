//! Reads the fields of pods from a pod template.

mod containers;
mod env;
mod health;
mod metrics;
mod placement;
mod ports;
mod volumes;

use std::collections::BTreeMap;

use crd::{
    ContainerFields, EnvVar, ImagePullPolicy, LocalObjectReference, PodFields, Quantity, QueueReference, Resources,
    SecurityProfile, ServiceAccount, annotation, label,
};
use serde_json::{Value, json};

use self::env::variable;
use super::{ReadSpec, UnmappedField, rest};
use crate::defaults::{self, GRACE};
use crate::desired::queue_env::variables_of;
use crate::desired::{CONTAINER, PORT, pod_spec};
use crate::queue::CONFIG_MAP_SUFFIX;

/// Reads a template. `port` is the container port to which the Service routes, if it is known.
pub fn read(
    template: &Value,
    port: Option<i32>,
    service: Option<&Value>,
    monitor: Option<&Value>,
) -> ReadSpec<PodFields> {
    let mut spec = template["spec"].clone();
    defaults::pod_spec(&mut spec);
    let nothing = Value::Null;
    let container = main(&spec).unwrap_or(&nothing);
    let port = port.or_else(|| listens(container));
    let health = health::read(container, port);
    let mut env = items(&container["env"]).filter_map(variable).collect();
    let queues = take_queues(&mut env);
    let ours = ContainerFields {
        image: text(&container["image"]),
        port,
        ports: ports::others(container, port, service),
        env,
        env_from: items(&container["envFrom"]).filter_map(env::object).collect(),
        command: items(&container["command"]).map(text).collect(),
        args: items(&container["args"]).map(text).collect(),
        resources: resources(&container["resources"]),
        health_check: health.value.check,
        probes: health.value.probes,
        image_pull_policy: policy(container),
    };
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    let grace = grace.filter(|seconds| *seconds >= 0 && *seconds != GRACE);
    // Without the field, Kubernetes mounts a token. That of the default ServiceAccount is not read: few applications need it.
    let takes_token = spec["automountServiceAccountToken"].as_bool();
    let name = spec["serviceAccountName"].as_str().filter(|name| !name.is_empty());
    let name = name.filter(|name| *name != "default" || takes_token.is_some());
    let takes_token = takes_token.unwrap_or(true);
    let account = name.map(|name| ServiceAccount {
        name: Some(name.to_owned()),
        annotations: None,
    });
    let volumes = volumes::read(&spec, container);
    let others = containers::read(&spec, &volumes);
    let pod = PodFields {
        container: ours,
        image_pull_secrets: items(&spec["imagePullSecrets"])
            .map(|secret| LocalObjectReference {
                name: text(&secret["name"]),
            })
            .collect(),
        queues,
        termination_grace_period_seconds: grace,
        pre_stop_sleep_seconds: container["lifecycle"]["preStop"]["sleep"]["seconds"]
            .as_i64()
            .filter(|seconds| (1..grace.unwrap_or(GRACE)).contains(seconds)),
        security_profile: profile(&spec, container),
        volumes,
        init_containers: others.init_containers,
        sidecars: others.sidecars,
        automount_service_account_token: account.as_ref().and_then(|_| takes_token.then_some(true)),
        service_account: account.map(Box::new),
        // A pod template does not say it.
        on_config_change: None,
        placement: placement::read(&spec).map(Box::new),
        metrics: metrics::read(container, port, service, monitor),
        host_users: spec["hostUsers"].as_bool().filter(|shares| !shares),
    };
    let mut unmapped = metadata(&template["metadata"]);
    unmapped.extend(unmapped_fields(&spec, container, &pod));
    let name = text(&container["name"]);
    unmapped.extend(
        health
            .unmapped
            .into_iter()
            .map(|rest| rest.below(&format!("spec.containers[{name}]"))),
    );
    unmapped.extend(others.unmapped);
    ReadSpec { value: pod, unmapped }
}

/// Returns the container of the app: the one with the name that the operator uses, or the first.
fn main(spec: &Value) -> Option<&Value> {
    let containers = spec["containers"].as_array()?;
    let ours = containers.iter().find(|container| container["name"] == CONTAINER);
    ours.or_else(|| containers.first())
}

/// Returns the port that a container names as its own: ours by name, or the first of TCP.
pub(super) fn listens(container: &Value) -> Option<i32> {
    let tcp = || items(&container["ports"]).filter(|port| port["protocol"] != "UDP" && port["protocol"] != "SCTP");
    let port = tcp().find(|port| port["name"] == PORT).or_else(|| tcp().next())?;
    number(&port["containerPort"])
}

/// Returns the number of a port that is given by name or by number.
pub(super) fn port_of(port: &Value, container: &Value) -> Option<i32> {
    number(port).or_else(|| {
        let named = items(&container["ports"]).find(|known| known["name"] == *port)?;
        number(&named["containerPort"])
    })
}

/// Returns the container of the app in a template.
#[must_use]
pub fn container(template: &Value) -> Option<&Value> {
    main(&template["spec"])
}

/// Takes the variables of queues from the beginning of a list, where the operator writes them, and returns the queues.
fn take_queues(env: &mut Vec<EnvVar>) -> Vec<QueueReference> {
    let mut queues = Vec::new();
    loop {
        let source = env.first().and_then(|first| first.value_from.as_ref());
        let map = source.and_then(|source| source.config_map_key_ref.as_ref());
        let Some(name) = map.and_then(|map| map.name.strip_suffix(CONFIG_MAP_SUFFIX)) else {
            return queues;
        };
        let ours = variables_of(name).map(|ours| variable(&json!(ours)));
        if !env
            .iter()
            .map(Some)
            .take(ours.len())
            .eq(ours.iter().map(Option::as_ref))
        {
            return queues;
        }
        queues.push(QueueReference { name: name.to_owned() });
        env.drain(..ours.len());
    }
}

fn resources(resources: &Value) -> Option<Resources> {
    let amounts = |part: &str| -> BTreeMap<String, Quantity> {
        let amounts = resources[part].as_object().into_iter().flatten();
        amounts
            .map(|(name, amount)| {
                let amount = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
                (name.clone(), Quantity(amount))
            })
            .collect()
    };
    let (requests, limits) = (amounts("requests"), amounts("limits"));
    (!requests.is_empty() || !limits.is_empty()).then_some(Resources { requests, limits })
}

/// Returns the pull policy, unless it is the default for the image.
fn policy(container: &Value) -> Option<ImagePullPolicy> {
    let policy = container["imagePullPolicy"].as_str()?;
    if policy == defaults::pull_policy(&text(&container["image"])) {
        return None;
    }
    serde_json::from_value(json!(policy)).ok()
}

/// Returns the security profile, or `None` for the default.
fn profile(spec: &Value, container: &Value) -> Option<SecurityProfile> {
    let (pod, own) = (&spec["securityContext"], &container["securityContext"]);
    let not_root = own["runAsNonRoot"].as_bool().or_else(|| pod["runAsNonRoot"].as_bool());
    let drops_all = items(&own["capabilities"]["drop"]).any(|name| name == "ALL");
    (not_root == Some(true) && drops_all).then_some(SecurityProfile::Restricted)
}

/// Returns labels and annotations of the pods that neither the operator nor Kubernetes has set.
pub(super) fn metadata(metadata: &Value) -> Vec<UnmappedField> {
    const KNOWN: [&str; 7] = [
        label::APP,
        label::MANAGED_BY,
        label::NAME,
        annotation::CONFIG_HASH,
        annotation::RESTARTED_AT,
        "pod-template-hash",
        "kubectl.kubernetes.io/restartedAt",
    ];
    let mut unmapped = Vec::new();
    for part in ["labels", "annotations"] {
        let own = metadata[part].as_object().into_iter().flatten();
        unmapped.extend(
            own.filter(|(name, _)| !KNOWN.contains(&name.as_str()))
                .map(|(name, value)| UnmappedField {
                    path: format!("metadata.{part}.{name}"),
                    value: value.clone(),
                    differs: false,
                }),
        );
    }
    unmapped
}

/// Returns the unmapped fields of the pods, without probes.
fn unmapped_fields(spec: &Value, container: &Value, pod: &PodFields) -> Vec<UnmappedField> {
    // A typed object always serialises: its keys are text.
    let mut ours = serde_json::to_value(pod_spec(pod)).unwrap_or_default();
    defaults::pod_spec(&mut ours);
    let (mut live, known) = (spec.clone(), &mut ours["containers"][0]);
    // The names of the container and its port have no effect.
    known["name"] = container["name"].clone();
    // Pods of older versions have the default of the API server (see `later`).
    if container["terminationMessagePolicy"] == "File" {
        known["terminationMessagePolicy"] = container["terminationMessagePolicy"].clone();
    }
    let port = items(&container["ports"]).find(|port| number(&port["containerPort"]) == pod.container.port);
    if let (Some(port), Some(known)) = (port, known.pointer_mut("/ports/0")) {
        known["name"] = port["name"].clone();
    }
    let name = container["name"].clone();
    for container in live["containers"].as_array_mut().into_iter().flatten() {
        if let (true, Some(fields)) = (container["name"] == name, container.as_object_mut()) {
            fields.retain(|field, _| !field.ends_with("Probe"));
        }
    }
    move_security_context(&mut live, &name);
    containers::normalize(&mut live, &mut ours);
    rest::of("spec", &live, &ours)
}

/// Moves the fields of a container's security context that a pod can have, too, to the pod.
fn move_security_context(spec: &mut Value, name: &Value) {
    let mut found = Vec::new();
    let mut containers = spec["containers"].as_array_mut().into_iter().flatten();
    let container = containers.find(|container| container["name"] == *name);
    if let Some(own) = container.and_then(|container| container["securityContext"].as_object_mut()) {
        found.extend(
            ["runAsNonRoot", "seccompProfile"]
                .iter()
                .filter_map(|field| own.remove_entry(*field)),
        );
    }
    for (field, value) in found {
        spec["securityContext"][field] = value;
    }
}

pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

pub(super) fn number(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| number.try_into().ok())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
