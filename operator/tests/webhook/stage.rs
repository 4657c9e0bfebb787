//! A control plane, and parts of operators that serve its webhooks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client, Config};
use operator::call::Caller;
use operator::lease::Fence;
use operator::metrics::Metrics;
use operator::webhook::certificate::{Lifetimes, SECRET};
use operator::webhook::served::Served;
use operator::webhook::server::Limits;
use operator::webhook::{Options, Source, Webhook};
use serde_json::{Value, json};
use testcluster::{ControlPlane, PooledControlPlane};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::webhook::client::PATIENCE;

/// The operators' user. It has the rights of [`RIGHTS`] and no others.
pub const USER: &str = "webhooks";

/// All that the certificates need.
const RIGHTS: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: webhooks}
rules:
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
  resourceNames: [appdeploy]
  verbs: [list, watch, patch]
- apiGroups: ['']
  resources: [secrets]
  verbs: [create]
- apiGroups: ['']
  resources: [secrets]
  resourceNames: [appdeploy-webhook-certificate]
  verbs: [list, watch, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: webhooks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: webhooks}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: webhooks}]
";

pub struct Stage {
    pub control_plane: PooledControlPlane,
    pub admin: Client,
    pub user: Client,
}

/// What one operator has of webhooks. It ends when it is dropped.
pub struct Instance {
    pub address: SocketAddr,
    pub served: Served,
    /// How often API servers have asked.
    pub asked: Arc<AtomicUsize>,
    // Dropped, it says that this is the end.
    _end: oneshot::Sender<()>,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Stage {
    /// Starts a control plane on which webhooks have their rights.
    pub async fn start() -> Arc<Self> {
        let stage = Self::without_rights().await;
        stage.grant().await;
        stage
    }

    pub async fn without_rights() -> Arc<Self> {
        let control_plane = spawn_blocking(|| ControlPlane::pooled().unwrap()).await.unwrap();
        let user = control_plane.kubeconfig_for(USER, &[]).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        Arc::new(Self {
            admin: connect(&control_plane.kubeconfig()).await,
            user: connect(&user).await,
            control_plane,
        })
    }

    pub async fn grant(self: &Arc<Self>) {
        self.apply(RIGHTS).await;
    }

    pub async fn apply(self: &Arc<Self>, manifest: &str) {
        let (stage, manifest) = (self.clone(), manifest.to_owned());
        spawn_blocking(move || stage.control_plane.apply(&manifest).unwrap())
            .await
            .unwrap();
    }

    /// Makes a namespace for one test.
    pub async fn namespace(self: &Arc<Self>, name: &str) {
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.apply(&manifest.to_string()).await;
    }

    /// Starts what an operator has of webhooks.
    pub fn instance(&self, namespace: &str, lifetimes: Lifetimes) -> Instance {
        let options = Options {
            bind: "127.0.0.1:0".parse().unwrap(),
            namespace: namespace.to_owned(),
            certificates: Source::Own {
                lifetimes,
                resync: Duration::from_secs(3600),
            },
            client_ca: None,
            limits: Limits::default(),
        };
        let caller = Caller::new(self.user.clone(), Arc::new(Metrics::default()), Fence::open());
        let webhook = Webhook::listen(options, self.user.clone(), caller).unwrap();
        let (end, ended) = oneshot::channel();
        let asked = Arc::new(AtomicUsize::new(0));
        Instance {
            asked: asked.clone(),
            address: webhook.address().unwrap(),
            served: webhook.served(),
            _end: end,
            running: tokio::spawn(webhook.run(routes(asked), async {
                let _ = ended.await;
            })),
        }
    }

    pub fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.admin.clone(), namespace)
    }

    /// Returns the text under a key of the Secret, empty if there is none.
    pub async fn text(&self, namespace: &str, key: &str) -> String {
        let secret = self.secrets(namespace).get_opt(SECRET).await.unwrap();
        let bytes = secret.and_then(|secret| secret.data?.remove(key));
        String::from_utf8(bytes.unwrap_or_default().0).unwrap()
    }

    /// Returns the API of one of the two kinds of configuration.
    pub fn configurations(&self, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "admissionregistration.k8s.io".into(),
            version: "v1".into(),
            api_version: "admissionregistration.k8s.io/v1".into(),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        Api::all_with(self.admin.clone(), &resource)
    }

    /// Returns the bundles of all webhooks of a configuration, as PEM.
    pub async fn bundles(&self, kind: &str) -> Vec<String> {
        let object = self.configurations(kind).get("appdeploy").await.unwrap();
        let webhooks = object.data["webhooks"].as_array().unwrap().iter();
        let bundle = |webhook: &Value| {
            let bytes: k8s_openapi::ByteString =
                serde_json::from_value(webhook["clientConfig"]["caBundle"].clone()).unwrap_or_default();
            String::from_utf8(bytes.0).unwrap()
        };
        webhooks.map(bundle).collect()
    }
}

/// Waits until a condition is true.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(
            begun.elapsed() < PATIENCE,
            "it did not happen within {PATIENCE:?}: {what}"
        );
        sleep(Duration::from_millis(20)).await;
    }
}

async fn connect(kubeconfig: &std::path::Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Admits everything.
fn routes(asked: Arc<AtomicUsize>) -> Router {
    let admit = async move |body: String| {
        asked.fetch_add(1, Ordering::Relaxed);
        let review: Value = serde_json::from_str(&body).unwrap();
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": true},
        });
        ([(CONTENT_TYPE, "application/json")], answer.to_string())
    };
    Router::new()
        .route("/", post(async || "ok\n"))
        .route("/admit", post(admit))
}
