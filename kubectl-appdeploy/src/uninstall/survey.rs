//! What there is to uninstall, and what of others stands in the way.

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, LimitRange, PersistentVolumeClaim, Pod, ReplicationController, ResourceQuota, Secret, Service,
    ServiceAccount,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};

use crate::connection::Cluster;
use crate::error::{Error, Result};
use crate::manifests::{Kind, labelled, policy};
use crate::operator;
use crate::pages::Pages;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// All apps and pod sets of the cluster.
    pub workloads: Vec<(crd::Kind, DynamicObject)>,
    /// What makes API servers ask the operator.
    pub webhooks: Vec<(Kind, DynamicObject)>,
    /// What runs.
    pub operator: Vec<(Kind, DynamicObject)>,
    /// What it has around it: accounts, roles and bindings, policies, its Service and its certificates.
    pub rights: Vec<(Kind, DynamicObject)>,
    /// What keeps the definitions from being deleted.
    pub guards: Vec<(Kind, DynamicObject)>,
    /// The definitions of the API.
    pub definitions: Vec<(Kind, DynamicObject)>,
    /// The operator's namespace.
    pub namespace: Option<DynamicObject>,
    /// Objects in it that are not of AppDeploy.
    pub foreign: Vec<String>,
    /// Why that is not known for sure.
    pub unseen: Option<String>,
}

/// Looks for everything that carries the label, so that leftovers of another version go as well.
pub async fn look(cluster: &Cluster) -> Result<Found> {
    let mut found = Found {
        operator: labelled(cluster, Kind::deployment()).await?,
        definitions: labelled(cluster, Kind::crd()).await?,
        ..Found::default()
    };
    found
        .definitions
        .retain(|(_, object)| object.data["spec"]["group"] == crd::GROUP);
    for kind in crd::Kind::ALL {
        let cluster = cluster.clone().about(kind);
        let objects = Pages::of(&cluster, None, None).of_known_kinds().all().await?;
        found.workloads.extend(objects.into_iter().map(|object| (kind, object)));
    }
    for kind in Kind::around().into_iter().chain([Kind::secret()]) {
        let all = labelled(cluster, kind).await?.into_iter();
        let (guards, rights): (Vec<_>, Vec<_>) =
            all.partition(|(kind, object)| policy::protects_definitions(kind, object));
        found.guards.extend(guards);
        found.rights.extend(rights);
    }
    for kind in Kind::webhooks() {
        found.webhooks.extend(labelled(cluster, kind).await?);
    }
    let namespaces = Kind::namespace().api(&cluster.client, None);
    found.namespace = cluster.call(namespaces.get_opt(crd::OPERATOR_NAMESPACE)).await?;
    if found.namespace.is_some() {
        strangers(cluster, &mut found).await?;
    }
    Ok(found)
}

/// Looks for what would be lost with the namespace.
async fn strangers(cluster: &Cluster, found: &mut Found) -> Result<()> {
    let kinds = [
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Secret>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
        ApiResource::erase::<ReplicationController>(&()),
        ApiResource::erase::<ResourceQuota>(&()),
        ApiResource::erase::<LimitRange>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<ReplicaSet>(&()),
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<CronJob>(&()),
        ApiResource::erase::<Ingress>(&()),
        ApiResource::erase::<NetworkPolicy>(&()),
        ApiResource::erase::<Role>(&()),
        ApiResource::erase::<RoleBinding>(&()),
        ApiResource::erase::<PodDisruptionBudget>(&()),
        ApiResource::erase::<HorizontalPodAutoscaler>(&()),
        ApiResource::erase::<Lease>(&()),
    ];
    let lists = kinds.iter().map(|resource| async move {
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), crd::OPERATOR_NAMESPACE, resource);
        (
            resource,
            cluster.attempt(api.list_metadata(&ListParams::default())).await,
        )
    });
    for (resource, listed) in join_all(lists).await {
        match listed? {
            Ok(list) => {
                let kind = Kind {
                    resource: resource.clone(),
                    namespaced: true,
                };
                let names = list
                    .items
                    .iter()
                    .filter(|object| is_stranger(&resource.kind, &object.metadata));
                found.foreign.extend(names.map(|object| kind.title(&object.name_any())));
            }
            // A kind that this cluster does not have has no objects.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                found
                    .unseen
                    .get_or_insert_with(|| format!("listing {} is forbidden", resource.plural));
            }
            Err(source) => return Err::<(), Error>(cluster.explain(source)),
        }
    }
    Ok(())
}

/// Whether an object is neither ours, nor made by Kubernetes for every namespace, nor owned by another one.
fn is_stranger(kind: &str, meta: &kube::core::ObjectMeta) -> bool {
    let name = meta.name.as_deref().unwrap_or_default();
    let label = meta.labels.as_ref().and_then(|labels| labels.get(crd::label::PART_OF));
    let standard = match kind {
        "ServiceAccount" => ["default", "builder", "deployer"].contains(&name),
        "ConfigMap" => ["kube-root-ca.crt", "openshift-service-ca.crt"].contains(&name),
        "Secret" => meta
            .annotations
            .iter()
            .any(|all| all.contains_key("kubernetes.io/service-account.name")),
        "RoleBinding" => name.starts_with("system:"),
        "Lease" => name.starts_with(operator::NAME),
        _ => false,
    };
    let owned = meta.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    !standard && !owned && label.is_none_or(|value| value != crd::label::PART_OF_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn only_what_others_made_is_a_stranger() {
        let stranger = |kind: &str, meta: Value| is_stranger(kind, &serde_json::from_value(meta).unwrap());
        assert!(stranger("ConfigMap", json!({"name": "notes"})));
        assert!(!stranger("ConfigMap", json!({"name": "kube-root-ca.crt"})));
        assert!(!stranger("ServiceAccount", json!({"name": "default"})));
        assert!(!stranger(
            "Pod",
            json!({"name": "op-1", "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"}]})
        ));
        assert!(!stranger(
            "Secret",
            json!({"name": "x", "labels": {"app.kubernetes.io/part-of": "appdeploy"}})
        ));
        assert!(stranger(
            "Secret",
            json!({"name": "x", "labels": {"app.kubernetes.io/part-of": "other"}})
        ));
    }
}
