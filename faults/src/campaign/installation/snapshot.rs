//! Snapshots of a cluster, and the changes between several of them.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join_all;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};

use crate::campaign::history::{ObjectVersion, text};
use crate::campaign::kind::{APP, DEPLOYMENT, INGRESS, Kind, POD, PODSET, SERVICE};

/// Namespaces.
pub(super) const NAMESPACE: Kind = Kind::new("", "v1", "Namespace", "namespaces");
const RBAC: &str = "rbac.authorization.k8s.io";
/// Namespaced kinds that an installation has or could have.
pub(super) const NAMESPACED: [Kind; 12] = [
    DEPLOYMENT,
    SERVICE,
    INGRESS,
    POD,
    Kind::new("", "v1", "ServiceAccount", "serviceaccounts"),
    Kind::new("", "v1", "ConfigMap", "configmaps"),
    Kind::new("", "v1", "Secret", "secrets"),
    Kind::new(RBAC, "v1", "Role", "roles"),
    Kind::new(RBAC, "v1", "RoleBinding", "rolebindings"),
    Kind::new("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    Kind::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    Kind::new("coordination.k8s.io", "v1", "Lease", "leases"),
];
const ADMISSION: &str = "admissionregistration.k8s.io";
/// Its cluster-scoped kinds.
pub(super) const OF_CLUSTERS: [Kind; 8] = [
    NAMESPACE,
    Kind::new(RBAC, "v1", "ClusterRole", "clusterroles"),
    Kind::new(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"),
    Kind::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ),
    Kind::new(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    Kind::new(
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    Kind::new(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
    ),
    Kind::new(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    ),
];

/// Every object of a cluster, except those that the control plane writes.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot(Vec<ObjectVersion>);

impl Snapshot {
    pub(super) async fn take(client: &Client) -> kube::Result<Self> {
        let lists = NAMESPACED
            .into_iter()
            .chain(OF_CLUSTERS)
            .chain([APP, PODSET])
            .map(|kind| async move {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
                let objects = match api.list(&ListParams::default()).await {
                    Ok(list) => list.items,
                    // The kind does not exist now.
                    Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                    Err(error) => return Err(error),
                };
                let seen = objects.into_iter().map(|object| {
                    Ok(ObjectVersion {
                        resource: kind.plural(),
                        object: serde_json::to_value(object).map_err(kube::Error::SerdeError)?,
                        deleted: false,
                    })
                });
                seen.collect::<kube::Result<Vec<ObjectVersion>>>()
            });
        let mut seen: Vec<ObjectVersion> = try_join_all(lists).await?.into_iter().flatten().collect();
        seen.retain(|seen| !is_of_the_cluster(seen));
        Ok(Self(seen))
    }

    /// Returns the snapshot without the objects of the base.
    pub(super) fn without(&self, base: &Self) -> Self {
        let known = base.uids();
        let others = self.0.iter().filter(|seen| !known.contains(seen.uid()));
        Self(others.cloned().collect())
    }

    /// Returns third-party objects that have changed, in words.
    pub(super) fn changed_third_party(&self, now: &Self) -> Vec<String> {
        let found: BTreeMap<&str, &ObjectVersion> = now.0.iter().map(|seen| (seen.uid(), seen)).collect();
        let said = self.0.iter().filter_map(|seen| {
            let done = match found.get(seen.uid()) {
                None => "deleted",
                Some(other) if other.object != seen.object => "changed",
                Some(_) => return None,
            };
            Some(format!("third-party object {} was {done}", seen.title()))
        });
        said.collect()
    }

    /// Returns the objects, in words.
    pub(super) fn titles(&self) -> Vec<String> {
        self.0.iter().map(ObjectVersion::title).collect()
    }

    fn uids(&self) -> BTreeSet<&str> {
        self.0.iter().map(ObjectVersion::uid).collect()
    }
}

/// Returns the history that an observer would have seen, from these snapshots in their order.
pub(super) fn history(moments: &[&Snapshot]) -> Vec<ObjectVersion> {
    let mut history = Vec::new();
    let mut before: &[ObjectVersion] = &[];
    for moment in moments {
        let there = moment.uids();
        let deleted = before.iter().filter(|seen| !there.contains(seen.uid()));
        history.extend(deleted.map(|seen| ObjectVersion {
            deleted: true,
            ..seen.clone()
        }));
        history.extend(moment.0.iter().cloned());
        before = &moment.0;
    }
    history
}

fn is_of_the_cluster(seen: &ObjectVersion) -> bool {
    let namespace = text(&seen.object, "/metadata/namespace");
    seen.name().starts_with("system:")
        || namespace.starts_with("kube-")
        || (seen.resource == NAMESPACE.plural() && seen.name().starts_with("kube-"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::campaign::history::churn;

    fn snapshot(objects: &[(&str, &str)]) -> Snapshot {
        let seen = objects.iter().map(|(name, uid)| ObjectVersion {
            resource: "services",
            object: json!({"metadata": {"name": name, "uid": uid}}),
            deleted: false,
        });
        Snapshot(seen.collect())
    }

    #[test]
    fn object_missing_in_the_next_snapshot_was_deleted() {
        let (first, second) = (snapshot(&[("a", "1"), ("b", "2")]), snapshot(&[("a", "3"), ("b", "2")]));
        let churn = churn(&history(&[&first, &second]));
        let of = |title: &str| (churn[title].created, churn[title].deleted);
        assert_eq!(of("services/a"), (2, 1), "another one of the same name");
        assert_eq!(of("services/b"), (1, 0));
    }

    #[test]
    fn change_of_a_third_party_object_is_reported() {
        let (base, mut now) = (snapshot(&[("a", "1"), ("b", "2")]), snapshot(&[("a", "1"), ("c", "3")]));
        assert_eq!(
            base.changed_third_party(&now),
            ["third-party object services/b was deleted"]
        );
        now.0[0].object["metadata"]["labels"] = json!({});
        assert_eq!(
            base.changed_third_party(&now)[0],
            "third-party object services/a was changed"
        );
        assert_eq!(now.without(&base).titles(), ["services/c"]);
    }
}
