//! Validates a stored PodSet, and reduces it to what [`super::next_step`] depends on.

use std::collections::BTreeSet;

use crd::{EnvVar, ImagePullPolicy, OtherContainer, PodFields, PodSet, annotation};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::defaults;
use crate::digest::stable_hash;
use crate::valid::{Invalid, MAX_NAME, is_name, pod_problems};

/// A valid PodSet, with its defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValidPodSet {
    /// Its name: the pods are called `<name>-<slot>`.
    pub name: String,
    /// Its UID. A pod is part of the set only if its controller has this UID.
    pub uid: String,
    /// Whether it is being deleted. Then its pods are not changed any more.
    pub deleting: bool,
    /// The number of pods.
    pub replicas: usize,
    /// How long a pod must have been ready to count as available, in seconds.
    pub min_ready: i64,
    /// How many pods may be unavailable while a change of the template is rolled out. At least 1.
    pub max_unavailable: usize,
    /// Whether pods of an older template are kept as they are.
    pub paused: bool,
    /// Whether the pull policy of the template is `Always`.
    pub always_pulls: bool,
    /// The UIDs of the pods to replace.
    pub replace: BTreeSet<String>,
    /// The image of the template, as written.
    pub image: String,
    /// The hash of the template, which pods of the current template record.
    pub template: String,
    /// The hash of the template without the image. A pod with this hash needs only a change of its image.
    pub shape: String,
}

impl ValidPodSet {
    /// Validates a PodSet and fills in its defaults.
    ///
    /// # Errors
    /// Returns a message for each invalid field.
    pub fn of(set: &PodSet) -> Result<Self, Invalid> {
        let (name, spec) = (set.name_any(), &set.spec);
        let mut problems = Vec::new();
        if !is_name(&name) {
            problems.push(format!(
                "metadata.name: invalid name {name:?}: use at most {MAX_NAME} lower-case letters, digits \
                 and '-', starting with a letter"
            ));
        }
        let replicas = usize::try_from(spec.replicas).unwrap_or_else(|_| {
            problems.push(format!("spec.replicas: {} is less than 0", spec.replicas));
            0
        });
        let max_unavailable = max_unavailable(spec.max_unavailable.as_ref(), replicas).unwrap_or_else(|written| {
            problems.push(format!(
                "spec.maxUnavailable: invalid value {written:?}: use a number or a percentage, like 2 or 25%"
            ));
            1
        });
        let pod = spec.pod();
        pod_problems("spec.template", pod, &mut problems);
        if pod.metrics.is_some() {
            problems.push("spec.template.metrics: a PodSet has no PodMonitor and no Service: remove it".to_owned());
        }
        let account = pod.service_account.as_ref();
        if account.is_some_and(|account| account.annotations.is_some()) {
            problems.push(
                "spec.template.serviceAccount: a PodSet has no ServiceAccount of its own: set \
                 spec.template.serviceAccount.name"
                    .to_owned(),
            );
        }
        if !problems.is_empty() {
            return Err(Invalid(problems));
        }
        let restarted_at = set.annotations().get(annotation::RESTARTED_AT);
        let config = set.status.as_ref().and_then(|status| status.config_hash.as_ref());
        let mut shape = pod.clone();
        shape.container.image.clear();
        Ok(Self {
            name,
            uid: set.uid().unwrap_or_default(),
            deleting: set.metadata.deletion_timestamp.is_some(),
            replicas,
            min_ready: spec.min_ready_seconds.into(),
            max_unavailable,
            paused: spec.paused,
            replace: spec.replace_pods.iter().map(|pod| pod.uid.clone()).collect(),
            always_pulls: match pod.container.image_pull_policy {
                Some(policy) => policy == ImagePullPolicy::Always,
                None => defaults::pull_policy(&pod.container.image) == "Always",
            },
            image: pod.container.image.clone(),
            template: hash(pod, restarted_at, config),
            shape: hash(&shape, restarted_at, config),
        })
    }

    /// Returns the name of the pod in a slot.
    #[must_use]
    pub fn pod_name(&self, slot: u16) -> String {
        format!("{}-{slot}", self.name)
    }

    /// Returns the slot of a pod by its name, if it has one of ours.
    #[must_use]
    pub fn slot_of(&self, pod: &str) -> Option<u16> {
        let number = pod.strip_prefix(&self.name)?.strip_prefix('-')?;
        let slot = number.parse().ok()?;
        (number == u16::to_string(&slot)).then_some(slot)
    }
}

/// Returns the hash of the fields of a template. The rendered pod is not part of it, so that an upgrade of the operator
/// does not replace all pods. The security profile is included with its default, in lower case as in existing pods, so that
/// writing the default explicitly replaces no pod. What a change of a ConfigMap does changes no pod, only the hash of the
/// ConfigMaps does.
fn hash(template: &PodFields, restarted_at: Option<&String>, config: Option<&String>) -> String {
    // A variable may refer to earlier ones. Then their order matters, which the digest does not contain.
    let refers = |var: &EnvVar| var.value.as_ref().is_some_and(|value| value.contains("$("));
    let order = template.container.env.iter().any(refers).then(|| {
        let names: Vec<&str> = template.container.env.iter().map(|var| &*var.name).collect();
        names.join(",")
    });
    // The digest does not contain the order in which containers start, and that of their variables, either.
    let starts: Vec<String> = template
        .other_containers()
        .map(|(_, container)| start(container))
        .collect();
    let order = order.or_else(|| (!starts.is_empty()).then(String::new));
    let order = order.map(|names| [names].into_iter().chain(starts).collect::<Vec<_>>().join(";"));
    let mut written =
        json!({"spec": {"template": template, "restartedAt": restarted_at, "order": order, "config": config}});
    written["spec"]["template"]["onConfigChange"] = Value::Null;
    written["spec"]["template"]["securityProfile"] = json!(template.profile().as_str().to_lowercase());
    format!("{:016x}", stable_hash(&written))
}

/// Returns the name of a container and those of its variables, in their order.
fn start(container: &OtherContainer) -> String {
    let variables = container.env.iter().map(|var| var.name.as_str());
    [container.name.as_str()]
        .into_iter()
        .chain(variables)
        .collect::<Vec<_>>()
        .join(",")
}

fn max_unavailable(written: Option<&IntOrString>, replicas: usize) -> Result<usize, String> {
    let count = match written {
        None => 1,
        Some(IntOrString::Int(count)) => usize::try_from(*count).map_err(|_| count.to_string())?,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<usize>().ok());
            let percent = percent.filter(|percent| *percent <= 100).ok_or_else(|| text.clone())?;
            replicas * percent / 100
        }
    };
    Ok(count.max(1))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn valid(spec: Value) -> Result<ValidPodSet, Invalid> {
        let set: PodSet = serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec,
        }))
        .unwrap();
        ValidPodSet::of(&set)
    }

    #[test]
    fn defaults_are_filled_in() {
        let set = valid(json!({})).unwrap();
        assert_eq!((set.replicas, set.max_unavailable, set.min_ready), (1, 1, 0));
    }

    #[test]
    fn order_of_variables_matters_if_one_refers_to_another() {
        let of = |env: [Value; 2]| {
            valid(json!({"template": {"image": "nginx:1", "env": env}}))
                .unwrap()
                .shape
        };
        let host = json!({"name": "HOST", "value": "db"});
        for (value, counts) in [("http://$(HOST)", true), ("http://db", false)] {
            let url = json!({"name": "URL", "value": value});
            let (one, other) = (of([host.clone(), url.clone()]), of([url, host.clone()]));
            assert_eq!(one != other, counts, "{value}");
        }
    }

    #[test]
    fn image_is_part_of_the_template_and_not_of_the_shape() {
        let of = |template: Value| valid(json!({"template": template})).unwrap();
        let old = of(json!({"image": "nginx:1", "port": 80}));
        let image = of(json!({"image": "nginx:2", "port": 80}));
        let port = of(json!({"image": "nginx:1", "port": 81}));
        assert_ne!(old.template, image.template);
        assert_eq!(old.shape, image.shape);
        assert_ne!(old.shape, port.shape);
    }

    #[test]
    fn order_of_other_containers_matters() {
        let of = |names: [&str; 2], image: &str| {
            let containers = names.map(|name| json!({"name": name, "image": image}));
            valid(json!({"template": {"image": "nginx:1", "initContainers": containers}}))
                .unwrap()
                .shape
        };
        assert_ne!(of(["a", "b"], "c:1"), of(["b", "a"], "c:1"));
        assert_ne!(
            of(["a", "b"], "c:1"),
            of(["a", "b"], "c:2"),
            "only the image of the application is changed in place"
        );
    }

    /// Existing pods record these hashes. With another hash, all pods would be replaced.
    #[test]
    fn hashes_never_change() {
        let set = valid(json!({"template": {"image": "nginx", "env": [{"name": "A", "value": "b"}]}})).unwrap();
        insta::assert_snapshot!(format!("{} {}", set.template, set.shape));
    }

    #[test]
    fn explicit_default_replaces_no_pod() {
        let of = |template: Value| valid(json!({"template": template})).unwrap().template;
        let explicit = json!({"image": "nginx", "securityProfile": "Baseline"});
        assert_eq!(of(explicit), of(json!({"image": "nginx"})));
        let other = json!({"image": "nginx", "securityProfile": "Restricted"});
        assert_ne!(of(other), of(json!({"image": "nginx"})));
    }

    #[test]
    fn pods_are_replaced_by_changed_config_maps_and_not_by_the_setting() {
        let mut set: PodSet =
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"template": {"image": "nginx"}}}))
                .unwrap();
        let hashes = |set: &PodSet| {
            let valid = ValidPodSet::of(set).unwrap();
            (valid.template, valid.shape)
        };
        let before = hashes(&set);
        set.spec.template.as_mut().unwrap().on_config_change = Some(crd::OnConfigChange::Restart);
        assert_eq!(hashes(&set), before);
        set.status.get_or_insert_default().config_hash = Some("1234".into());
        let after = hashes(&set);
        assert!(after.0 != before.0 && after.1 != before.1);
    }

    #[test]
    fn percentage_of_the_replicas_is_at_least_one() {
        let of = |replicas: i32, max: Value| valid(json!({"replicas": replicas, "maxUnavailable": max}));
        assert_eq!(of(10, json!("25%")).unwrap().max_unavailable, 2);
        assert_eq!(of(3, json!("10%")).unwrap().max_unavailable, 1);
        assert_eq!(of(3, json!(2)).unwrap().max_unavailable, 2);
        for bad in [json!("a"), json!("200%"), json!(-1)] {
            assert!(of(3, bad).is_err());
        }
    }

    #[test]
    fn all_problems_are_reported_together() {
        let Invalid(problems) =
            valid(json!({"replicas": -1, "maxUnavailable": "x", "template": {"image": "a b", "port": 0}})).unwrap_err();
        let fields: Vec<_> = problems.iter().map(|p| p.split(':').next().unwrap()).collect();
        assert_eq!(
            fields,
            [
                "spec.replicas",
                "spec.maxUnavailable",
                "spec.template.image",
                "spec.template.port"
            ]
        );
    }

    #[test]
    fn slot_is_read_only_from_a_canonical_name() {
        let set = ValidPodSet {
            name: "web".into(),
            ..ValidPodSet::default()
        };
        assert_eq!(set.slot_of("web-0"), Some(0));
        assert_eq!(set.slot_of(&set.pod_name(41)), Some(41));
        for other in ["web", "web-", "web-01", "web-+1", "web-x", "webs-1", "web-0-1"] {
            assert_eq!(set.slot_of(other), None, "{other}");
        }
    }
}
