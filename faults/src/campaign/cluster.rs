//! A cluster that many runs share, each with its own namespace.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::checkout::{OPERATOR_USER, manifest};
use tokio::runtime::Runtime;

use super::history::text;
use super::invariant::THIRD_PARTY;
use super::kind::{APP, INGRESS, Kind, PODSET, QUEUE, SERVICE};
use super::observer::Observer;
use super::operator::Place;
use super::queue_servers::Servers;
use super::scenario::{Scenario, UserAction};
use super::tenant;
use super::webhooks::Webhooks;

/// Kubernetes' controllers whose objects are compared, and the one that cleans up after a run: the node has no space for
/// the pods of all runs.
const CONTROLLERS: [&str; 4] = ["deployment", "replicaset", "garbagecollector", "namespace"];
/// The suffix of the namespaces of runs.
const RUN: &str = "-of-faults";
const TIMEOUT: Duration = Duration::from_secs(60);
/// The field manager of another program.
const OTHER: &str = "other";

/// A control plane with fake nodes, the CRDs, the operator's rights, and an observer.
pub struct Cluster {
    // Fields are dropped in this order: clients before the API server.
    pub(super) observer: Observer,
    client: Client,
    pub(super) runtime: Runtime,
    pub(super) queue_servers: Servers,
    pub(super) control_plane: ControlPlane,
    pub(super) program: PathBuf,
    runs: AtomicU32,
}

impl Cluster {
    /// Starts a cluster for an operator.
    ///
    /// # Errors
    /// When a part of it does not start.
    pub fn start(program: &Path) -> Result<Self> {
        let cluster = Self::unconfined(program)?;
        confine(&cluster.control_plane)?;
        Ok(cluster)
    }

    /// Starts a cluster without the admission policy that confines the operator, for bugs that the policy would prevent.
    ///
    /// # Errors
    /// When a part of it does not start.
    pub fn unconfined(program: &Path) -> Result<Self> {
        ensure!(program.is_file(), "no operator at {}", program.display());
        // One node: with several, the node of a pod would differ between runs.
        let builder = ControlPlane::builder().controller_manager(&CONTROLLERS).fake_nodes(1);
        let control_plane = builder.start()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = runtime.block_on(connect(&control_plane.kubeconfig()))?;
        install(&control_plane)?;
        Ok(Self {
            observer: Observer::start(runtime.handle(), &client),
            client,
            runtime,
            queue_servers: Servers::default(),
            control_plane,
            program: program.to_owned(),
            runs: AtomicU32::new(0),
        })
    }

    /// Creates a namespace for one run, with third-party objects.
    pub(super) fn namespace(&self) -> Result<String> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let name = format!("run-{number}{RUN}");
        self.control_plane.kubectl(&["create", "namespace", &name])?;
        self.put_bystanders(&name)?;
        Ok(name)
    }

    /// Creates the tenant's namespace and the webhooks, if the scenario has them.
    pub(super) fn place(&self, run: &str, scenario: &Scenario) -> Result<Place> {
        let mut watched = vec![run.to_owned()];
        if scenario.has_tenant {
            let tenants = tenant::namespace(run);
            self.control_plane.kubectl(&["create", "namespace", &tenants])?;
            watched.push(tenants);
        }
        let install = || Webhooks::install(&self.control_plane, run, &watched);
        let webhooks = scenario.has_webhooks.then(install).transpose()?;
        Ok(Place {
            namespace: run.to_owned(),
            watched,
            webhooks,
            has_queues: scenario.queues.is_some(),
        })
    }

    /// Creates objects without a controller in a namespace.
    fn put_bystanders(&self, name: &str) -> Result<()> {
        let labels = json!({
            crd::label::APP: "web", crd::label::PODSET: "set",
            crd::label::MANAGED_BY: crd::label::MANAGED_BY_VALUE,
        });
        let metadata = json!({"name": THIRD_PARTY, "labels": labels});
        let port = json!({"port": 80});
        let service = json!({"metadata": metadata, "spec": {"ports": [port]}});
        let backend = json!({"service": {"name": THIRD_PARTY, "port": {"number": 80}}});
        let ingress = json!({"metadata": metadata, "spec": {"defaultBackend": backend}});
        for (kind, object) in [(SERVICE, service), (INGRESS, ingress)] {
            self.perform(name, &UserAction::Create(kind, object))?;
        }
        Ok(())
    }

    /// Grants operators the right to leader election in a namespace; otherwise they only have it in their own.
    pub(super) fn hold_elections(&self, namespace: &str) -> Result<()> {
        for file in ["leader_election_role", "leader_election_role_binding"] {
            let manifest = manifest(&format!("rbac/{file}"))?;
            // The first match is the object's namespace, the other one that of the ServiceAccount.
            let there = format!("namespace: {}", crd::OPERATOR_NAMESPACE);
            self.control_plane
                .apply(&manifest.replacen(&there, &format!("namespace: {namespace}"), 1))?;
        }
        let asked = [
            "auth",
            "can-i",
            "create",
            "leases",
            "-n",
            namespace,
            "--as",
            OPERATOR_USER,
        ];
        eventually(&self.control_plane, &asked)
    }

    /// Deletes the namespaces of a run without waiting, and its webhooks.
    pub(super) fn leave(&self, place: &Place) -> Result<()> {
        if place.webhooks.is_some() {
            Webhooks::remove(&self.control_plane, &place.namespace)?;
        }
        for namespace in &place.watched {
            self.control_plane
                .kubectl(&["delete", "namespace", namespace, "--wait=false"])?;
        }
        self.observer.forget(&place.namespace);
        Ok(())
    }

    /// Performs an action, and returns the object after it; `None` if an attempt was rejected. While an operator
    /// restarts, its webhook does not answer, and the action is retried.
    pub(super) fn perform(&self, namespace: &str, user_action: &UserAction) -> Result<Value> {
        let started = Instant::now();
        loop {
            let error = match (self.try_once(namespace, user_action), user_action) {
                (Ok(left), _) => return Ok(left),
                (Err(error), _) if started.elapsed() < TIMEOUT && is_unanswered(&error) => error,
                (Err(error), UserAction::Attempt(_)) if error.downcast_ref::<kube::Error>().is_some() => {
                    return Ok(Value::Null);
                }
                (Err(error), _) => return Err(error.context(format!("failed to run {user_action:?} in {namespace}"))),
            };
            drop(error);
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn try_once(&self, namespace: &str, user_action: &UserAction) -> Result<Value> {
        match user_action {
            UserAction::Attempt(user_action) => return self.try_once(namespace, user_action),
            UserAction::ByTenant(user_action) => return self.try_once(&tenant::namespace(namespace), user_action),
            _ => {}
        }
        self.runtime.block_on(async {
            match user_action {
                UserAction::Create(kind, object) => self.create(*kind, namespace, object).await,
                UserAction::CreateOwned(kind, object) => {
                    let app = self.api(APP, tenant::run_of(namespace)).get(tenant::OWNER).await?;
                    let mut object = object.clone();
                    object["metadata"]["ownerReferences"] = json!([{"apiVersion": APP.api_version(), "kind": APP.name(),
                        "name": tenant::OWNER, "uid": app.metadata.uid, "controller": true}]);
                    self.create(*kind, namespace, &object).await
                }
                UserAction::Patch(kind, name, patch) => {
                    let api = self.api(*kind, namespace);
                    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
                    Ok(serde_json::to_value(patched)?)
                }
                UserAction::Delete(kind, name) => {
                    let api = self.api(*kind, namespace);
                    let object = api.get(name).await?;
                    api.delete(name, &DeleteParams::default()).await?;
                    Ok(serde_json::to_value(object)?)
                }
                UserAction::Apply(kind, object) => {
                    let object = typed(*kind, object);
                    let name = text(&object, "/metadata/name");
                    let api = self.api(*kind, namespace);
                    let applied = api
                        .patch(name, &PatchParams::apply(OTHER), &Patch::Apply(&object))
                        .await?;
                    Ok(serde_json::to_value(applied)?)
                }
                UserAction::ApplyStatus(kind, object) => {
                    let object = typed(*kind, object);
                    let name = text(&object, "/metadata/name");
                    let params = PatchParams::apply(OTHER);
                    let api = self.api(*kind, namespace);
                    let applied = api.patch_status(name, &params, &Patch::Apply(&object)).await?;
                    Ok(serde_json::to_value(applied)?)
                }
                UserAction::Attempt(_) | UserAction::ByTenant(_) | UserAction::Outside(_) => Ok(Value::Null),
            }
        })
    }

    async fn create(&self, kind: Kind, namespace: &str, object: &Value) -> Result<Value> {
        let object = serde_json::from_value(typed(kind, object))?;
        let api = self.api(kind, namespace);
        let created = api.create(&PostParams::default(), &object).await?;
        Ok(serde_json::to_value(created)?)
    }

    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.resource())
    }
}

fn typed(kind: Kind, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.name().into();
    object
}

/// Returns whether a webhook did not answer because its operator does not run.
fn is_unanswered(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.message.contains("failed calling webhook"))
}

/// Returns a client for a kubeconfig.
///
/// # Errors
/// When the kubeconfig is invalid.
pub async fn connect(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Installs what `install` would install, without the operator.
fn install(control_plane: &ControlPlane) -> Result<()> {
    let files = [
        "crd/appdeploys",
        "crd/podsets",
        "crd/appqueues",
        "manager/namespace",
        "rbac/service_account",
        "rbac/operator_role",
        "rbac/operator_role_binding",
        "rbac/webhook_role",
        "rbac/webhook_role_binding",
        "rbac/webhook_cluster_role",
        "rbac/webhook_cluster_role_binding",
    ];
    for file in files {
        control_plane.apply(&manifest(file)?)?;
    }
    // Rights and new kinds take a moment to become effective.
    for kind in [APP, PODSET, QUEUE] {
        let path = format!("/apis/{}/{}", kind.api_version(), kind.plural());
        eventually(control_plane, &["get", "--raw", &path])?;
    }
    eventually(
        control_plane,
        &["auth", "can-i", "list", "deployments.apps", "-A", "--as", OPERATOR_USER],
    )
}

/// Installs the policy that confines operators, and waits until it is enforced. It allows leader election in the
/// namespaces of the runs, instead of the operator's own namespace.
fn confine(control_plane: &ControlPlane) -> Result<()> {
    let policy = manifest("policy/operator")?;
    let home = format!(
        "variables.place == '{}' && object.metadata.name == 'appdeploy-operator'",
        crd::OPERATOR_NAMESPACE
    );
    ensure!(
        policy.contains(&home),
        "the policy does not restrict leases to a namespace"
    );
    let anywhere = format!("variables.place.endsWith('{RUN}') && object.metadata.name == 'appdeploy-operator'");
    control_plane.apply(&policy.replace(&home, &anywhere))?;
    control_plane.apply(&manifest("policy/operator_binding")?)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    });
    let admin = control_plane.kubectl_as(&control_plane.kubeconfig());
    let create = ["create", "--dry-run=server", "--as", OPERATOR_USER, "-f", "-"];
    let started = Instant::now();
    loop {
        match admin.run_with_input(&create, &pod.to_string()) {
            Err(error) if error.to_string().contains("ValidatingAdmissionPolicy") => return Ok(()),
            _ => ensure!(started.elapsed() < TIMEOUT, "the policy is not enforced"),
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Runs kubectl until it succeeds.
pub(super) fn eventually(control_plane: &ControlPlane, asked: &[&str]) -> Result<()> {
    let started = Instant::now();
    while let Err(error) = control_plane.kubectl(asked) {
        if started.elapsed() > TIMEOUT {
            return Err(error.into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
