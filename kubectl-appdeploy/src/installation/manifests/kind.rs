//! The kinds of the objects of an installation, and their API resources.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource, ResourceExt as _};

/// A kind of an installation's objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Where the API server keeps it.
    pub resource: ApiResource,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
}

impl Kind {
    /// Returns the kind of an object of an installation. No discovery is needed: there are few.
    pub fn of(object: &DynamicObject) -> Self {
        let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
        let all = [Self::namespace(), Self::crd()];
        let found = all
            .into_iter()
            .chain(Self::webhooks())
            .chain(Self::around())
            .find(|known| known.resource.kind == kind);
        found.unwrap_or_else(Self::deployment)
    }

    /// Returns the kinds of what the operator has around it, in the order in which they go: what refers to another before
    /// the other, and rights before what has them.
    pub fn around() -> [Self; 10] {
        let [binding, policy] = Self::policies();
        [
            Self::cluster_role_binding(),
            Self::role_binding(),
            Self::cluster_role(),
            Self::role(),
            Self::service_account(),
            Self::network_policy(),
            Self::service(),
            Self::disruption_budget(),
            binding,
            policy,
        ]
    }

    fn in_cluster<K: Resource<DynamicType = ()>>() -> Self {
        Self {
            resource: ApiResource::erase::<K>(&()),
            namespaced: false,
        }
    }

    fn in_namespace<K: Resource<DynamicType = ()>>() -> Self {
        Self {
            namespaced: true,
            ..Self::in_cluster::<K>()
        }
    }

    /// Returns the kind of namespaces.
    pub fn namespace() -> Self {
        Self::in_cluster::<Namespace>()
    }

    /// Returns the kind of kinds.
    pub fn crd() -> Self {
        Self::in_cluster::<CustomResourceDefinition>()
    }

    /// Returns the kind of service accounts.
    pub fn service_account() -> Self {
        Self::in_namespace::<ServiceAccount>()
    }

    /// Returns the kind of cluster roles.
    pub fn cluster_role() -> Self {
        Self::in_cluster::<ClusterRole>()
    }

    /// Returns the kind of bindings of cluster roles.
    pub fn cluster_role_binding() -> Self {
        Self::in_cluster::<ClusterRoleBinding>()
    }

    /// Returns the kind of the roles of one namespace.
    pub fn role() -> Self {
        Self::in_namespace::<Role>()
    }

    /// Returns the kind of the bindings of one namespace.
    pub fn role_binding() -> Self {
        Self::in_namespace::<RoleBinding>()
    }

    /// Returns the kind of network policies.
    pub fn network_policy() -> Self {
        Self::in_namespace::<NetworkPolicy>()
    }

    /// Returns the kind of budgets for disruptions.
    pub fn disruption_budget() -> Self {
        Self::in_namespace::<PodDisruptionBudget>()
    }

    /// Returns the kind of services.
    pub fn service() -> Self {
        Self::in_namespace::<Service>()
    }

    /// Returns the kind of secrets.
    pub fn secret() -> Self {
        Self::in_namespace::<Secret>()
    }

    /// Returns the kinds of webhook configurations.
    pub fn webhooks() -> [Self; 2] {
        [
            Self::in_cluster::<ValidatingWebhookConfiguration>(),
            Self::in_cluster::<MutatingWebhookConfiguration>(),
        ]
    }

    /// Returns the kinds of admission policies, bindings first.
    pub fn policies() -> [Self; 2] {
        [
            Self::in_cluster::<ValidatingAdmissionPolicyBinding>(),
            Self::in_cluster::<ValidatingAdmissionPolicy>(),
        ]
    }

    /// Returns the kind of deployments.
    pub fn deployment() -> Self {
        Self::in_namespace::<Deployment>()
    }

    /// Returns the objects of this kind in a namespace; without one, all of them.
    pub fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// Returns the objects among which one of this kind lives.
    pub fn api_of(&self, client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
        self.api(client, object.metadata.namespace.as_deref())
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

/// Returns where an object is, for a sentence about it, with a word before it. Nothing for the operator's own namespace.
pub fn place(word: &str, object: &DynamicObject) -> String {
    let namespace = object.namespace().filter(|name| name != crd::OPERATOR_NAMESPACE);
    namespace
        .map(|name| format!(" {word} {name} namespace"))
        .unwrap_or_default()
}
