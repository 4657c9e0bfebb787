//! What `install` applies: the files of `config/`, built into the plugin, with the options filled in.

mod kind;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::error::{Error, Result};

pub use kind::Kind;

/// In the order in which each finds what it needs: the namespace first, what runs last.
const FILES: [&str; 14] = [
    include_str!("../../config/manager/namespace.yaml"),
    include_str!("../../config/manager/default_deny.yaml"),
    include_str!("../../config/manager/network_policy.yaml"),
    include_str!("../../config/crd/appdeploys.yaml"),
    include_str!("../../config/crd/podsets.yaml"),
    include_str!("../../config/rbac/service_account.yaml"),
    include_str!("../../config/rbac/operator_role.yaml"),
    include_str!("../../config/rbac/operator_role_binding.yaml"),
    include_str!("../../config/rbac/leader_election_role.yaml"),
    include_str!("../../config/rbac/leader_election_role_binding.yaml"),
    include_str!("../../config/rbac/editor_role.yaml"),
    include_str!("../../config/rbac/viewer_role.yaml"),
    include_str!("../../config/manager/disruption_budget.yaml"),
    include_str!("../../config/manager/deployment.yaml"),
];

/// What a person may choose about an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The operator's image, if not that of this release.
    pub image: Option<String>,
    /// The operator's flags.
    pub flags: Vec<String>,
}

/// Returns what an installation consists of.
pub fn objects(options: &Options) -> Result<Vec<DynamicObject>> {
    FILES.iter().map(|text| object(text, options)).collect()
}

fn object(text: &str, options: &Options) -> Result<DynamicObject> {
    let broken =
        |source: &dyn std::fmt::Display| Error::failed(format!("a built-in manifest cannot be read: {source}"));
    // The text is our own: what a person hands in goes through `yaml`.
    let mut value: Value = serde_yaml::from_str(text).map_err(|source| broken(&source))?;
    if value["kind"] == "Deployment" {
        let container = &mut value["spec"]["template"]["spec"]["containers"][0];
        if let Some(image) = &options.image {
            container["image"] = image.clone().into();
        }
        if !options.flags.is_empty() {
            container["args"] = options.flags.clone().into();
        }
    }
    serde_json::from_value(value).map_err(|source| broken(&source))
}

/// Returns the image that this release installs.
#[cfg(test)]
fn image() -> String {
    let all = objects(&Options::default()).unwrap();
    all.last().unwrap().data["spec"]["template"]["spec"]["containers"][0]["image"]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::PLUGIN;

    #[test]
    fn the_image_is_of_the_same_version_as_the_plugin() {
        assert_eq!(image(), format!("ghcr.io/appdeploy/appdeploy-operator:{PLUGIN}"));
    }

    #[test]
    fn everything_is_labelled_as_ours_and_lives_where_it_should() {
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
        };
        let deployment = objects(&options).unwrap().pop().unwrap();
        let container = &deployment.data["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "localhost:5000/op:dev");
        assert_eq!(container["args"], serde_json::json!(["--concurrency=8"]));
    }
}
