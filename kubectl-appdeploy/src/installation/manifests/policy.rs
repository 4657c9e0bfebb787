//! Admission policies, which API servers enforce by themselves: one confines the operator, one protects the definitions.

use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::Kind;
use crate::cluster::connection::Cluster;
use crate::error::Result;

/// The first version of Kubernetes that has them.
pub const SINCE: &str = "1.30";

const GROUP_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The name of the policy that protects the definitions, and of its binding.
const OF_DEFINITIONS: &str = "appdeploy-definitions";

/// Whether an object is an admission policy or a binding of one.
pub fn is_one(object: &DynamicObject) -> bool {
    Kind::policies().contains(&Kind::of(object))
}

/// Whether an object of these kinds protects the CRDs. It is kept as long as they exist.
pub fn protects_definitions(kind: &Kind, object: &DynamicObject) -> bool {
    Kind::policies().contains(kind) && object.name_any() == OF_DEFINITIONS
}

/// Whether the cluster supports admission policies.
///
/// # Errors
/// When the API server can't be asked.
pub async fn are_served(cluster: &Cluster) -> Result<bool> {
    let [_, policy] = Kind::policies();
    let served = cluster
        .call(cluster.client.list_api_group_resources(GROUP_VERSION))
        .await?;
    Ok(served
        .resources
        .iter()
        .any(|resource| resource.name == policy.resource.plural))
}
