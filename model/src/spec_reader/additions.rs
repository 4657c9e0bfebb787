//! Fields of a live pod template that the operator did not write: a volume, a sidecar, a toleration.
//!
//! They are found by comparison with what the operator writes, not by field managers: a mutating webhook adds fields to
//! the operator's own requests, and no manager owns those.

use crd::PodFields;
use serde_json::Value;

use super::{UnmappedField, pod, rest};
use crate::defaults;
use crate::desired::app_pod_spec;

/// The maximum number of fields in a message.
const NAMED: usize = 3;

/// The fields of the pods of a Deployment that do not come from the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Additions {
    /// There are none.
    #[default]
    None,
    /// Paths of fields in the Deployment. A long list is cut.
    Fields(Box<str>),
    /// They are not known, for this reason.
    Unknown(Box<str>),
}

impl Additions {
    /// Compares the pod template of an app's Deployment with the recorded spec from which it was last written. Without one of the two,
    /// the result is unknown.
    #[must_use]
    pub fn read(app: &str, template: &Value, spec: Option<&str>) -> Self {
        if !template["spec"].is_object() {
            return Self::Unknown("it has no spec of pods".into());
        }
        let Some(spec) = spec.and_then(|spec| serde_json::from_str::<PodFields>(spec).ok()) else {
            return Self::Unknown("it has no record of the spec that it was written from".into());
        };
        let paths = added(app, template, &spec);
        let named = paths.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>();
        match paths.len().saturating_sub(named.len()) {
            _ if named.is_empty() => Self::None,
            0 => Self::Fields(named.join(", ").into()),
            more => Self::Fields(format!("{} and {more} more", named.join(", ")).into()),
        }
    }
}

/// Returns the paths of added fields in the Deployment, without those that the next write of the operator overwrites.
fn added(app: &str, template: &Value, spec: &PodFields) -> Vec<String> {
    // A typed object always serialises: its keys are text.
    let mut ours = serde_json::to_value(app_pod_spec(app, spec)).unwrap_or_default();
    let mut live = template["spec"].clone();
    for spec in [&mut ours, &mut live] {
        defaults::pod_spec(spec);
    }
    let mut unmapped = rest::of("spec", &live, &ours);
    unmapped.extend(pod::metadata(&template["metadata"]));
    let added = unmapped
        .into_iter()
        .filter(|unmapped| !unmapped.differs && !is_harmless(unmapped));
    added.map(|unmapped| unmapped.below("spec.template").path).collect()
}

/// Whether a field gives a program in the pod no access to anything: it is a limit, a number or a name.
fn is_harmless(unmapped: &UnmappedField) -> bool {
    let UnmappedField { path, value, .. } = unmapped;
    let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
    let is_amount = path.contains(".resources") && value.get("claims").is_none() && !path.contains(".claims");
    let is_port = path.contains("].ports[") && value.get("hostPort").is_none() && !ends(&[".hostPort", ".hostIP"]);
    let is_limit = ends(&[".readOnlyRootFilesystem", ".runAsNonRoot", ".capabilities.drop"])
        || ends(&[".capabilities"]) && value.get("add").is_none();
    value.is_number() && (path.contains("Probe.") || ends(&[".terminationGracePeriodSeconds"]))
        || path.contains(".terminationMessage")
        || is_amount
        || is_port
        || is_limit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn spec() -> Value {
        json!({"image": "nginx:1", "port": 80, "env": [{"name": "A", "value": "1"}, {"name": "B"}],
            "imagePullSecrets": [{"name": "registry"}], "healthCheck": {"path": "/"}, "securityProfile": "Restricted"})
    }

    /// A Deployment as the operator writes it and the API server stores it.
    fn deployment(spec: &Value) -> Value {
        let app = json!({"metadata": {"name": "shop", "namespace": "a", "uid": "u1"}, "spec": spec});
        let app: crd::AppDeploy = serde_json::from_value(app).unwrap();
        let deployment = crate::desired(&crate::validate(&app).unwrap())
            .first(&crate::children::DEPLOYMENT)
            .unwrap()
            .clone();
        defaults::filled(&crate::children::DEPLOYMENT, &deployment)
    }

    fn read(deployment: &Value) -> Additions {
        let spec = &deployment["metadata"]["annotations"][crd::annotation::REVISION_SPEC];
        Additions::read("shop", &deployment["spec"]["template"], spec.as_str())
    }

    fn with(change: impl FnOnce(&mut Value)) -> Additions {
        let mut live = deployment(&spec());
        change(&mut live["spec"]["template"]);
        read(&live)
    }

    fn push(list: &mut Value, item: Value) {
        if list.is_null() {
            *list = json!([]);
        }
        list.as_array_mut().unwrap().push(item);
    }

    #[test]
    fn variables_of_queues_are_no_additions() {
        let spec = json!({"image": "nginx:1", "queues": [{"name": "orders"}]});
        assert_eq!(read(&deployment(&spec)), Additions::None);
    }

    #[test]
    fn each_kind_of_added_field_is_named() {
        type Change = fn(&mut Value);
        let table: [(&str, Change); 18] = [
            ("spec.volumes[keys]", |pod| {
                push(
                    &mut pod["volumes"],
                    json!({"name": "keys", "secret": {"secretName": "keys"}}),
                );
            }),
            ("spec.containers[app].volumeMounts[/keys]", |pod| {
                push(
                    &mut pod["containers"][0]["volumeMounts"],
                    json!({"name": "keys", "mountPath": "/keys"}),
                );
            }),
            ("spec.containers[app].envFrom", |pod| {
                push(
                    &mut pod["containers"][0]["envFrom"],
                    json!({"secretRef": {"name": "db"}}),
                );
            }),
            ("spec.containers[app].env[TOKEN]", |pod| {
                push(
                    &mut pod["containers"][0]["env"],
                    json!({"name": "TOKEN", "value": "secret"}),
                );
            }),
            // The spec names the variable, and another manager gives it a value.
            ("spec.containers[app].env[B].valueFrom", |pod| {
                pod["containers"][0]["env"][1]["valueFrom"] = json!({"secretKeyRef": {"name": "db", "key": "b"}});
            }),
            ("spec.containers[proxy]", |pod| {
                push(&mut pod["containers"], json!({"name": "proxy", "image": "proxy:1"}));
            }),
            ("spec.initContainers[setup]", |pod| {
                push(&mut pod["initContainers"], json!({"name": "setup", "image": "setup:1"}));
            }),
            ("spec.containers[app].lifecycle", |pod| {
                pod["containers"][0]["lifecycle"] = json!({"preStop": {"exec": {"command": ["curl", "token"]}}});
            }),
            (
                "spec.containers[app].readinessProbe.httpGet.httpHeaders[Authorization]",
                |pod| {
                    push(
                        &mut pod["containers"][0]["readinessProbe"]["httpGet"]["httpHeaders"],
                        json!({"name": "Authorization", "value": "secret"}),
                    );
                },
            ),
            ("spec.containers[app].securityContext.privileged", |pod| {
                pod["containers"][0]["securityContext"]["privileged"] = json!(true);
            }),
            ("spec.containers[app].securityContext.capabilities.add", |pod| {
                push(
                    &mut pod["containers"][0]["securityContext"]["capabilities"]["add"],
                    json!("NET_ADMIN"),
                );
            }),
            ("spec.containers[app].ports[9090]", |pod| {
                push(
                    &mut pod["containers"][0]["ports"],
                    json!({"containerPort": 9090, "hostPort": 9090}),
                );
            }),
            ("spec.serviceAccountName", |pod| {
                pod["serviceAccountName"] = json!("deployer");
            }),
            ("spec.imagePullSecrets[private]", |pod| {
                push(&mut pod["imagePullSecrets"], json!({"name": "private"}));
            }),
            ("spec.shareProcessNamespace", |pod| {
                pod["shareProcessNamespace"] = json!(true);
            }),
            ("spec.hostNetwork", |pod| pod["hostNetwork"] = json!(true)),
            ("spec.nodeSelector", |pod| pod["nodeSelector"] = json!({"disk": "ssd"})),
            ("spec.fieldOfTheFuture", |pod| pod["fieldOfTheFuture"] = json!("x")),
        ];
        for (path, change) in table {
            let found = with(|template| change(&mut template["spec"]));
            assert_eq!(found, Additions::Fields(format!("spec.template.{path}").into()));
        }
        let annotated = with(|template| template["metadata"]["annotations"]["vault.example.com/inject"] = json!("yes"));
        let path = "spec.template.metadata.annotations.vault.example.com/inject";
        assert_eq!(annotated, Additions::Fields(path.into()));
    }

    #[test]
    fn long_list_of_fields_is_cut() {
        let many = with(|template| {
            for name in ["a", "b", "c", "d", "e"] {
                push(
                    &mut template["spec"]["volumes"],
                    json!({"name": name, "emptyDir": {}, "x": 1}),
                );
            }
        });
        let named =
            "spec.template.spec.volumes[a], spec.template.spec.volumes[b], spec.template.spec.volumes[c] and 2 more";
        assert_eq!(many, Additions::Fields(named.into()));
    }

    #[test]
    fn fields_that_give_a_program_nothing_do_not_count() {
        let harmless = with(|template| {
            template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = json!("now");
            let pod = &mut template["spec"];
            pod["terminationGracePeriodSeconds"] = json!(90);
            pod["serviceAccountName"] = json!("default");
            pod["serviceAccount"] = json!("default");
            let container = &mut pod["containers"][0];
            container["resources"] = json!({"limits": {"memory": "1Gi"}});
            container["readinessProbe"]["initialDelaySeconds"] = json!(5);
            container["securityContext"]["readOnlyRootFilesystem"] = json!(true);
            push(
                &mut container["ports"],
                json!({"containerPort": 9090, "name": "metrics"}),
            );
        });
        assert_eq!(harmless, Additions::None);
        // The next write restores these.
        let drift = with(|template| {
            template["spec"]["automountServiceAccountToken"] = json!(true);
            template["spec"]["containers"][0]["image"] = json!("nginx:2");
        });
        assert_eq!(drift, Additions::None);
    }

    #[test]
    fn missing_record_or_template_is_unknown() {
        let live = &deployment(&spec())["spec"]["template"];
        for (live, record) in [
            (live, None),
            (live, Some("no JSON")),
            (&json!({}), Some("{\"image\":\"a\"}")),
        ] {
            assert!(
                matches!(Additions::read("shop", live, record), Additions::Unknown(_)),
                "{record:?}"
            );
        }
    }

    proptest! {
        /// Fields that the operator writes require no more rights.
        #[test]
        fn rendered_deployment_has_no_additions(
            port in prop::option::of(1..=65535),
            env in prop::collection::btree_map("[A-Z]{1,3}", prop::option::of("[a-z]{0,3}"), 0..4),
            check in prop::option::of(prop::option::of("/[a-z]{0,3}")),
            restricted in any::<bool>(),
            words in prop::collection::vec("[a-z]{0,3}", 0..3),
            amount in prop::option::of("[1-9][0-9]{0,2}(m|Mi)?"),
            paths in prop::collection::btree_set("/[a-z]{1,3}", 0..4),
            account in prop::option::of(any::<bool>()),
        ) {
            let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            let mut spec = json!({"image": "nginx", "env": env, "command": words, "args": words});
            spec["securityProfile"] = json!(if restricted { "Restricted" } else { "Baseline" });
            let sources = [json!({"configMap": {"name": "a"}}), json!({"secret": {"secretName": "a"}}),
                json!({"emptyDir": {"sizeLimit": "0.5Gi"}}), json!({"image": {"reference": "a"}})];
            let volumes = paths.iter().zip(sources).map(|(path, mut volume)| {
                volume["name"] = json!(path[1..]);
                volume["mountPath"] = json!(path);
                volume
            });
            spec["volumes"] = volumes.collect();
            if let Some(token) = account {
                let own = json!({"annotations": {"a": "b"}});
                spec["serviceAccount"] = if restricted { own } else { json!({"name": "else"}) };
                spec["automountServiceAccountToken"] = json!(token);
            }
            if let Some(port) = port {
                spec["port"] = json!(port);
            }
            if let (Some(path), Some(_)) = (check, port) {
                spec["healthCheck"] = path.map_or_else(|| json!({}), |path| json!({"path": path}));
            }
            spec["placement"] = json!({"nodeSelector": {"disktype": "ssd"}, "tolerations": [{"key": "gpu", "value": "a"}]});
            spec["hostUsers"] = json!(false);
            spec["metrics"] = json!({"port": 9100});
            spec["preStopSleepSeconds"] = json!(5);
            spec["envFrom"] = json!([{"secretRef": {"name": "db"}}]);
            spec["env"].as_array_mut().unwrap().push(json!({"name": "node", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}));
            if let Some(amount) = amount {
                spec["resources"] = json!({"requests": {"cpu": amount}});
            }
            prop_assert_eq!(read(&deployment(&spec)), Additions::None);
        }
    }
}
