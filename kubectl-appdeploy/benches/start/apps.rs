//! A control plane with many apps, whose status is as the operator writes it.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::Result;
use crd::AppDeploy;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::checkout::root;
use tokio::runtime::{Builder, Runtime};

/// The number of namespaces with apps.
const NAMESPACES: usize = 50;
/// How many requests are sent at a time.
const CONCURRENCY: usize = 64;
/// One of so many apps is not ready.
const NOT_READY: usize = 20;

pub struct Apps {
    // Before the API server, so that it is dropped first.
    client: Client,
    runtime: Runtime,
    count: Cell<usize>,
    cluster: ControlPlane,
}

impl Apps {
    /// Starts a control plane without apps.
    pub fn start() -> Result<Self> {
        let crd = std::fs::read_to_string(root().join("config/crd/appdeploys.yaml"))?;
        let namespaces: Vec<Value> = (0..NAMESPACES)
            .map(|number| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(number)}}))
            .collect();
        let cluster = ControlPlane::start()?;
        cluster.apply(&crd)?;
        cluster.kubectl(&["wait", "--for=condition=Established", "--all", "crd"])?;
        cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": namespaces}).to_string())?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            client: runtime.block_on(connect(&cluster.kubeconfig()))?,
            runtime,
            count: Cell::new(0),
            cluster,
        })
    }

    /// Returns the kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.cluster.kubeconfig()
    }

    /// Creates apps until there are so many.
    pub fn grow_to(&self, count: usize) -> Result<()> {
        let created = stream::iter(self.count.get()..count).map(|number| create(&self.client, number));
        self.runtime
            .block_on(created.buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>())?;
        self.count.set(count);
        Ok(())
    }
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    Ok(Client::try_from(
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?,
    )?)
}

/// Creates an app, and writes its status.
async fn create(client: &Client, number: usize) -> Result<()> {
    let name = format!("app-{number:05}");
    let api: Api<AppDeploy> = Api::namespaced(client.clone(), &namespace(number % NAMESPACES));
    let app = json!({
        "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
        "metadata": {"name": name},
        "spec": {"image": format!("registry.example.com/team/{name}:1.4.{number}"), "port": 8080, "replicas": 3,
            "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "eu-west-1"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}},
    });
    api.create(&PostParams::default(), &serde_json::from_value(app)?)
        .await?;
    let patch = Patch::Merge(json!({"status": status(number)}));
    api.patch_status(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn namespace(number: usize) -> String {
    format!("bench-{number}")
}

fn status(number: usize) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let mut status = json!({
        "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
        "selector": format!("appdeploy.dev/app=app-{number:05}"), "url": format!("http://app-{number:05}.example.com"),
        "addresses": [{"type": "IPAddress", "value": "10.0.0.7"}],
        "conditions": [condition("Ready", "True", "Ready", "3 of 3 pods are ready"), condition("Exposed", "True", "Exposed", "")],
    });
    if number.is_multiple_of(NOT_READY) {
        let message = "image registry.example.com/team/app:1.4 does not exist";
        status["readyReplicas"] = json!(0);
        status["conditions"] = json!([
            condition("Ready", "False", "ImageNotFound", message),
            condition("Stalled", "True", "ImageNotFound", message)
        ]);
        status["cause"] =
            json!({"reason": "ImageNotFound", "message": message, "next": "kubectl appdeploy set image NAME=IMAGE"});
    }
    status
}
