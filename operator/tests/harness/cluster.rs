//! A control plane with what `install` would give it.

use std::future::Future;
use std::sync::Arc;

use fault_proxy::Proxy;
use faults::campaign::cluster::connect;
use kube::Client;
use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::control_plane::{Builder, PooledControlPlane};
use tokio::runtime::Runtime;

use super::kind::{APP, Kind, PODSET, QUEUE};
use super::namespace::Namespace;
use super::operator::Operator;
use super::rights::Rights;
use super::{OPERATOR, eventually};

/// The definition of PodMonitors.
const POD_MONITORS: &str = "podmonitors.monitoring.coreos.com";

/// A control plane, a connection to it as its administrator, and perhaps an operator that manages all of it.
pub struct Cluster {
    // Dropped first, while its control plane runs.
    pub operator: Option<Operator>,
    // Dropped next, while the log is there.
    pub rights: Rights,
    pub control_plane: PooledControlPlane,
    pub client: Client,
    runtime: Runtime,
}

impl Cluster {
    /// Starts a control plane with the CRD and the operator's rights.
    pub fn start(builder: Builder) -> Self {
        let kinds = [PODSET, QUEUE, APP];
        let definitions = kinds.map(|kind| config(&format!("crd/{}.yaml", kind.plural())));
        let cluster = Self::without_crd(definitions.into_iter().fold(builder, Builder::definition));
        for kind in kinds {
            cluster.until_served(kind);
        }
        cluster.forget_kinds();
        cluster
    }

    /// Starts a control plane that has the operator's rights, and has never heard of an AppDeploy.
    pub fn without_crd(builder: Builder) -> Self {
        let manifests = [
            "manager/namespace",
            "rbac/service_account",
            "rbac/operator_role",
            "rbac/operator_role_binding",
            "policy/operator",
            "policy/operator_binding",
        ];
        let manifests = manifests.map(|file| config(&format!("{file}.yaml")));
        let control_plane = manifests.into_iter().fold(builder, Builder::definition).pooled();
        let control_plane = control_plane.unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = runtime.block_on(connect(&control_plane.kubeconfig())).unwrap();
        let cluster = Self {
            operator: None,
            rights: Rights::of(control_plane.audit()),
            control_plane,
            client,
            runtime,
        };
        // A right needs a moment until it counts.
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": OPERATOR,
            "resourceAttributes": {"verb": "list", "group": "apps", "resource": "deployments"}}});
        eventually("the operator has its rights", || {
            let reviewed = cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review);
            reviewed.is_ok_and(|review| review["status"]["allowed"] == true)
        });
        cluster
    }

    /// Reads a path of the API server.
    fn read(&self, path: &str) -> kube::Result<String> {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.block_on(self.client.request_text(request))
    }

    /// Creates an object at a path of the API server.
    fn post(&self, path: &str, object: &Value) -> kube::Result<Value> {
        let request = http::Request::post(path).header("Content-Type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        self.block_on(self.client.request(request))
    }

    /// Installs the CRD, and waits until the API server serves it.
    pub fn install_crd(&self) {
        for kind in [PODSET, QUEUE, APP] {
            self.apply_crd(kind, &config(&format!("crd/{}.yaml", kind.plural())));
        }
    }

    /// Installs a minimal definition of PodMonitors, and waits until the API is served.
    pub fn install_pod_monitors(&self) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let names = json!({"kind": "PodMonitor", "plural": "podmonitors", "singular": "podmonitor"});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": POD_MONITORS},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]}});
        self.control_plane.apply(&definition.to_string()).unwrap();
        eventually("PodMonitors are served", || {
            self.read("/apis/monitoring.coreos.com/v1/podmonitors").is_ok()
        });
        self.forget_kinds();
    }

    /// Deletes the definition of PodMonitors, and all of them.
    pub fn remove_pod_monitors(&self) {
        self.control_plane.kubectl(&["delete", "crd", POD_MONITORS]).unwrap();
        self.forget_kinds();
    }

    /// Installs a CRD, and waits until the API server serves the kind, lists it and explains it.
    pub fn apply_crd(&self, kind: Kind, manifest: &str) {
        self.control_plane.apply(manifest).unwrap();
        self.until_served(kind);
        self.forget_kinds();
    }

    fn until_served(&self, kind: Kind) {
        let api = format!("apis/{}/{}", crd::GROUP, crd::VERSION);
        let [objects, kinds, schema] = [
            format!("/{api}/{}", kind.plural()),
            format!("/{api}"),
            format!("/openapi/v3/{api}"),
        ];
        for path in [objects, kinds, schema] {
            eventually(&format!("{path} is served"), || self.read(&path).is_ok());
        }
    }

    /// kubectl remembers for hours what a server serves, and has looked before the CRD was there.
    fn forget_kinds(&self) {
        let _ = std::fs::remove_dir_all(self.control_plane.folder().join("kubectl-cache"));
    }

    /// Starts an operator that manages the whole cluster.
    pub fn with_operator(mut self, flags: &[&str]) -> Self {
        self.operator = Some(self.operator(flags));
        self
    }

    /// Starts an operator, and waits until it is ready.
    pub fn operator(&self, flags: &[&str]) -> Operator {
        let operator = self.spawn_operator(flags);
        operator.until_ready();
        operator
    }

    /// Starts an operator, ready or not.
    pub fn spawn_operator(&self, flags: &[&str]) -> Operator {
        let kubeconfig = self.control_plane.kubeconfig_for(OPERATOR, &[]).unwrap();
        Operator::spawn(self.control_plane.folder(), &kubeconfig, flags)
    }

    /// Starts an operator behind a proxy, ready or not.
    pub fn spawn_operator_behind(&self, proxy: &Proxy, flags: &[&str]) -> Operator {
        Operator::spawn(self.control_plane.folder(), proxy.kubeconfig(), flags)
    }

    /// Makes a namespace for one test.
    pub fn namespace(self: &Arc<Self>, name: &str) -> Namespace {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", &namespace).unwrap();
        Namespace::new(self.clone(), name)
    }

    /// Returns the minor version of the API server, such as 30 of `v1.30.14`. One that is built from source has no other field of
    /// its version.
    pub fn minor_version(&self) -> u32 {
        let version = self.block_on(self.client.apiserver_version()).unwrap();
        version.git_version.split('.').nth(1).unwrap().parse().unwrap()
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

/// Waits until the API server enforces the policy that confines the operator. It takes a second or two to load one.
pub fn await_policy(control_plane: &ControlPlane) {
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": "kube-public"},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]}}"#;
    let admin = control_plane.kubectl_as(&control_plane.kubeconfig());
    eventually("the policy is enforced", || {
        let create = ["create", "--dry-run=server", "--as", OPERATOR, "-f", "-"];
        let refused = admin.run_with_input(&create, pod).err();
        refused.is_some_and(|error| error.to_string().contains("ValidatingAdmissionPolicy"))
    });
}

/// Reads a file of config/, as a person would apply it.
pub fn config(path: &str) -> String {
    testcluster::checkout::manifest(path.trim_end_matches(".yaml")).unwrap()
}
