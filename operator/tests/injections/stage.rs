//! The cluster in which all of it happens, with an operator behind a proxy.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fault_proxy::Proxy;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, Kind, Namespace, OPERATOR, Operator, SERVICE, Webhooks, config, eventually,
    is_observed, ready,
};

pub const CHILDREN: [Kind; 3] = [DEPLOYMENT, SERVICE, INGRESS];

/// Kubernetes' controllers that have a part in what is disturbed.
const CONTROLLERS: [&str; 6] = [
    "deployment",
    "replicaset",
    "garbagecollector",
    "namespace",
    "resourcequota",
    "disruption",
];

pub struct Stage {
    // Dropped in this order: the operator while the proxy runs.
    operator: RefCell<Operator>,
    pub proxy: Proxy,
    pub cluster: Arc<Cluster>,
    flags: Vec<String>,
    spaces: Cell<usize>,
}

impl Stage {
    pub fn start() -> Self {
        let builder = ControlPlane::builder().controller_manager(&CONTROLLERS).fake_nodes(1);
        let cluster = Arc::new(Cluster::start(builder));
        for file in ["leader_election_role", "leader_election_role_binding"] {
            cluster
                .control_plane
                .apply(&config(&format!("rbac/{file}.yaml")))
                .unwrap();
        }
        let webhooks = Webhooks::install(&cluster);
        let bind = webhooks.bind.to_string();
        let lease = ["--leader-elect", "--leader-elect-lease-duration", "5s"];
        let flags: Vec<String> = [&["--webhooks", "--webhook-bind", &bind], &lease[..]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let proxy = Proxy::before(&cluster.control_plane, OPERATOR, &[]).unwrap();
        let operator = spawn(&cluster, &proxy, &flags);
        let stage = Self {
            operator: operator.into(),
            proxy,
            cluster,
            flags,
            spaces: Cell::new(0),
        };
        stage.is_well();
        stage
    }

    /// Makes a namespace with an app that is ready.
    pub fn shop(&self) -> Namespace {
        self.spaces.set(self.spaces.get() + 1);
        let space = self.cluster.namespace(&format!("scene-{}", self.spaces.get()));
        make_app(&space);
        until_ready(&space);
        space
    }

    /// Restarts the operator immediately if it has ended, as a kubelet does.
    pub fn keep_running(&self) {
        if !self.operator.borrow().is_running() {
            *self.operator.borrow_mut() = spawn(&self.cluster, &self.proxy, &self.flags);
        }
    }

    /// Kills the operator, and runs another one.
    pub fn kill(&self) {
        self.operator.borrow().kill();
        self.keep_running();
    }

    /// Waits until an app can be made, changed and deleted, and its children follow.
    pub fn is_well(&self) {
        self.proxy.clear();
        let space = self.shop();
        space.set("shop", json!({"image": "nginx:1.29"}));
        until_right(&space, |deployment| image(deployment) == "nginx:1.29");
        space.delete(APP, "shop");
        for kind in CHILDREN {
            space.until_gone(kind, "shop");
        }
    }
}

fn spawn(cluster: &Cluster, proxy: &Proxy, flags: &[String]) -> Operator {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    cluster.spawn_operator_behind(proxy, &flags)
}

/// Creates the app, as soon as the API server gets an answer about it.
pub fn make_app(space: &Namespace) {
    eventually("the app is taken", || {
        let app = json!({"metadata": {"name": "shop"},
            "spec": {"image": "nginx:1.27", "port": 80, "replicas": 2, "host": format!("{}.example.com", space.name)}});
        space.try_create(APP, app).is_ok()
    });
}

pub fn until_ready(space: &Namespace) {
    space.until(APP, "shop", "it is ready", is_ready);
}

fn is_ready(app: &Value) -> bool {
    is_observed(app) && ready(app).0 == "True"
}

/// Waits until the Deployment is as wanted, and the app is ready.
pub fn until_right(space: &Namespace, wanted: impl Fn(&Value) -> bool) {
    space.until(DEPLOYMENT, "shop", "the Deployment is right", |it| {
        !it.is_null() && wanted(it)
    });
    until_ready(space);
}

pub fn image(deployment: &Value) -> &str {
    crate::harness::text(deployment, "/spec/template/spec/containers/0/image")
}

/// Returns how long something takes.
pub fn time(deed: impl FnOnce()) -> Duration {
    let started = Instant::now();
    deed();
    started.elapsed()
}
