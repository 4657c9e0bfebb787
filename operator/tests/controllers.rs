//! A controller that only this test has: it is one implementation of `Controller` and an entry in the list, and has a queue,
//! a watch, metrics and a place in the probes like the others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::Parser as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, Request};
use kube::discovery::ApiResource;
use model::Failure;
use operator::cache::{Equivalent, Item};
use operator::client;
use operator::controller::Controller;
use operator::deps::Deps;
use operator::informer::{Informer, Need, Select, Source, waking};
use operator::key::Key;
use operator::object_state::ObjectStates;
use operator::object_state::retry::Retries;
use operator::primary::ReadyState;
use operator::queue::Queue;
use operator::reduced::{Parts, Reduce, read};
use operator::result::{Error, ReconcileResult, Requeue};
use operator::run;
use operator::settings::Settings;
use operator::stores::{Store, Stores};
use operator::telemetry::LogLevel;
use serde_json::{Value, json};
use testcluster::ControlPlane;
use tokio::runtime::Runtime;

use crate::harness::{CONFIG_MAP, Cluster, eventually, free_address};

/// The label of the ConfigMaps that are reconciled.
const LABEL: &str = "example.com/copied";

/// What is cached of a ConfigMap: its data.
#[derive(Clone, Debug)]
struct Data(Value);

impl Equivalent for Data {
    fn is_equivalent(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Reduce for Data {
    type Value = Self;

    fn resource() -> &'static str {
        "configmaps"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<Self>> {
        let data = object
            .field("data")
            .and_then(|data| read(data).ok())
            .unwrap_or_default();
        let key = Key::of(&object.meta);
        Some(Item {
            owners: [key.clone()].into(),
            key,
            version: object.meta.resource_version?,
            value: Self(data),
        })
    }
}

/// Copies the field `from` of ConfigMaps to the field `to`.
struct Copier {
    deps: Deps,
    queue: Arc<Queue<Key>>,
    store: Arc<Store<Data>>,
    states: ObjectStates<()>,
}

#[async_trait]
impl Controller for Copier {
    fn kind(&self) -> &'static str {
        "ConfigMap"
    }

    fn name(&self) -> &'static str {
        "configmap"
    }

    fn queue(&self) -> &Arc<Queue<Key>> {
        &self.queue
    }

    fn retries(&self) -> &dyn Retries {
        &self.states
    }

    fn informers(&self) -> Vec<Informer> {
        let source = Source::<Data> {
            resource: "configmaps",
            api: ApiResource::erase::<ConfigMap>(&()),
            is_namespaced: true,
            select: Select::Labels(LABEL.to_owned()),
            need: Need::Always,
            store: self.store.clone(),
            wake: waking(&self.queue),
            on_vanish: None,
        };
        vec![source.into()]
    }

    fn keys(&self) -> Vec<Key> {
        self.store.cache.keys()
    }

    fn ready_states(&self) -> Vec<ReadyState> {
        self.keys().iter().map(|_| ReadyState::Ready).collect()
    }

    async fn reconcile(&self, key: Key) -> ReconcileResult {
        let Some(Data(data)) = self.store.cache.get(&key) else {
            return Ok(Requeue::Done);
        };
        if data["from"].is_null() {
            return Err(Error::Terminal);
        }
        if data["from"] == data["to"] {
            return Ok(Requeue::After(Duration::from_secs(3600)));
        }
        let patch = Patch::Merge(json!({"data": {"to": data["from"]}}));
        let request = Request::new(format!("/api/v1/namespaces/{}/configmaps", key.namespace));
        let request = request.patch(&key.name, &PatchParams::default(), &patch);
        let answer = self
            .deps
            .caller
            .send::<DynamicObject>("patch", "configmaps", request)
            .await;
        answer.map(|_| Requeue::Done).map_err(|_| Error::Failed)
    }

    async fn report(&self, _: &Key, _: Failure) {}
}

fn controllers(deps: &Deps) -> Vec<Arc<dyn Controller>> {
    let mut all = run::controllers(deps);
    all.push(Arc::new(Copier {
        queue: Arc::new(deps.metrics.queue("configmap")),
        store: Arc::default(),
        states: ObjectStates::default(),
        deps: deps.clone(),
    }));
    all
}

#[test]
fn new_controller_reconciles_and_is_in_metrics_and_probes() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let shop = cluster.namespace("shop");
    let (runtime, bind) = (Runtime::new().unwrap(), free_address());
    let settings = Settings::parse_from([
        "appdeploy-operator",
        "--debug-bind=127.0.0.1:0",
        &format!("--bind={bind}"),
    ]);
    let kubeconfig = cluster.control_plane.kubeconfig();
    runtime.spawn(async move {
        let client = client::connect(Some(&kubeconfig)).await.unwrap();
        run::run_with(Stores::default(), controllers, settings, client, LogLevel::fixed()).await
    });
    eventually("it is ready", || {
        testcluster::http::Request::get("/readyz")
            .send(bind)
            .is_ok_and(|probe| probe.status == 200)
    });

    let labels = json!({LABEL: "yes"});
    shop.create(
        CONFIG_MAP,
        json!({"metadata": {"name": "one", "labels": labels}, "data": {"from": "a"}}),
    );
    let copied = |value: &'static str| move |object: &Value| object["data"]["to"] == value;
    shop.until(CONFIG_MAP, "one", "it is copied", copied("a"));
    shop.patch(CONFIG_MAP, "one", Patch::Merge(json!({"data": {"from": "b"}})));
    shop.until(CONFIG_MAP, "one", "it is copied again", copied("b"));
    shop.create(CONFIG_MAP, json!({"metadata": {"name": "two", "labels": labels}}));

    let lines = [
        "controller_runtime_reconcile_total{controller=\"configmap\",result=\"terminal_error\"} 1",
        "workqueue_depth{name=\"configmap\"} 0",
        "appdeploy_watch_synced{resource=\"configmaps\"} 1",
        "appdeploy_cached_objects{resource=\"configmaps\"} 2",
        "appdeploy_objects{controller=\"configmap\",state=\"ready\"} 2",
    ];
    eventually("it is counted", || {
        let metrics = testcluster::http::Request::get("/metrics").send(bind);
        metrics.is_ok_and(|metrics| lines.iter().all(|line| metrics.body.contains(line)))
    });
    runtime.shutdown_background();
}
