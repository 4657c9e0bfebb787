//! What `install` applies: the files of `config/`, built into the plugin, with the options filled in.

mod kind;
mod namespaced;
pub mod policy;
pub mod schema;
pub mod webhook;

use kube::api::{DynamicObject, ListParams, PropagationPolicy};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};
use crate::installation::operator;
use crate::output::formats::DryRun;
use crate::resource::deletion;

pub use kind::{Kind, place};

/// The purpose of a file in `config/`.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// Every installation.
    Core,
    /// For an operator that serves webhooks.
    Webhooks,
}

use Part::{Core, Webhooks};

/// In the order in which each finds what it needs: the namespace first, then what runs, and last what makes API servers
/// ask it.
const FILES: [(Part, &str); 26] = [
    (Core, include_str!("../../../config/manager/namespace.yaml")),
    (Core, include_str!("../../../config/manager/default_deny.yaml")),
    (Core, include_str!("../../../config/manager/network_policy.yaml")),
    (Core, include_str!("../../../config/crd/appdeploys.yaml")),
    (Core, include_str!("../../../config/crd/podsets.yaml")),
    (Core, include_str!("../../../config/crd/appqueues.yaml")),
    (Core, include_str!("../../../config/policy/operator.yaml")),
    (Core, include_str!("../../../config/policy/operator_binding.yaml")),
    (Core, include_str!("../../../config/policy/definitions.yaml")),
    (Core, include_str!("../../../config/policy/definitions_binding.yaml")),
    (Core, include_str!("../../../config/rbac/service_account.yaml")),
    (Core, include_str!("../../../config/rbac/operator_role.yaml")),
    (Core, include_str!("../../../config/rbac/operator_role_binding.yaml")),
    (Core, include_str!("../../../config/rbac/leader_election_role.yaml")),
    (
        Core,
        include_str!("../../../config/rbac/leader_election_role_binding.yaml"),
    ),
    (Webhooks, include_str!("../../../config/rbac/webhook_role.yaml")),
    (Webhooks, include_str!("../../../config/rbac/webhook_role_binding.yaml")),
    (Webhooks, include_str!("../../../config/rbac/webhook_cluster_role.yaml")),
    (
        Webhooks,
        include_str!("../../../config/rbac/webhook_cluster_role_binding.yaml"),
    ),
    (Core, include_str!("../../../config/rbac/editor_role.yaml")),
    (Core, include_str!("../../../config/rbac/viewer_role.yaml")),
    (Webhooks, include_str!("../../../config/webhook/service.yaml")),
    (Core, include_str!("../../../config/manager/disruption_budget.yaml")),
    (Core, include_str!("../../../config/manager/deployment.yaml")),
    (Webhooks, include_str!("../../../config/webhook/mutating.yaml")),
    (Webhooks, include_str!("../../../config/webhook/validating.yaml")),
];

/// The options of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The image of the operator; default: the image of this release.
    pub image: Option<String>,
    /// The operator's flags.
    pub flags: Vec<String>,
    /// The namespaces in which it may do something; none means all.
    pub namespaces: Vec<String>,
    /// Whether API servers are to ask it before they store an app or a pod set.
    pub webhooks: bool,
}

impl Default for Options {
    /// Returns the settings of `install` without flags.
    fn default() -> Self {
        Self {
            image: None,
            flags: Vec::new(),
            namespaces: Vec::new(),
            webhooks: true,
        }
    }
}

/// The label that distinguishes the operator's objects from those for users.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";

/// Returns what an installation consists of.
pub fn objects(options: &Options) -> Result<Vec<DynamicObject>> {
    let broken =
        |source: &dyn std::fmt::Display| Error::failed(format!("a built-in manifest cannot be read: {source}"));
    let mut objects = Vec::new();
    for (part, text) in FILES {
        if part == Webhooks && !options.webhooks {
            continue;
        }
        // The text is our own: what a person hands in goes through `yaml`.
        let manifest = serde_yaml::from_str(text).map_err(|source| broken(&source))?;
        let manifests = match &options.namespaces[..] {
            [] => vec![manifest],
            namespaces => namespaced::in_each(manifest, namespaces),
        };
        for mut manifest in manifests {
            fill_in(&mut manifest, options);
            objects.push(serde_json::from_value(manifest).map_err(|source| broken(&source))?);
        }
    }
    Ok(objects)
}

fn fill_in(manifest: &mut Value, options: &Options) {
    manifest["metadata"]["labels"][crd::label::INVENTORY] = crd::label::INVENTORY_VALUE.into();
    match manifest["kind"].as_str() {
        Some("Deployment") => {
            let container = &mut manifest["spec"]["template"]["spec"]["containers"][0];
            if let Some(image) = &options.image {
                container["image"] = image.clone().into();
            }
            if !options.flags.is_empty() {
                container["args"] = options.flags.clone().into();
            }
        }
        Some("ClusterRole" | "Role") if !options.webhooks => webhook::without_access_reviews(manifest),
        Some("ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            webhook::only_in(manifest, &options.namespaces);
        }
        _ => {}
    }
}

/// Returns the image that this release installs.
#[cfg(test)]
fn image() -> String {
    let all = objects(&Options::default()).unwrap();
    let deployment = all.iter().find(|object| Kind::of(object) == Kind::deployment());
    deployment.unwrap().data["spec"]["template"]["spec"]["containers"][0]["image"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Whether an object is part of an installation, by its label.
pub fn is_ours(object: &DynamicObject) -> bool {
    object
        .labels()
        .get(crd::label::PART_OF)
        .is_some_and(|value| value == crd::label::PART_OF_VALUE)
}

/// Whether an installation has made an object, and may remove it.
pub fn is_in_inventory(object: &DynamicObject) -> bool {
    let value = object.labels().get(crd::label::INVENTORY);
    is_ours(object) && value.is_some_and(|value| value == crd::label::INVENTORY_VALUE)
}

/// Returns the objects of a kind that carry our label. Roles and their bindings may be in any namespace and must
/// be the operator's; all other objects are in the operator's namespace.
pub async fn labelled(cluster: &Cluster, kind: Kind) -> Result<Vec<(Kind, DynamicObject)>> {
    let ours = format!("{}={}", crd::label::PART_OF, crd::label::PART_OF_VALUE);
    let (namespace, selector) = if [Kind::role(), Kind::role_binding()].contains(&kind) {
        (None, format!("{ours},{NAME_LABEL}={}", operator::NAME))
    } else {
        (Some(crd::OPERATOR_NAMESPACE), ours)
    };
    let api = kind.api(&cluster.client, namespace);
    let list = match cluster
        .attempt(api.list(&ListParams::default().labels(&selector)))
        .await?
    {
        // Older clusters have no policies, and a person who installs for some namespaces may not see any.
        Err(kube::Error::Api(status))
            if Kind::policies().contains(&kind) && (status.is_not_found() || status.is_forbidden()) =>
        {
            return Ok(Vec::new());
        }
        listed => listed.map_err(|source| cluster.explain(source))?,
    };
    Ok(list.items.into_iter().map(|object| (kind.clone(), object)).collect())
}

/// Returns what keeps an object from going that is being deleted, in the cluster's own words.
pub fn held_by(object: &DynamicObject) -> Vec<String> {
    let remaining = [
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
        "NamespaceDeletionContentFailure",
    ];
    let conditions = object.data["status"]["conditions"].as_array();
    // The conditions of a namespace list the objects and finalizers that are left in it.
    let said = conditions.into_iter().flatten().filter(|condition| {
        condition["status"] == "True" && condition["type"].as_str().is_some_and(|kind| remaining.contains(&kind))
    });
    let mut held: Vec<String> = said
        .map(|condition| condition["message"].as_str().unwrap_or_default().to_owned())
        .collect();
    let guards = object.finalizers();
    if !guards.is_empty() {
        held.push(format!("held by: {}", guards.join(", ")));
    }
    held
}

/// Deletes this object, by its UID. An object that is already deleted is not an error.
pub async fn delete(
    cluster: &Cluster,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    policy: PropagationPolicy,
    dry_run: DryRun,
) -> Result<()> {
    let params = deletion::params(object, policy, dry_run);
    match cluster.attempt(api.delete(&object.name_any(), &params)).await? {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => Err(cluster.explain(source)),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::version::PLUGIN;

    #[test]
    fn image_has_the_version_of_the_plugin() {
        assert_eq!(image(), format!("ghcr.io/appdeploy/appdeploy-operator:{PLUGIN}"));
    }

    #[test]
    fn all_objects_have_our_label_and_namespace() {
        for object in objects(&Options::default()).unwrap() {
            assert!(is_ours(&object), "{}", object.name_any());
            let namespace = Kind::of(&object).namespaced.then(|| crd::OPERATOR_NAMESPACE.to_owned());
            assert_eq!(object.namespace(), namespace, "{}", object.name_any());
        }
    }

    #[test]
    fn image_and_flags_reach_the_operator() {
        let options = Options {
            image: Some("localhost:5000/op:dev".to_owned()),
            flags: vec!["--concurrency=8".to_owned()],
            ..Options::default()
        };
        let mut all = objects(&options).unwrap().into_iter();
        let deployment = all.find(|object| Kind::of(object) == Kind::deployment()).unwrap();
        let container = &deployment.data["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "localhost:5000/op:dev");
        assert_eq!(container["args"], serde_json::json!(["--concurrency=8"]));
    }
}
