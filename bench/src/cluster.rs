//! A control plane for one run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use http::Request as HttpRequest;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::audit::{Mark, Requests};
use tokio::runtime::Runtime;

use crate::contender::Entry;
use crate::observer::Observer;
use crate::request::{NAMESPACES, namespace, path};
use crate::result::Tally;
use crate::seen::Object;
use crate::usage;

/// The user of the operator, and of the floor's writes.
const OPERATOR: &str = "bench-operator";
const TIMEOUT: Duration = Duration::from_secs(60);

/// etcd and an API server with an audit log, and an observer of the apps.
pub struct Cluster {
    // Fields are dropped in this order: clients before the API server.
    /// Observes every change.
    pub observer: Observer,
    /// A client with an administrator's rights, whose requests the API server does not queue.
    pub people: Client,
    /// A client with the operator's user and the operator's transport.
    pub operator: Client,
    /// The runtime of the clients.
    pub runtime: Runtime,
    kubeconfig: PathBuf,
    control_plane: ControlPlane,
}

impl Cluster {
    /// Starts a control plane for a contender, with its CRDs and 50 namespaces.
    ///
    /// # Errors
    /// When a part of it does not start.
    pub fn start(entry: &Entry) -> Result<Self> {
        let control_plane = ControlPlane::start()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let kubeconfig = control_plane.kubeconfig_for(OPERATOR, &[])?;
        install(&control_plane, entry)?;
        let people = runtime.block_on(connect(&control_plane.kubeconfig()))?;
        let operator = runtime.block_on(operator::client::connect(Some(&kubeconfig)))?;
        Ok(Self {
            observer: runtime.block_on(Observer::start(&people))?,
            people,
            operator,
            runtime,
            kubeconfig,
            control_plane,
        })
    }

    /// Returns the operator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the address of the API server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.control_plane.address()
    }

    /// Returns a file for a log, which is deleted with the cluster.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.control_plane.fresh_path("operator", "log")
    }

    /// Applies manifests as an administrator.
    ///
    /// # Errors
    /// When the API server rejects one.
    pub fn apply(&self, manifests: &str) -> Result<()> {
        self.control_plane.apply(manifests)?;
        Ok(())
    }

    /// Runs kubectl as an administrator, and returns its output.
    ///
    /// # Errors
    /// When it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        Ok(self.control_plane.kubectl(arguments)?)
    }

    /// Returns how many objects a list has, without reading all of them.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub fn count(&self, path: &str) -> Result<usize> {
        let request = HttpRequest::get(format!("{path}?limit=1")).body(Vec::new())?;
        let list: Value = self.runtime.block_on(self.people.request(request))?;
        let shown = list["items"].as_array().map_or(0, Vec::len);
        let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        Ok(shown + usize::try_from(rest)?)
    }

    /// Marks a position in the audit log.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub fn mark(&self) -> Result<Mark> {
        Ok(self.control_plane.audit().mark()?)
    }

    /// Returns the requests of the operator since a mark, and those of other clients.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub fn since(&self, mark: Mark) -> Result<(Requests, Requests)> {
        let all = self.control_plane.audit().since(mark)?;
        let others = all.clone().that(|request| request.user != OPERATOR);
        Ok((all.by_user(OPERATOR), others))
    }

    /// Returns etcd's current revision.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub fn revision(&self) -> Result<i64> {
        let request = HttpRequest::get("/api/v1/namespaces?limit=1").body(Vec::new())?;
        let list: Object = self.runtime.block_on(self.people.request(request))?;
        let version = list.metadata.resource_version;
        version
            .parse()
            .with_context(|| format!("{version:?} is not a revision of etcd"))
    }

    /// Returns the processor time that the API server and etcd have used.
    ///
    /// # Errors
    /// When they have exited.
    pub fn cpu(&self) -> Result<(Duration, Duration)> {
        let pids = self.control_plane.pids();
        let [apiserver, etcd] = pids[..] else {
            anyhow::bail!("the control plane has other processes than the API server and etcd");
        };
        Ok((usage::cpu(apiserver)?, usage::cpu(etcd)?))
    }
}

/// Counts requests, without watches.
#[must_use]
pub fn tally(requests: &Requests) -> Tally {
    let asked = requests.clone().that(|request| request.verb != "watch");
    Tally(asked.tally())
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    // A watch may be silent for long, and rejected requests must not be counted twice.
    config.read_timeout = None;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

fn install(control_plane: &ControlPlane, entry: &Entry) -> Result<()> {
    for crd in &entry.crds {
        let manifest = std::fs::read_to_string(crd).with_context(|| format!("failed to read {}", crd.display()))?;
        control_plane.apply(&manifest)?;
    }
    control_plane.apply(&furnishing().to_string())?;
    // The API server opens the storage of a kind at its first request, and refuses that. In a cluster in use, all are open.
    let is_installed = |names: &crd::Names| {
        let mut files = entry.crds.iter();
        files.any(|file| file.file_stem().is_some_and(|stem| stem == names.plural))
    };
    let installed = crd::Names::ALL.into_iter().filter(is_installed);
    let paths = installed.map(|names| format!("/apis/{}/{}/{}", crd::GROUP, crd::VERSION, names.plural));
    let started = Instant::now();
    for path in paths.chain([path(None)]) {
        while let Err(error) = control_plane.kubectl(&["get", "--raw", &path]) {
            if started.elapsed() > TIMEOUT {
                return Err(error).with_context(|| format!("the API server does not serve {path}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Returns the namespaces, and all rights for the operator: rights are not compared.
fn furnishing() -> Value {
    let namespaces = (0..NAMESPACES)
        .map(|number| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(number)}}));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": OPERATOR},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR}],
    });
    let items: Vec<Value> = namespaces.chain([binding]).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
