//! Cleans up objects that are being deleted, instead of Kubernetes' controllers: the garbage collector discovers a new
//! kind after half a minute, and the namespace controller waits for five seconds. There are no pods that they would have
//! to wait for.

use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::json;
use tokio::runtime::Handle;

use super::snapshot::{NAMESPACE, NAMESPACED, OF_CLUSTERS};
use crate::campaign::kind::{APP, Kind, PODSET};

const PAUSE: Duration = Duration::from_millis(100);
/// The finalizer that keeps an object until its children are deleted.
const OWNER: &str = "foregroundDeletion";

/// Cleans up for as long as the runtime exists.
pub(super) fn start(runtime: &Handle, client: &Client) {
    for kind in NAMESPACED.into_iter().chain(OF_CLUSTERS) {
        runtime.spawn(follow(client.clone(), kind));
    }
    // A watch on them would break whenever they are installed again.
    let client = client.clone();
    runtime.spawn(async move {
        loop {
            for kind in [APP, PODSET] {
                let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
                for object in all.list(&ListParams::default()).await.into_iter().flatten() {
                    free(&client, kind, object).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
}

async fn follow(client: Client, kind: Kind) {
    let changes = watcher(Api::all_with(client.clone(), &kind.resource()), Config::default());
    pin_mut!(changes);
    while let Some(change) = changes.next().await {
        let Ok(Event::Apply(object) | Event::InitApply(object)) = change else {
            continue;
        };
        if kind == NAMESPACE {
            empty(&client, object).await;
        } else {
            free(&client, kind, object).await;
        }
    }
}

/// Removes the finalizer of an owner whose children must be deleted first: it has none.
async fn free(client: &Client, kind: Kind, object: DynamicObject) {
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource()),
        None => Api::all_with(client.clone(), &kind.resource()),
    };
    let name = object.metadata.name.clone().unwrap_or_default();
    let mut object = Some(object);
    while let Some(metadata) = object.map(|object| object.metadata) {
        let held = metadata.finalizers.unwrap_or_default();
        if metadata.deletion_timestamp.is_none() || !held.iter().any(|holder| holder == OWNER) {
            return;
        }
        let others: Vec<&String> = held.iter().filter(|holder| *holder != OWNER).collect();
        let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "finalizers": others}});
        let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        if patched.is_ok() {
            return;
        }
        // It has changed in the meantime, or was deleted.
        tokio::time::sleep(PAUSE).await;
        object = api.get_opt(&name).await.unwrap_or_default();
    }
}

/// Deletes the objects in the operator's namespace when it is being deleted, and removes its finalizer.
async fn empty(client: &Client, namespace: DynamicObject) {
    let is_operators = namespace.metadata.name.as_deref() == Some(crd::OPERATOR_NAMESPACE);
    let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &NAMESPACE.resource());
    let mut left = Some(namespace).filter(|_| is_operators);
    while let Some(mut namespace) = left.filter(|namespace| namespace.metadata.deletion_timestamp.is_some()) {
        for kind in NAMESPACED {
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), crd::OPERATOR_NAMESPACE, &kind.resource());
            for object in api.list(&ListParams::default()).await.into_iter().flatten() {
                let name = object.metadata.name.unwrap_or_default();
                let _ = api.delete(&name, &DeleteParams::background()).await;
            }
        }
        // One call for the garbage collector's part, and one for the namespace controller's.
        if namespace.metadata.finalizers.take().is_some() {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let params = PatchParams::default();
            let _ = namespaces.patch(crd::OPERATOR_NAMESPACE, &params, &patch).await;
        } else {
            namespace.data["spec"]["finalizers"] = json!([]);
            let params = PostParams::default();
            let _: kube::Result<DynamicObject> = namespaces
                .replace_subresource("finalize", crd::OPERATOR_NAMESPACE, &params, &namespace)
                .await;
        }
        left = namespaces.get_opt(crd::OPERATOR_NAMESPACE).await.unwrap_or_default();
    }
}
