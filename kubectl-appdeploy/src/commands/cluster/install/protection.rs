//! The admission policies of an installation: whether they can be installed, and how an upgrade satisfies them.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::cluster::connection::{Cluster, MANAGER};
use crate::error::Result;
use crate::installation::manifests::{Kind, policy};
use crate::installation::rights::{self, Right};
use crate::terminal::ui::Ui;

/// Removes the policies from the manifests if the cluster does not support them, or, in an installation for some namespaces, if the
/// user may not create them. Prints which ones.
pub async fn drop_impossible(
    cluster: &Cluster,
    namespaces: &[String],
    objects: &mut Vec<DynamicObject>,
    ui: &mut Ui,
) -> Result<()> {
    if !policy::are_served(cluster).await? {
        objects.retain(|object| !policy::is_one(object));
        ui.warn(&format!(
            "this cluster has no admission policies (Kubernetes {} has): nothing but RBAC confines the operator, and \
             nothing keeps the definitions of AppDeploy from being deleted",
            policy::SINCE
        ));
        return Ok(());
    }
    if namespaces.is_empty() || may_write(cluster, objects).await? {
        return Ok(());
    }
    objects.retain(|object| !policy::is_one(object));
    ui.warn(
        "you may not create admission policies: nothing but RBAC confines the operator, and nothing keeps the \
         definitions of AppDeploy from being deleted; an administrator can add both with: \
         kubectl apply --server-side -k config/policy",
    );
    Ok(())
}

async fn may_write(cluster: &Cluster, objects: &[DynamicObject]) -> Result<bool> {
    let policies: Vec<_> = objects
        .iter()
        .filter(|object| policy::is_one(object))
        .cloned()
        .collect();
    let wanted: BTreeSet<Right> = rights::to_install(&policies);
    Ok(rights::refused(cluster, wanted).await?.is_empty())
}

/// Lets definitions replace newer ones. Whether this would lose anything has been looked at before.
pub fn allow_older(objects: &mut [DynamicObject], before: &[Option<DynamicObject>]) {
    for (object, before) in objects.iter_mut().zip(before) {
        let stored = before.as_ref().and_then(revision);
        if let Some(stored) = stored.filter(|stored| Some(*stored) > revision(object)) {
            let annotations = object.annotations_mut();
            annotations.insert(crd::annotation::ALLOW_OLDER_SCHEMA.to_owned(), stored.to_string());
        }
    }
}

/// Returns the revision of the schema of a definition.
fn revision(object: &DynamicObject) -> Option<u32> {
    object.annotations().get(crd::annotation::SCHEMA_REVISION)?.parse().ok()
}

/// Removes the permissions that [`allow_older`] or an interrupted `uninstall --delete-crds` has set on the CRDs.
pub async fn renew(cluster: &Cluster, kind: &Kind, object: &DynamicObject) -> Result<()> {
    let allowances = [crd::annotation::ALLOW_DELETION, crd::annotation::ALLOW_OLDER_SCHEMA];
    let has = |name: &str| object.annotations().contains_key(name);
    if *kind != Kind::crd() || !allowances.into_iter().any(has) {
        return Ok(());
    }
    let none = allowances.map(|name| (name.to_owned(), serde_json::Value::Null));
    let patch = json!({"metadata": {"annotations": serde_json::Map::from_iter(none)}});
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let api = kind.api(&cluster.client, None);
    cluster
        .call(api.patch(&object.name_any(), &params, &Patch::Merge(patch)))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(revision: Option<&str>) -> DynamicObject {
        let annotations = revision.map(|revision| json!({crd::annotation::SCHEMA_REVISION: revision}));
        serde_json::from_value(json!({"metadata": {"name": "podsets.appdeploy.dev", "annotations": annotations}}))
            .unwrap()
    }

    #[test]
    fn only_an_older_schema_asks_for_the_revision_that_it_replaces() {
        for (wanted, stored, asked) in [
            (Some("3"), Some("5"), Some("5")),
            (None, Some("5"), Some("5")),
            (Some("5"), Some("5"), None),
            (Some("10"), Some("9"), None),
            (Some("1"), None, None),
        ] {
            let mut objects = [definition(wanted)];
            allow_older(&mut objects, &[Some(definition(stored))]);
            let allowed = objects[0].annotations().get(crd::annotation::ALLOW_OLDER_SCHEMA);
            assert_eq!(allowed.map(String::as_str), asked, "{wanted:?} over {stored:?}");
        }
    }
}
