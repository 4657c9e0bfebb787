//! The way back: from objects as they are in a cluster to the spec that means them, and what no spec can say.
//!
//! For all objects that we write, `of_app(desired(app))` is the app's spec up to defaults, and nothing is left over.
//! What the API server fills in by itself is never left over.

mod additions;
mod pod;
mod rest;
mod route;

use crd::{AppDeploySpec, PodFields};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use crate::children::{DEPLOYMENT, INGRESS, SERVICE};
use crate::{ChildKind, defaults};

pub use additions::Additions;
pub use pod::container;
pub use route::{beside, target};

/// What was read, and what could not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Inverse<T> {
    /// What can be said.
    pub said: T,
    /// What can't, in the order of the object.
    pub left: Vec<Left>,
}

/// A field of an object that no field of ours stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Where it stands, like `spec.template.spec.volumes[data]`. The entries of a list are told apart by name.
    pub path: String,
    /// What it says.
    pub value: Value,
    /// We would write something else there. Otherwise we would write nothing, and what is there stays unless the object
    /// is made anew.
    pub differs: bool,
}

/// The objects of one application as they are in a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live<'a> {
    /// The Deployment. Without one nothing can be said.
    pub deployment: Option<&'a Value>,
    /// The Service that leads to its pods.
    pub service: Option<&'a Value>,
    /// The Ingress that leads to that Service.
    pub ingress: Option<&'a Value>,
}

/// An application that was read from its objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct App {
    /// The spec that means them, as far as a spec can.
    pub spec: AppDeploySpec,
    /// What it can't say, of which kind of child.
    pub left: Vec<(&'static ChildKind, Left)>,
}

/// Returns the fields that a pod template was made from, or could have been.
#[must_use]
pub fn of_template(template: &PodTemplateSpec) -> Inverse<PodFields> {
    // A typed object always serialises: its keys are text.
    let template = serde_json::to_value(template).unwrap_or_default();
    pod::read(&template, None)
}

/// Returns the application that these objects were made from, or could have been. `name` and `namespace` are the
/// application's.
#[must_use]
pub fn of_app(name: &str, namespace: &str, live: Live<'_>) -> App {
    let mut left = Vec::new();
    let nothing = Value::Null;
    let deployment = defaults::filled(&DEPLOYMENT, live.deployment.unwrap_or(&nothing));
    let template = &deployment["spec"]["template"];
    let port = live.service.and_then(|service| route::target(service, template));
    let pod = pod::read(template, port);
    let mut spec = AppDeploySpec {
        pod: pod.said,
        replicas: deployment["spec"]["replicas"]
            .as_i64()
            .and_then(|count| count.try_into().ok())
            .unwrap_or(1),
        paused: deployment["spec"]["paused"] == true,
        ..AppDeploySpec::default()
    };
    let waits = crate::children::min_ready(&spec.pod).unwrap_or(0);
    left.extend(rest::of_deployment(&deployment, waits).map(|rest| (&DEPLOYMENT, rest)));
    left.extend(
        pod.left
            .into_iter()
            .map(|rest| (&DEPLOYMENT, rest.below("spec.template"))),
    );
    if let Some(service) = live.service {
        let rest = route::of_service(service, template, spec.pod.container.port);
        left.extend(rest.into_iter().map(|rest| (&SERVICE, rest)));
    }
    let service = live.service.map(|service| (service, template));
    let rest = route::of_ingress(&mut spec, name, namespace, live.ingress, service);
    left.extend(rest.into_iter().map(|rest| (&INGRESS, rest)));
    App { spec, left }
}

impl Left {
    /// Returns the same, where what was read stands below another field.
    fn below(self, path: &str) -> Self {
        Self {
            path: format!("{path}.{}", self.path),
            ..self
        }
    }

    /// Whether an application could miss it. What only says how it is rolled out or remembered is no loss.
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
        // Naming a port opens none; a port of the node is one.
        let is_of_the_node = self.value["hostPort"].is_number() || self.path.ends_with("].hostPort");
        let is_name = self.path.contains("].ports[") && !is_of_the_node;
        // Who gets more time to end than usual may need it; who gets less needs none.
        let is_short = self.path == "spec.template.spec.terminationGracePeriodSeconds"
            && self.value.as_i64().is_some_and(|seconds| seconds < defaults::GRACE);
        !is_message && !is_name && !is_short && !MINOR.iter().any(|minor| self.path.starts_with(minor))
    }
}

#[cfg(test)]
mod tests;
