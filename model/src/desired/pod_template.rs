//! Renders the pod template.

use std::collections::BTreeMap;

use crd::{PodFields, SecurityProfile, annotation};
use k8s_openapi::api::core::v1::{
    self as core, Container, ContainerPort, Lifecycle, LifecycleHandler, PodSecurityContext, PodSpec, PodTemplateSpec,
    SeccompProfile, SleepAction,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::container::{TERMINATION_MESSAGE_POLICY, resources, security_context};
use super::env::{env_from, env_var};
use super::ports::container_ports;
use super::probes::probes;
use super::queue_env::queue_variables;
use super::{CONTAINER, other_containers, placement, pod_labels, pod_volumes, some_list};
use crate::Valid;

pub(crate) fn render(app: &Valid<'_>) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(pod_labels(&app.name)),
            annotations: annotations(app),
            ..ObjectMeta::default()
        }),
        spec: Some(app_pod_spec(&app.name, app.pod)),
    }
}

/// Returns the annotations of the pods, which change to replace them.
fn annotations(app: &Valid<'_>) -> Option<BTreeMap<String, String>> {
    let all = [
        (annotation::RESTARTED_AT, &app.restarted_at),
        (annotation::CONFIG_HASH, &app.config_hash),
    ];
    let set = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    Some(set.collect::<BTreeMap<_, _>>()).filter(|set| !set.is_empty())
}

/// Renders the spec of the pods of an app. Its own ServiceAccount has its name.
pub(crate) fn app_pod_spec(name: &str, pod: &PodFields) -> PodSpec {
    let mut spec = pod_spec(pod);
    if pod.service_account.is_some() && spec.service_account_name.is_none() {
        spec.service_account_name = Some(name.to_owned());
    }
    spec
}

/// Renders the spec of a pod, for AppDeploys and PodSets.
pub(crate) fn pod_spec(pod: &PodFields) -> PodSpec {
    let restricted = pod.profile() == SecurityProfile::Restricted;
    PodSpec {
        // An application that does not call the API server needs no token. The environment variables of all Services of the
        // namespace are not needed.
        automount_service_account_token: Some(pod.automount_service_account_token == Some(true)),
        service_account_name: pod.service_account.as_ref().and_then(|account| account.name.clone()),
        enable_service_links: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: restricted.then_some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".into(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        image_pull_secrets: some_list(&pod.image_pull_secrets, |secret| core::LocalObjectReference {
            name: secret.name.clone(),
        }),
        termination_grace_period_seconds: pod.termination_grace_period_seconds,
        init_containers: other_containers::render(pod, restricted),
        containers: vec![container(pod, restricted)],
        volumes: pod_volumes::volumes(pod),
        node_selector: placement::node_selector(pod),
        tolerations: placement::tolerations(pod),
        host_users: pod.host_users,
        ..PodSpec::default()
    }
}

fn container(pod: &PodFields, restricted: bool) -> Container {
    let fields = &pod.container;
    // Variables of queues come first, so that others may refer to them as $(NAME).
    let env = queue_variables(pod).chain(fields.env.iter().map(env_var));
    let env: Vec<_> = env.collect();
    let probes = probes(fields);
    Container {
        name: CONTAINER.into(),
        image: Some(fields.image.clone()),
        image_pull_policy: fields.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        command: some_list(&fields.command, Clone::clone),
        args: some_list(&fields.args, Clone::clone),
        env: (!env.is_empty()).then_some(env),
        env_from: some_list(&fields.env_from, env_from),
        ports: some_list(&container_ports(pod), |port| ContainerPort {
            name: Some(port.name.into()),
            container_port: port.number,
            protocol: Some(port.protocol.as_str().into()),
            ..ContainerPort::default()
        }),
        resources: fields.resources.as_ref().map(resources),
        startup_probe: probes.startup,
        readiness_probe: probes.readiness,
        liveness_probe: probes.liveness,
        lifecycle: pod.pre_stop_sleep_seconds.map(|seconds| Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction { seconds }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        volume_mounts: pod_volumes::mounts(pod),
        security_context: Some(security_context(restricted)),
        // Existing pods get this field with their next change (see `deferred_defaults`).
        termination_message_policy: Some(TERMINATION_MESSAGE_POLICY.into()),
        ..Container::default()
    }
}
