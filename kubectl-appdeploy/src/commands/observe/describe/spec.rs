//! The spec in `describe`.

use std::collections::BTreeMap;

use crd::{
    AppDeploySpec, EnvFromSource, EnvVar, OtherContainer, PodFields, PodSet, Probe, Probes, Quantity, RolloutStrategy,
    RolloutType, SecurityProfile, Toleration, TolerationOperator, Volume,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::output::description::Page;
use crate::output::formats::some;
use crate::resource::workload::Workload;

/// Writes the lines of a spec.
pub fn write(page: &mut Page<'_>, workload: &Workload) {
    page.line("Image", &workload.pod().container.image);
    match workload {
        Workload::App(app) => route(page, &app.spec),
        Workload::PodSet(set) => replacement(page, set),
    }
    pod(page, workload.pod());
}

/// How an app is reached.
fn route(page: &mut Page<'_>, spec: &AppDeploySpec) {
    match spec.pod.container.port {
        Some(port) => page.line("Port", &port.to_string()),
        None => page.line("Port", "<none> (a worker: no Service, no Ingress)"),
    }
    if spec.pod.container.port.is_some() && !spec.is_public() {
        page.line("Expose", "Cluster (inside the cluster only)");
    }
    lines(
        page,
        [
            ("Path", spec.path.clone()),
            ("IngressClass", spec.ingress_class_name.clone()),
            ("Rollout", spec.rollout.as_deref().map(rollout)),
            ("TLS Secret", spec.tls.as_ref().and_then(|tls| tls.secret_name.clone())),
        ],
    );
}

/// How pods of an app are replaced.
fn rollout(rollout: &RolloutStrategy) -> String {
    let type_ = rollout.type_.unwrap_or(RolloutType::RollingUpdate).as_str().to_owned();
    let surge = rollout.max_surge.as_ref();
    let unavailable = rollout.max_unavailable.as_ref();
    let parts = [
        Some(type_),
        surge.map(|most| format!("at most {} more pods", limit(most))),
        unavailable.map(|most| format!("at most {} unavailable", limit(most))),
        rollout
            .progress_deadline_seconds
            .map(|seconds| format!("failed after {seconds}s without progress")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn limit(limit: &IntOrString) -> String {
    match limit {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(share) => share.clone(),
    }
}

/// How pods of a pod set are replaced.
fn replacement(page: &mut Page<'_>, set: &PodSet) {
    let spec = &set.spec;
    // A pod that was replaced stays in the spec.
    let there = set.status.iter().flat_map(|status| &status.pod_names);
    let going: Vec<String> = there
        .filter(|name| spec.replace_pods.iter().any(|pod| pod.name == **name))
        .cloned()
        .collect();
    let unavailable = spec.max_unavailable.as_ref().map(limit);
    let settled = (spec.min_ready_seconds > 0).then(|| format!("{}s", spec.min_ready_seconds));
    lines(
        page,
        [
            ("Port", spec.pod().container.port.map(|port| port.to_string())),
            ("Min Ready", settled),
            (
                "Unavailable",
                unavailable.map(|most| format!("at most {most} during an update")),
            ),
            ("Replacing", (!going.is_empty()).then(|| some(&going))),
        ],
    );
}

fn lines<const N: usize>(page: &mut Page<'_>, lines: [(&str, Option<String>); N]) {
    for (label, value) in lines {
        if let Some(value) = value {
            page.line(label, &value);
        }
    }
}

/// What runs in each pod.
fn pod(page: &mut Page<'_>, pod: &PodFields) {
    let container = &pod.container;
    let ports: Vec<String> = container
        .ports
        .iter()
        .map(|port| format!("{} {}/{}", port.name, port.port, port.protocol().as_str()))
        .collect();
    lines(
        page,
        [
            ("Other Ports", (!ports.is_empty()).then(|| ports.join(", "))),
            (
                "Command",
                (!container.command.is_empty()).then(|| words(&container.command)),
            ),
            ("Args", (!container.args.is_empty()).then(|| words(&container.args))),
            (
                "Pull Policy",
                container.image_pull_policy.map(|policy| policy.as_str().to_owned()),
            ),
            (
                "Grace Period",
                pod.termination_grace_period_seconds
                    .map(|seconds| format!("{seconds}s")),
            ),
            (
                "Pre-Stop",
                pod.pre_stop_sleep_seconds.map(|seconds| format!("sleeps {seconds}s")),
            ),
            (
                "Config Change",
                pod.restarts_on_config_change().then(|| "restarts the pods".to_owned()),
            ),
            (
                "Security",
                (pod.profile() == SecurityProfile::Restricted).then(|| "Restricted".to_owned()),
            ),
        ],
    );
    if let Some(resources) = &container.resources {
        let amounts = |map: &BTreeMap<String, Quantity>| {
            map.iter()
                .map(|(name, amount)| format!("{name}={amount}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if !resources.requests.is_empty() {
            page.line("Requests", &amounts(&resources.requests));
        }
        if !resources.limits.is_empty() {
            page.line("Limits", &amounts(&resources.limits));
        }
    }
    if let Some(check) = &container.health_check {
        let port = check.port.or(container.port).unwrap_or_default();
        page.line(
            "Health Check",
            &check.path.as_ref().map_or_else(
                || format!("TCP on port {port}"),
                |path| format!("GET {path} on port {port}"),
            ),
        );
    }
    for (name, probe) in container.probes.as_deref().into_iter().flat_map(Probes::named) {
        let label = match name {
            "readiness" => "Readiness",
            "liveness" => "Liveness",
            _ => "Startup",
        };
        page.line(label, &checks(probe));
    }
    surroundings(page, pod);
    if !pod.volumes.is_empty() {
        let volumes = pod.volumes.iter();
        let volumes = volumes.map(|one| match &one.mount_path {
            Some(path) => format!("{path} from {}", source(one)),
            None => format!("{} from {}, only in other containers", one.name, source(one)),
        });
        page.list("Volumes", &volumes.collect::<Vec<_>>());
    }
    other_containers(page, pod);
    let variables: Vec<String> = container
        .env_from
        .iter()
        .filter_map(all_keys)
        .chain(container.env.iter().map(variable))
        .collect();
    if !variables.is_empty() {
        page.list("Environment", &variables);
    }
}

/// Lists the init containers and the sidecars.
fn other_containers(page: &mut Page<'_>, pod: &PodFields) {
    for (label, list) in [("Init Containers", "initContainers"), ("Sidecars", "sidecars")] {
        let all = pod.other_containers().filter(|(of, _)| *of == list);
        let lines: Vec<String> = all.map(|(_, container)| other_container(container)).collect();
        if !lines.is_empty() {
            page.list(label, &lines);
        }
    }
}

/// Describes a container next to that of the application.
fn other_container(container: &OtherContainer) -> String {
    let program: Vec<String> = container.command.iter().chain(&container.args).cloned().collect();
    let program = (!program.is_empty()).then(|| format!("runs {}", words(&program)));
    let mounts = container.mounts.iter();
    let mounts = mounts.map(|mount| format!("mounts {} at {}", mount.name, mount.mount_path));
    let variables = container.env_from.iter().filter_map(all_keys);
    let variables = variables.chain(container.env.iter().map(variable));
    let parts = [container.image.clone()]
        .into_iter()
        .chain(program)
        .chain(mounts)
        .chain(variables);
    format!("{}: {}", container.name, parts.collect::<Vec<_>>().join("; "))
}

/// Describes the identity, the nodes and the metrics of the pods.
fn surroundings(page: &mut Page<'_>, pod: &PodFields) {
    if let Some(account) = &pod.service_account {
        let name = account.name.as_deref().unwrap_or("that of the app");
        let token = pod.automount_service_account_token == Some(true);
        let token = if token { " (its token is mounted)" } else { "" };
        page.line("Service Account", &format!("{name}{token}"));
        let annotations = account.annotations.iter().flatten();
        let annotations: Vec<String> = annotations.map(|(key, value)| format!("{key}={value}")).collect();
        if !annotations.is_empty() {
            page.list("Identity", &annotations);
        }
    }
    if let Some(placement) = &pod.placement {
        let labels = placement.node_selector.iter();
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        if !labels.is_empty() {
            page.line("Node Selector", &labels.join(", "));
        }
        let tolerations: Vec<String> = placement.tolerations.iter().map(toleration).collect();
        if !tolerations.is_empty() {
            page.line("Tolerations", &tolerations.join(", "));
        }
    }
    if pod.host_users == Some(false) {
        page.line("User Namespace", "yes");
    }
    if let Some(metrics) = &pod.metrics {
        let port = metrics.port.or(pod.container.port).unwrap_or_default();
        let path = metrics.path.as_deref().unwrap_or("/metrics");
        page.line("Metrics", &format!("GET {path} on port {port}"));
    }
}

/// Describes where the files of a volume come from.
fn source(volume: &Volume) -> String {
    match volume {
        Volume {
            config_map: Some(map), ..
        } => format!("ConfigMap {}", map.name),
        Volume {
            secret: Some(secret), ..
        } => format!("Secret {}", secret.secret_name),
        Volume { image: Some(image), .. } => format!("image {}", image.reference),
        Volume { empty_dir: Some(_), .. } => "an empty directory".to_owned(),
        _ => "<unset>".to_owned(),
    }
}

/// Describes a toleration, as `kubectl describe` does.
fn toleration(toleration: &Toleration) -> String {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_ref().map(|value| format!("={value}"));
    let effect = toleration.effect.map(|effect| format!(":{}", effect.as_str()));
    let operator = (toleration.operator == Some(TolerationOperator::Exists)).then_some(" op=Exists");
    let seconds = toleration.toleration_seconds.map(|seconds| format!(" for {seconds}s"));
    let text = [value, effect, operator.map(str::to_owned), seconds].map(Option::unwrap_or_default);
    format!("{key}{}", text.concat()).trim_start().to_owned()
}

fn words(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"$\\".contains(c));
        if plain { word.clone() } else { format!("{word:?}") }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn variable(variable: &EnvVar) -> String {
    let name = &variable.name;
    let Some(source) = &variable.value_from else {
        return format!("{name}={}", variable.value.as_deref().unwrap_or_default());
    };
    if let Some(field) = &source.field_ref {
        return format!("{name} from field {}", field.field_path.as_str());
    }
    let (kind, key) = match (&source.secret_key_ref, &source.config_map_key_ref) {
        (Some(key), _) => ("Secret", key),
        (None, Some(key)) => ("ConfigMap", key),
        (None, None) => return format!("{name}=<unset>"),
    };
    format!("{name} from {kind} {}, key {}", key.name, key.key)
}

fn all_keys(source: &EnvFromSource) -> Option<String> {
    let (kind, object) = match (&source.secret_ref, &source.config_map_ref) {
        (Some(object), _) => ("Secret", object),
        (None, object) => ("ConfigMap", object.as_ref()?),
    };
    let prefix = source.prefix.as_ref().map(|prefix| format!(", prefix {prefix}"));
    Some(format!(
        "all keys of {kind} {}{}",
        object.name,
        prefix.unwrap_or_default()
    ))
}

/// Returns what a probe checks.
fn checks(probe: &Probe) -> String {
    let port = probe.port().unwrap_or_default();
    match (&probe.http_get, &probe.grpc, &probe.exec) {
        (Some(http), ..) => format!("GET {} on port {port}", http.path.as_deref().unwrap_or("/")),
        (_, Some(_), _) => format!("gRPC on port {port}"),
        (_, _, Some(exec)) => format!("command {}", words(&exec.command)),
        _ => format!("TCP on port {port}"),
    }
}
