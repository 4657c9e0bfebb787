//! The output of a container, and whether a status may show it.
//!
//! The last line of a log can contain anything that the program can read. All users who may read an object can read its
//! status. So a status shows the output of a container only if the container can read nothing but what the spec of that
//! object gives it: no mount and no variable of another manager.

use std::collections::BTreeSet;

use crd::PodFields;
use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};
use serde_json::json;

use crate::defaults;
use crate::desired::{CONTAINER, pod_spec};

/// What a container can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readable {
    /// Its name.
    container: Box<str>,
    /// Its environment variables, and the objects all keys of which are variables, as JSON.
    variables: BTreeSet<String>,
    /// Its mounts with their volumes, as JSON.
    mounts: BTreeSet<String>,
    /// Whether it can read something that no spec of ours gives a container: a device, or other processes.
    more: bool,
}

/// Text that a container wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The text.
    pub text: String,
    /// What the container can read.
    pub readable: Readable,
}

impl Readable {
    /// Reads the spec of a pod and of a container in it. An unknown container can read anything.
    #[must_use]
    pub fn of(pod: Option<&PodSpec>, container: Option<&Container>) -> Self {
        let sees_processes =
            pod.is_some_and(|pod| pod.share_process_namespace == Some(true) || pod.host_pid == Some(true));
        let has_more = |container: &Container| {
            let devices = container.volume_devices.iter().flatten().count();
            devices > 0
        };
        Self {
            container: container
                .map(|container| container.name.as_str().into())
                .unwrap_or_default(),
            variables: container.map(variables).unwrap_or_default(),
            mounts: container.map(|container| mounts(pod, container)).unwrap_or_default(),
            more: sees_processes || container.is_none_or(has_more),
        }
    }

    /// Returns the name of the container.
    pub(super) fn container(&self) -> &str {
        &self.container
    }

    /// Whether a spec gives the container everything that it can read. Without a spec, only if it can read nothing. A container
    /// that the spec does not have may contain anything.
    #[must_use]
    pub fn is_given_by(&self, pod: Option<&PodFields>) -> bool {
        if self.more {
            return false;
        }
        let has_nothing = self.variables.is_empty() && self.mounts.is_empty();
        if has_nothing && *self.container == *CONTAINER {
            return true;
        }
        let pod = pod.map(pod_spec).unwrap_or_default();
        let mut containers = pod.init_containers.iter().flatten().chain(&pod.containers);
        let Some(given) = containers.find(|given| *given.name == *self.container) else {
            return false;
        };
        self.variables.is_subset(&variables(given)) && self.mounts.is_subset(&mounts(Some(&pod), given))
    }
}

/// Returns the mounts of a container, each with its volume and the defaults of the API server.
fn mounts(pod: Option<&PodSpec>, container: &Container) -> BTreeSet<String> {
    let volumes = || pod.iter().flat_map(|pod| pod.volumes.iter().flatten());
    let mounts = container.volume_mounts.iter().flatten();
    let mounts = mounts.map(|mount| {
        let volume = volumes().find(|volume| volume.name == mount.name);
        // A typed object always serialises: its keys are text.
        let mut volume = serde_json::to_value(volume).unwrap_or_default();
        defaults::volume(&mut volume);
        json!([mount, volume]).to_string()
    });
    mounts.collect()
}

/// Returns the variables of a container, with their values: another manager can give a value to a variable that the spec
/// names.
fn variables(container: &Container) -> BTreeSet<String> {
    let normalized = |var: &EnvVar| EnvVar {
        // The API server omits an empty value.
        value: var.value.clone().filter(|value| !value.is_empty()),
        ..var.clone()
    };
    let variables = container.env.iter().flatten().map(normalized);
    // A typed object always serialises: its keys are text.
    let variables = variables.filter_map(|var| serde_json::to_string(&var).ok());
    let objects = container.env_from.iter().flatten();
    variables
        .chain(objects.filter_map(|object| serde_json::to_string(object).ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn fields(env: &Value) -> PodFields {
        let env_from = json!([{"configMapRef": {"name": "look"}}]);
        serde_json::from_value(json!({"image": "nginx", "env": env, "envFrom": env_from})).unwrap()
    }

    fn is_shown(pod: Value, spec: Option<&PodFields>) -> bool {
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        Readable::of(Some(&pod), pod.containers.first()).is_given_by(spec)
    }

    #[test]
    fn output_of_a_container_with_added_fields_is_hidden() {
        let env = json!([{"name": "KEY", "value": "1234"}, {"name": "EMPTY"},
            {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "a"}}}]);
        let spec = fields(&env);
        let objects = json!([{"configMapRef": {"name": "look"}}]);
        let pod = |env: &Value| json!({"containers": [{"name": "app", "env": env, "envFrom": objects}]});
        assert!(is_shown(pod(&env), Some(&spec)));
        assert!(!is_shown(pod(&env), None));
        assert!(!is_shown(pod(&json!([])), None), "variables of a ConfigMap");
        assert!(is_shown(json!({"containers": [{"name": "app"}]}), None));
        for (change, why) in [
            (
                json!({"volumeMounts": [{"name": "key", "mountPath": "/key"}]}),
                "a mount",
            ),
            (
                json!({"volumeDevices": [{"name": "key", "devicePath": "/key"}]}),
                "a device",
            ),
            (
                json!({"envFrom": [{"configMapRef": {"name": "look"}}, {"secretRef": {"name": "key"}}]}),
                "variables from a Secret",
            ),
            (
                json!({"envFrom": [{"secretRef": {"name": "look"}}]}),
                "variables from a Secret with the name of the ConfigMap",
            ),
            (json!({"env": [{"name": "TOKEN", "value": "1234"}]}), "a variable"),
            (
                json!({"env": [{"name": "KEY", "value": "other"}]}),
                "the value of a variable",
            ),
            (
                json!({"env": [{"name": "EMPTY", "valueFrom": {"secretKeyRef": {"name": "db", "key": "a"}}}]}),
                "a value for a variable without one",
            ),
            (
                json!({"env": [{"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "other"}}}]}),
                "another key",
            ),
        ] {
            let mut pod = pod(&env);
            for (field, value) in change.as_object().unwrap() {
                pod["containers"][0][field] = value.clone();
            }
            assert!(!is_shown(pod, Some(&spec)), "{why}");
        }
        for field in ["shareProcessNamespace", "hostPID"] {
            let mut pod = pod(&env);
            pod[field] = json!(true);
            assert!(!is_shown(pod, Some(&spec)), "{field}");
        }
        assert!(
            !Readable::of(None, None).is_given_by(Some(&spec)),
            "an unknown container"
        );
    }

    #[test]
    fn mounts_of_the_spec_are_given_by_it() {
        let spec: PodFields = serde_json::from_value(json!({"image": "nginx", "volumes": [
            {"name": "config", "mountPath": "/config", "configMap": {"name": "config"}},
            {"name": "cache", "mountPath": "/cache", "emptyDir": {}}]}))
        .unwrap();
        let mut pod = json!(pod_spec(&spec));
        defaults::pod_spec(&mut pod);
        assert!(is_shown(pod.clone(), Some(&spec)));
        assert!(!is_shown(pod.clone(), None));
        for source in [
            json!({"configMap": {"name": "other"}}),
            json!({"secret": {"secretName": "config"}}),
        ] {
            let mut other = pod.clone();
            other["volumes"][0] = source;
            other["volumes"][0]["name"] = json!("config");
            assert!(!is_shown(other, Some(&spec)), "another source");
        }
        pod["containers"][0]["volumeMounts"][0]["subPath"] = json!("key");
        assert!(!is_shown(pod, Some(&spec)), "another mount");
    }

    #[test]
    fn output_of_another_container_of_the_spec_is_shown_if_it_reads_only_what_it_is_given() {
        let spec: PodFields = serde_json::from_value(json!({"image": "nginx", "env": [{"name": "KEY", "value": "1"}],
            "initContainers": [{"name": "migrate", "image": "shop", "env": [{"name": "MODE", "value": "on"}]}]}))
        .unwrap();
        let pod = pod_spec(&spec);
        let is_shown = |change: &dyn Fn(&mut Container)| {
            let mut migrate = pod.init_containers.as_ref().unwrap()[0].clone();
            change(&mut migrate);
            Readable::of(Some(&pod), Some(&migrate)).is_given_by(Some(&spec))
        };
        assert!(is_shown(&|_| {}));
        assert!(
            !is_shown(&|one| one.env.clone_from(&pod.containers[0].env)),
            "a variable of the application"
        );
        assert!(
            !is_shown(&|one| {
                one.name = "added".into();
                one.env = None;
            }),
            "a container of another manager"
        );
    }

    proptest! {
        #[test]
        fn output_of_a_container_as_rendered_is_shown_and_one_more_variable_hides_it(
            env in prop::collection::btree_map("[A-Z]{1,3}", prop::option::of("[a-z]{0,3}"), 0..4),
            more in "[a-z]{1,3}",
        ) {
            let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            let spec = fields(&json!(env));
            let mut pod = pod_spec(&spec);
            prop_assert!(Readable::of(Some(&pod), pod.containers.first()).is_given_by(Some(&spec)));
            let var = EnvVar { name: more, ..EnvVar::default() };
            pod.containers[0].env.get_or_insert_default().push(var);
            prop_assert!(!Readable::of(Some(&pod), pod.containers.first()).is_given_by(Some(&spec)));
        }
    }
}
