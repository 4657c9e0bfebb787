//! What `install` applies: the files of `config/`, built into the plugin, with the options filled in.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use crate::error::{Error, Result};

/// In the order in which each finds what it needs: the namespace first, what runs last.
const FILES: [&str; 9] = [
    include_str!("../../config/manager/namespace.yaml"),
    include_str!("../../config/crd/appdeploys.yaml"),
    include_str!("../../config/crd/podsets.yaml"),
    include_str!("../../config/rbac/service_account.yaml"),
    include_str!("../../config/rbac/operator_role.yaml"),
    include_str!("../../config/rbac/operator_role_binding.yaml"),
    include_str!("../../config/rbac/editor_role.yaml"),
    include_str!("../../config/rbac/viewer_role.yaml"),
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

/// A kind of which an installation has objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Where the API server keeps it.
    pub resource: ApiResource,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
}

impl Kind {
    /// Returns the kind of an object of an installation. No discovery is needed: there are six.
    pub fn of(object: &DynamicObject) -> Self {
        let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
        match kind {
            "Namespace" => Self::namespace(),
            "CustomResourceDefinition" => Self::crd(),
            "ServiceAccount" => Self::service_account(),
            "ClusterRole" => Self::cluster_role(),
            "ClusterRoleBinding" => Self::cluster_role_binding(),
            _ => Self::deployment(),
        }
    }

    /// Returns the kind of namespaces.
    pub fn namespace() -> Self {
        Self {
            resource: ApiResource::erase::<Namespace>(&()),
            namespaced: false,
        }
    }

    /// Returns the kind of kinds.
    pub fn crd() -> Self {
        Self {
            resource: ApiResource::erase::<CustomResourceDefinition>(&()),
            namespaced: false,
        }
    }

    /// Returns the kind of service accounts.
    pub fn service_account() -> Self {
        Self {
            resource: ApiResource::erase::<ServiceAccount>(&()),
            namespaced: true,
        }
    }

    /// Returns the kind of cluster roles.
    pub fn cluster_role() -> Self {
        Self {
            resource: ApiResource::erase::<ClusterRole>(&()),
            namespaced: false,
        }
    }

    /// Returns the kind of bindings of cluster roles.
    pub fn cluster_role_binding() -> Self {
        Self {
            resource: ApiResource::erase::<ClusterRoleBinding>(&()),
            namespaced: false,
        }
    }

    /// Returns the kind of deployments.
    pub fn deployment() -> Self {
        Self {
            resource: ApiResource::erase::<Deployment>(&()),
            namespaced: true,
        }
    }

    /// Returns the objects of this kind that an installation could have.
    pub fn api(&self, client: &Client) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), crd::OPERATOR_NAMESPACE, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// Returns a name as kubectl prints it: `deployment.apps/appdeploy-operator`.
    pub fn title(&self, name: &str) -> String {
        let kind = self.resource.kind.to_lowercase();
        if self.resource.group.is_empty() {
            format!("{kind}/{name}")
        } else {
            format!("{kind}.{}/{name}", self.resource.group)
        }
    }
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
