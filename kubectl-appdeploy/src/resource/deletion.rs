//! Deletes objects, waits until an app or a pod set is deleted, and reports what blocks it.

use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, Preconditions, PropagationPolicy};
use kube::core::ObjectMeta;
use model::command;

use crate::cluster::connection::Cluster;
use crate::cluster::kind_info;
use crate::cluster::wait::{self, Deadline};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::output::formats::DryRun;
use crate::resource::children::{self, Children};
use crate::resource::selection;
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

/// Requests the deletion of an object, by its UID: another object may have been created with the same name.
pub async fn request(
    cluster: &Cluster,
    object: &DynamicObject,
    policy: PropagationPolicy,
    dry_run: DryRun,
) -> Result<()> {
    let (namespace, name) = selection::place(object);
    let api = cluster.objects(Some(&namespace));
    cluster
        .call(api.delete(&name, &params(object, policy, dry_run)))
        .await?;
    Ok(())
}

/// Returns the parameters that delete this object by its UID.
pub fn params(object: &DynamicObject, policy: PropagationPolicy, dry_run: DryRun) -> DeleteParams {
    DeleteParams {
        dry_run: dry_run == DryRun::Server,
        propagation_policy: Some(policy),
        preconditions: Some(Preconditions {
            uid: object.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// Waits until an object is deleted. After the deadline, returns an error with what blocks the deletion.
pub async fn until_gone(cluster: &Cluster, object: &DynamicObject, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let (namespace, name) = selection::place(object);
    let api = cluster.objects(Some(&namespace));
    let Some(last) = wait::until_deleted(cluster, api, &name, object.metadata.uid.as_deref(), deadline, ui).await?
    else {
        return Ok(());
    };
    let last = Workload::read(cluster.kind, &last);
    let children = children::fetch(cluster, &last).await?;
    Err(held(&last, &children, deadline))
}

/// Returns the error that names what blocks a deletion.
fn held(last: &Workload, children: &Children, deadline: Deadline) -> Error {
    let (name, namespace) = (last.name(), last.namespace());
    let error = Error::new(
        ErrorKind::TimedOut,
        format!("{} is not deleted after {}", last.title(), deadline.text()),
    );
    let guards = guards(last.meta());
    if !guards.is_empty() {
        return error
            .why(format!(
                "the finalizer {} blocks it: the controller that set it has not finished",
                guards.join(", ")
            ))
            .next(command!(
                "kubectl get {} {} -n {} -o yaml",
                last.kind().singular(),
                name,
                namespace
            ));
    }
    let blocking = blocking(children);
    if blocking.is_empty() {
        return error
            .why("Kubernetes' garbage collector has not removed it: is the kube-controller-manager running?")
            .next(
                kind_info::of(last.kind())
                    .verb("status", name)
                    .and(command!("-n {}", namespace)),
            );
    }
    let first = blocking.first().map_or_else(String::new, |(child, _)| child.clone());
    blocking
        .into_iter()
        .fold(error, |error, (child, guards)| {
            error.why(if guards.is_empty() {
                format!("{child} still exists")
            } else {
                format!("{child} exists, blocked by the finalizer {guards}")
            })
        })
        .next(command!("kubectl describe {} -n {}", first, namespace))
}

/// Returns the finalizers that must be removed, without that of the foreground deletion.
fn guards(meta: &ObjectMeta) -> Vec<&str> {
    let all = meta.finalizers.iter().flatten().map(String::as_str);
    all.filter(|guard| *guard != "foregroundDeletion").collect()
}

/// Returns the children that are still there, with their finalizers.
fn blocking(children: &Children) -> Vec<(String, String)> {
    fn of<'a, K: kube::Resource>(
        kind: &str,
        section: &'a children::Section<K>,
    ) -> impl Iterator<Item = (String, String)> + use<'a, K> {
        let kind = kind.to_lowercase();
        let objects = section.iter().flatten();
        objects.map(move |child| (format!("{kind}/{}", child.name_any()), guards(child.meta()).join(", ")))
    }
    // From the outside in.
    let owned = children.owned.iter().rev();
    let mut all: Vec<_> = owned
        .flat_map(|(kind, section)| of(kind.kind, section))
        .chain(of("ReplicaSet", &children.replica_sets))
        .chain(of("Pod", &children.pods))
        .collect();
    // An object with a finalizer is the cause; the others wait for it.
    if all.iter().any(|(_, guards)| !guards.is_empty()) {
        all.retain(|(_, guards)| !guards.is_empty());
    }
    all.truncate(5);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;
    use model::children::{DEPLOYMENT, SERVICE};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn finalizer_that_blocks_a_deletion_is_named() {
        let app = json!({"metadata": {"name": "shop", "namespace": "a", "finalizers": ["foregroundDeletion"]}, "spec": {"image": "nginx"}});
        let app = Workload::App(serde_json::from_value(app).unwrap());
        let object = |metadata| Ok(vec![serde_json::from_value(json!({"metadata": metadata})).unwrap()]);
        let children = Children {
            owned: vec![
                (&DEPLOYMENT, object(json!({"name": "shop"}))),
                (
                    &SERVICE,
                    object(json!({"name": "shop", "finalizers": ["lb.example.com/guard"]})),
                ),
            ],
            ..Children::of_pods(Err("n/a (forbidden)".to_owned()))
        };
        insta::assert_snapshot!(held(&app, &children, Deadline::after(Duration::from_secs(90))).text(&RenderOptions::default()), @r"
        error: appdeploy.appdeploy.dev/shop is not deleted after 1m30s
          why:  service/shop exists, blocked by the finalizer lb.example.com/guard
          next: kubectl describe service/shop -n a
        ");
    }
}
