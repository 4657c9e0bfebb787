//! Reads the spec of an app from live objects, and lists the fields that a spec can't express: the inverse of rendering.
//!
//! For all rendered objects, `read_app(desired(app))` is the spec of the app except for defaults, and no field is unmapped.
//! Defaults of the API server are never unmapped.

mod additions;
mod pod;
mod rest;
mod rollout;
mod route;
mod service_account;

use crd::{AppDeploySpec, PodFields};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use crate::children::{DEPLOYMENT, INGRESS, SERVICE};
use crate::{ChildKind, defaults};

pub use additions::Additions;
pub use pod::container;
pub use route::{extra_ports, target_port};

/// The result of reading an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadSpec<T> {
    /// The value that was read.
    pub value: T,
    /// The fields that it does not express, in the order of the object.
    pub unmapped: Vec<UnmappedField>,
}

/// A field of a live object that a spec can't express.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmappedField {
    /// Its path, such as `spec.template.spec.volumes[data]`. Entries of a list have their names in brackets.
    pub path: String,
    /// Its value.
    pub value: Value,
    /// Whether the operator would write another value. Otherwise it does not write the field, and the value is kept until the
    /// object is created again.
    pub differs: bool,
}

/// The live objects of one app.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveObjects<'a> {
    /// The Deployment. Without it, the spec is empty.
    pub deployment: Option<&'a Value>,
    /// The Service that selects its pods.
    pub service: Option<&'a Value>,
    /// The Ingress that routes to that Service.
    pub ingress: Option<&'a Value>,
    /// The PodMonitor with the name of the app.
    pub pod_monitor: Option<&'a Value>,
    /// The ServiceAccount with the name of the app.
    pub service_account: Option<&'a Value>,
}

/// An app that was read from its objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadApp {
    /// The spec, as far as it can express them.
    pub spec: AppDeploySpec,
    /// The fields that it can't express, with the kind of the child.
    pub unmapped: Vec<(&'static ChildKind, UnmappedField)>,
}

/// Reads the fields of pods from a pod template.
#[must_use]
pub fn read_template(template: &PodTemplateSpec) -> ReadSpec<PodFields> {
    // A typed object always serialises: its keys are text.
    let template = serde_json::to_value(template).unwrap_or_default();
    pod::read(&template, None, None, None)
}

/// Reads an app from its objects. `name` and `namespace` are those of the app.
#[must_use]
pub fn read_app(name: &str, namespace: &str, live: LiveObjects<'_>) -> ReadApp {
    let mut unmapped = Vec::new();
    let nothing = Value::Null;
    let deployment = defaults::filled(&DEPLOYMENT, live.deployment.unwrap_or(&nothing));
    let template = &deployment["spec"]["template"];
    let port = live.service.and_then(|service| route::target_port(service, template));
    let pod = pod::read(template, port, live.service, live.pod_monitor);
    let mut spec = AppDeploySpec {
        pod: pod.value,
        replicas: deployment["spec"]["replicas"]
            .as_i64()
            .and_then(|count| count.try_into().ok())
            .unwrap_or(1),
        paused: deployment["spec"]["paused"] == true,
        ..AppDeploySpec::default()
    };
    spec.rollout = rollout::read(&deployment).map(Box::new);
    if let Some(account) = &mut spec.pod.service_account {
        service_account::read(account, name, live.service_account);
    }
    unmapped.extend(rest::of_deployment(&deployment, &spec).map(|rest| (&DEPLOYMENT, rest)));
    unmapped.extend(
        pod.unmapped
            .into_iter()
            .map(|rest| (&DEPLOYMENT, rest.below("spec.template"))),
    );
    if let Some(service) = live.service {
        let rest = route::of_service(service, template, spec.pod.container.port);
        unmapped.extend(rest.into_iter().map(|rest| (&SERVICE, rest)));
    }
    let service = live.service.map(|service| (service, template));
    let rest = route::of_ingress(&mut spec, name, namespace, live.ingress, service);
    unmapped.extend(rest.into_iter().map(|rest| (&INGRESS, rest)));
    ReadApp { spec, unmapped }
}

impl UnmappedField {
    /// Returns the same field with a prefix of its path.
    fn below(self, path: &str) -> Self {
        Self {
            path: format!("{path}.{}", self.path),
            ..self
        }
    }

    /// Whether an app may need the field. Settings of rollouts and metadata do not count.
    #[must_use]
    pub fn matters(&self) -> bool {
        const MINOR: [&str; 6] = [
            "spec.revisionHistoryLimit",
            "spec.progressDeadlineSeconds",
            "spec.minReadySeconds",
            "spec.strategy.rollingUpdate",
            "spec.template.metadata.labels.",
            "spec.template.metadata.annotations.",
        ];
        let is_message = self.path.contains(".terminationMessage");
        // The name of a port has no effect, but a port of the node has.
        let is_of_the_node = self.value["hostPort"].is_number() || self.path.ends_with("].hostPort");
        let is_name = self.path.contains("].ports[") && !is_of_the_node;
        !is_message && !is_name && !MINOR.iter().any(|minor| self.path.starts_with(minor))
    }
}

#[cfg(test)]
mod tests;
