//! A watch at an API server that is played by a function.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::Response;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::service_fn;

use super::*;
use crate::cache::{Equivalent, Item};
use crate::reduced::Parts;

fn item(name: &str, version: u64) -> Item<()> {
    let key = Key::new("shop", name);
    Item {
        owners: [key.clone()].into(),
        key,
        version: version.to_string(),
        value: (),
    }
}

impl Equivalent for () {
    fn is_equivalent(&self, (): &Self) -> bool {
        true
    }
}

/// Keeps nothing of an object but its name.
struct Plain;

impl Reduce for Plain {
    type Value = ();

    fn resource() -> &'static str {
        "configmaps"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<()>> {
        let version = object.meta.resource_version?.parse().ok()?;
        Some(item(&object.meta.name?, version))
    }
}

fn object(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version.to_string()}})
}

/// Lists `listed`, and returns what is cached in the end and which objects were woken. During the list, the objects `new-1` and `new-2`
/// are cached from the answers to creates; `new-2` was deleted before it ends.
async fn after_a_list(listed: Vec<Value>) -> (Vec<String>, Vec<String>, Vec<String>) {
    let kind = Arc::new(Store::<()>::default());
    kind.cache.upsert(item("old", 5));
    let (reads, followed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
    let (cache, asked, follows) = (kind.clone(), reads.clone(), followed.clone());
    let service = service_fn(move |request: http::Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (kind, asked, follows) = (cache.clone(), asked.clone(), follows.clone());
        let listed = listed.clone();
        async move {
            if query.contains("watch=true") {
                follows.notify_one();
                std::future::pending::<()>().await;
            }
            let items = if query.contains("metadata.name") {
                asked.lock().unwrap().push(query.clone());
                if query.contains("new-1") {
                    vec![object("new-1", 7)]
                } else {
                    Vec::new()
                }
            } else {
                kind.cache.upsert(item("new-1", 7));
                kind.cache.upsert(item("new-2", 8));
                listed
            };
            let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}, "items": items});
            Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        }
    });
    let woken = Mutex::new(Vec::new());
    let watch = Watch::<Plain> {
        resource: "configmaps",
        api: Api::all_with(Client::new(service, "default"), &ApiResource::erase::<ConfigMap>(&())),
        scope: None,
        config: watcher::Config::default().labels("a=b"),
        resync: Duration::from_secs(3600),
        kind: &kind,
        wake: &|keys, _| {
            let names = keys.into_iter().map(|key| key.name.to_string());
            woken.lock().unwrap().extend(names);
        },
        on_vanish: None,
    };
    tokio::select! {
        () = watch.run() => {}
        () = followed.notified() => {}
    }
    let mut known: Vec<String> = kind.cache.keys().into_iter().map(|key| key.name.to_string()).collect();
    known.sort();
    let mut reads = reads.lock().unwrap().clone();
    reads.sort();
    (known, woken.into_inner().unwrap(), reads)
}

#[tokio::test]
async fn object_created_during_a_list_stays_cached() {
    let (known, woken, reads) = after_a_list(vec![object("old", 5)]).await;
    assert_eq!(known, ["new-1", "old"]);
    assert_eq!(woken, ["new-2"]);
    assert_eq!(reads.len(), 2, "{reads:?}");
    assert!(
        reads.iter().all(|query| query.contains("labelSelector=a%3Db")),
        "{reads:?}"
    );
}

#[tokio::test]
async fn list_without_changes_costs_no_read() {
    let all = vec![object("old", 5), object("new-1", 7), object("new-2", 8)];
    let (known, woken, reads) = after_a_list(all).await;
    assert_eq!(known, ["new-1", "new-2", "old"]);
    assert_eq!((woken.len(), reads.len()), (0, 0));
}
