//! A cluster that runs use one after the other, with third-party objects in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::Client;
use serde_json::{Value, json};
use testcluster::ControlPlane;
use tokio::runtime::Runtime;

use super::cleanup;
use super::snapshot::Snapshot;
use crate::campaign::cluster::connect;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A control plane without controllers.
pub(super) struct Cluster {
    // Fields are dropped in this order: clients before the API server.
    runtime: Runtime,
    client: Client,
    pub(super) control_plane: ControlPlane,
    pub(super) plugin: PathBuf,
    /// The objects of the empty cluster, which are ignored.
    pub(super) base: Snapshot,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Cluster")
            .field("control_plane", &self.control_plane.folder())
            .finish_non_exhaustive()
    }
}

impl Cluster {
    pub(super) fn start(plugin: &Path) -> Result<Self> {
        ensure!(plugin.is_file(), "no plugin at {}", plugin.display());
        let control_plane = ControlPlane::start()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = runtime.block_on(connect(&control_plane.kubeconfig()))?;
        let started = Instant::now();
        while let Err(error) = control_plane.kubectl(&["-n", "default", "get", "service", "kubernetes"]) {
            ensure!(started.elapsed() < TIMEOUT, error);
            thread::sleep(Duration::from_millis(50));
        }
        let foreign = json!({"apiVersion": "v1", "kind": "List", "items": foreign()});
        control_plane.apply(&foreign.to_string())?;
        let base = runtime.block_on(Snapshot::take(&client))?;
        cleanup::start(runtime.handle(), &client);
        Ok(Self {
            runtime,
            client,
            control_plane,
            plugin: plugin.to_owned(),
            base,
        })
    }

    pub(super) fn snapshot(&self) -> Result<Snapshot> {
        Ok(self.runtime.block_on(Snapshot::take(&self.client))?)
    }
}

/// Returns third-party objects that look like those of an installation.
fn foreign() -> Vec<Value> {
    let inventory = json!({
        crd::label::PART_OF: "other", crd::label::INVENTORY: crd::label::INVENTORY_VALUE,
        crd::label::NAME: "appdeploy-operator",
    });
    let child = json!({crd::label::MANAGED_BY: crd::label::MANAGED_BY_VALUE, crd::label::APP: "web"});
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "appdeploy-foreign", "labels": inventory}, "rules": [],
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "appdeploy-operator", "namespace": "default", "labels": inventory},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "bystander", "namespace": "default", "labels": child},
            "spec": {"ports": [{"port": 80}]},
        }),
        // The address of the API server, as an installation reads it.
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "api-server", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "https", "port": 16443}],
        }),
    ]
}
