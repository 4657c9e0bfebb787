//! The objects in a namespace that are not part of AppDeploy, and would be deleted with it.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::stream;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::ObjectMeta;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};
use serde::Serialize;

use crate::cluster::connection::Cluster;
use crate::error::Result;
use crate::installation::manifests::Kind;
use crate::installation::operator;

/// How many kinds are listed at a time.
const AT_A_TIME: usize = 16;

/// What follows if [`Contents::unseen`] has a reason.
pub const UNKNOWN: &str = "whether it has other objects is unknown";

/// The objects in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Objects that are not of AppDeploy.
    pub foreign: Vec<String>,
    /// Why that is not known for sure.
    pub unseen: Option<Unseen>,
}

/// Why it is not known what else a namespace holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Unseen {
    /// The caller has no right to list a kind. The same command again changes nothing.
    Forbidden(String),
    /// A kind could not be listed, which may pass.
    Failed(String),
}

/// The metadata of an object.
struct Item {
    resource: ApiResource,
    meta: ObjectMeta,
}

/// Lists the objects of every kind that the cluster has, custom resources included. `owners` are the UIDs of apps and pod
/// sets that are accounted for elsewhere.
pub async fn list(cluster: &Cluster, owners: BTreeSet<String>) -> Result<Contents> {
    let client = &cluster.client;
    let mut groups = cluster.call(client.list_core_api_versions_aggregated()).await?.items;
    groups.extend(cluster.call(client.list_api_groups_aggregated()).await?.items);
    let (resources, mut unseen) = kinds(&groups);
    let lists = resources.into_iter().map(|resource| async move {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), crd::OPERATOR_NAMESPACE, &resource);
        let listed = cluster.attempt(api.list_metadata(&ListParams::default())).await;
        (resource, listed)
    });
    let mut lists = stream::iter(lists).buffered(AT_A_TIME);
    let mut items = Vec::new();
    while let Some((resource, listed)) = lists.next().await {
        match listed? {
            Ok(list) => items.extend(list.items.into_iter().map(|object| Item {
                resource: resource.clone(),
                meta: object.metadata,
            })),
            // Its CRD was deleted in the meantime.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                unseen.get_or_insert_with(|| Unseen::Forbidden(format!("listing {} is forbidden", resource.plural)));
            }
            Err(kube::Error::Api(status)) => {
                let why = || format!("listing {} failed: {}", resource.plural, status.message);
                unseen.get_or_insert_with(|| Unseen::Failed(why()));
            }
            Err(source) => return Err(cluster.explain(source)),
        }
    }
    let foreign = foreign(&items, owners);
    Ok(Contents { foreign, unseen })
}

/// Returns the kinds whose objects are deleted with a namespace, and the API groups that could not be listed. An API that computes
/// its objects, such as metrics, is ignored.
fn kinds(groups: &[APIGroupDiscovery]) -> (Vec<ApiResource>, Option<Unseen>) {
    let mut unseen = None;
    let mut known = BTreeSet::new();
    let mut kinds = Vec::new();
    for group in groups {
        let name = group.metadata.as_ref().and_then(|meta| meta.name.as_deref());
        let name = name.unwrap_or_default();
        for version in &group.versions {
            if version.freshness.as_deref() == Some("Stale") {
                unseen.get_or_insert_with(|| Unseen::Failed(format!("the API group {name} does not answer")));
            }
            let number = version.version.as_deref().unwrap_or_default();
            for resource in version.resources.iter().filter(|resource| is_kept(name, resource)) {
                let plural = resource.resource.clone().unwrap_or_default();
                let kind = resource.response_kind.clone().unwrap_or_default().kind;
                if known.insert((name, plural.clone())) {
                    let api_version = if name.is_empty() {
                        number.to_owned()
                    } else {
                        format!("{name}/{number}")
                    };
                    kinds.push(ApiResource {
                        group: name.to_owned(),
                        version: number.to_owned(),
                        api_version,
                        kind: kind.unwrap_or_default(),
                        plural,
                    });
                }
            }
        }
    }
    (kinds, unseen)
}

/// Whether objects of a kind live in namespaces and are what a person could miss. Apps and pod sets are looked for by
/// themselves. Endpoints without their Service have no effect, and API servers warn about each list of them.
fn is_kept(group: &str, resource: &APIResourceDiscovery) -> bool {
    let has = |verb: &str| resource.verbs.iter().any(|known| known == verb);
    let is_ignored = matches!(resource.resource.as_deref(), Some("events" | "endpoints"));
    resource.scope.as_deref() == Some("Namespaced")
        && has("list")
        && has("delete")
        && !is_ignored
        && group != crd::GROUP
}

/// Returns the objects that are neither ours, nor made by Kubernetes for every namespace, nor owned by such an object.
fn foreign(items: &[Item], owners: BTreeSet<String>) -> Vec<String> {
    let mut known = owners;
    let mut left: Vec<&Item> = items.iter().collect();
    loop {
        let before = left.len();
        left.retain(|item| {
            let references = item.meta.owner_references.as_deref().unwrap_or_default();
            let is_known = if references.is_empty() {
                is_standard(item) || is_ours(&item.meta)
            } else {
                references.iter().any(|owner| known.contains(&owner.uid))
            };
            if is_known {
                known.extend(item.meta.uid.clone());
            }
            !is_known
        });
        if left.len() == before {
            break;
        }
    }
    let titles = left.into_iter().map(|item| {
        let kind = Kind {
            resource: item.resource.clone(),
            namespaced: true,
        };
        kind.title(item.meta.name.as_deref().unwrap_or_default())
    });
    titles.collect()
}

fn is_ours(meta: &ObjectMeta) -> bool {
    let label = meta.labels.as_ref().and_then(|labels| labels.get(crd::label::PART_OF));
    label.is_some_and(|value| value == crd::label::PART_OF_VALUE)
}

/// Whether Kubernetes, or a distribution of it, makes such an object in every namespace.
fn is_standard(item: &Item) -> bool {
    let name = item.meta.name.as_deref().unwrap_or_default();
    match item.resource.kind.as_str() {
        "ServiceAccount" => ["default", "builder", "deployer"].contains(&name),
        "ConfigMap" => ["kube-root-ca.crt", "openshift-service-ca.crt"].contains(&name),
        "Secret" => {
            let annotations = item.meta.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key("kubernetes.io/service-account.name"))
        }
        "RoleBinding" => name.starts_with("system:"),
        "Lease" => name.starts_with(operator::NAME),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(kind: &str, meta: Value) -> Item {
        Item {
            resource: ApiResource {
                group: String::new(),
                version: "v1".to_owned(),
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                plural: format!("{}s", kind.to_lowercase()),
            },
            meta: serde_json::from_value(meta).unwrap(),
        }
    }

    fn owned(by: &str) -> Value {
        json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": by}])
    }

    fn found(items: &[Item]) -> Vec<String> {
        foreign(items, BTreeSet::from(["app".to_owned()]))
    }

    #[test]
    fn only_third_party_objects_are_foreign() {
        let ours = json!({"app.kubernetes.io/part-of": "appdeploy"});
        let items = [
            item("ConfigMap", json!({"name": "notes"})),
            item("ConfigMap", json!({"name": "kube-root-ca.crt"})),
            item("ServiceAccount", json!({"name": "default"})),
            item("Secret", json!({"name": "cert", "labels": ours})),
            item(
                "Secret",
                json!({"name": "theirs", "labels": {"app.kubernetes.io/part-of": "other"}}),
            ),
            item("Service", json!({"name": "web", "labels": ours})),
        ];
        assert_eq!(found(&items), ["configmap/notes", "secret/theirs"]);
    }

    /// Also in the order in which a child is listed before its owner.
    #[test]
    fn owned_object_is_foreign_with_its_owner() {
        let ours = json!({"app.kubernetes.io/part-of": "appdeploy"});
        let items = [
            item("Pod", json!({"name": "op", "uid": "3", "ownerReferences": owned("2")})),
            item(
                "ReplicaSet",
                json!({"name": "op", "uid": "2", "ownerReferences": owned("1")}),
            ),
            item("Deployment", json!({"name": "op", "uid": "1", "labels": ours})),
            item(
                "Pod",
                json!({"name": "of-app", "uid": "4", "ownerReferences": owned("app")}),
            ),
            item("Database", json!({"name": "db", "uid": "5"})),
            item(
                "PersistentVolumeClaim",
                json!({"name": "data", "uid": "6", "ownerReferences": owned("5")}),
            ),
            item(
                "Pod",
                json!({"name": "of-cluster", "uid": "7", "ownerReferences": owned("elsewhere")}),
            ),
        ];
        assert_eq!(
            found(&items),
            ["database/db", "persistentvolumeclaim/data", "pod/of-cluster"]
        );
    }

    #[test]
    fn kinds_that_can_lose_objects_are_listed_once() {
        let resource = |plural: &str, scope: &str, verbs: &[&str]| {
            json!({"resource": plural, "responseKind": {"group": "g", "version": "v1", "kind": "K"}, "scope": scope,
                "verbs": verbs})
        };
        let all = ["list", "delete"];
        let groups: Vec<APIGroupDiscovery> = serde_json::from_value(json!([
            {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
                resource("pods", "Namespaced", &all), resource("events", "Namespaced", &all), resource("nodes", "Cluster", &all)]}]},
            {"metadata": {"name": "db.example"}, "versions": [
                {"version": "v2", "resources": [resource("databases", "Namespaced", &all)]},
                {"version": "v1", "resources": [resource("databases", "Namespaced", &all)]}]},
            {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1", "freshness": "Stale", "resources": [
                resource("pods", "Namespaced", &["get", "list"])]}]},
            {"metadata": {"name": "appdeploy.dev"}, "versions": [{"version": "v1alpha1", "resources": [
                resource("appdeploys", "Namespaced", &all)]}]},
        ]))
        .unwrap();
        let (kinds, unseen) = kinds(&groups);
        let kinds: Vec<_> = kinds
            .iter()
            .map(|kind| format!("{} {}", kind.api_version, kind.plural))
            .collect();
        assert_eq!(kinds, ["v1 pods", "db.example/v2 databases"]);
        let why = "the API group metrics.k8s.io does not answer".to_owned();
        assert_eq!(unseen, Some(Unseen::Failed(why)));
    }
}
