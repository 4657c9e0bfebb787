//! Another version of the operator takes over what one has made: J3 and C6 of what an operator has to survive.
//!
//! The other version is that of the commit that `tests/upgrade/BASE` names: what was released last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{Base, Cluster, DEPLOYMENT, INGRESS, LEASE, Namespace, Operator, POD, SERVICE, text, uid};

/// Apps and pod sets that use what the older version knows.
fn specs() -> Vec<(&'static str, Value)> {
    vec![
        ("plain", json!({"image": "nginx:1"})),
        ("web", json!({"image": "nginx:1", "port": 80})),
        (
            "full",
            json!({"image": "nginx:1", "port": 8080, "replicas": 3, "host": "full.example.com", "path": "/api",
                "command": ["serve"], "args": ["--fast"], "securityProfile": "Restricted",
                "env": [{"name": "A", "value": "b"},
                    {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}},
                "healthCheck": {"path": "/healthz"}, "imagePullSecrets": [{"name": "r"}],
                "tls": {"secretName": "tls"}}),
        ),
        ("inside", json!({"image": "nginx:1", "port": 80, "expose": "Cluster"})),
        ("none", json!({"image": "nginx:1", "port": 80, "replicas": 0})),
    ]
}

/// What must stay as it is while versions change: of each child its identity, and its generation, which counts the changes
/// of its spec. A Deployment whose template changes restarts its pods.
fn identities(space: &Namespace) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for kind in [DEPLOYMENT, SERVICE, INGRESS, POD] {
        for object in space.list(kind) {
            let name = format!("{} {}", kind.name(), text(&object, "/metadata/name"));
            let what = format!("{} {}", uid(&object), object["metadata"]["generation"]);
            found.insert(name, what);
        }
    }
    found
}

struct Stage {
    cluster: Arc<Cluster>,
    space: Namespace,
    base: Base,
}

impl Stage {
    fn new() -> Self {
        let base = Base::named();
        let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
        Self {
            space: cluster.namespace("shop"),
            cluster,
            base,
        }
    }

    /// Starts an operator as a user of its own, for the audit log.
    fn start(&self, is_older: bool, user: &str, flags: &[&str]) -> Operator {
        let control_plane = &self.cluster.control_plane;
        let kubeconfig = control_plane.kubeconfig_for(user, &["system:masters"]).unwrap();
        let folder = control_plane.folder();
        let operator = if is_older {
            Operator::spawn_program(&self.base.operator(), folder, &kubeconfig, flags)
        } else {
            Operator::spawn(folder, &kubeconfig, flags)
        };
        operator.until_ready();
        operator
    }

    /// Installs the definitions of the API as they were then.
    fn older_api(&self) {
        for file in ["appdeploys", "podsets"] {
            let crd = self.base.file(&format!("config/crd/{file}.yaml"));
            self.cluster.control_plane.apply(&crd).unwrap();
        }
    }
}

/// Waits until an operator has worked off all that was there when it began.
fn until_settled(operator: &Operator) {
    operator.until("/metrics", "it has looked at everything", |_, metrics| {
        let value = |name: &str| -> Option<u64> {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        let looked = |kind: &str, count: u64| {
            let at_least = |total: u64| total >= count;
            let metric = format!("controller_runtime_reconcile_total{{controller=\"{kind}\",result=\"success\"}}");
            value(&metric).is_some_and(at_least) && value(&format!("workqueue_depth{{name=\"{kind}\"}}")) == Some(0)
        };
        looked("appdeploy", specs().len() as u64) && looked("podset", 1)
    });
}

/// A downgrade gives the pods that the newer version has replaced what the older version writes, such as a label: these are
/// replaced once more. Pods that the newer version left as they were stay.
#[test]
fn upgrade_restarts_no_pod_and_downgrade_only_changed_pods() {
    let stage = Stage::new();
    stage.older_api();
    let older = stage.start(true, "older", &[]);
    for (name, spec) in specs() {
        stage.space.app(name, spec);
    }
    let pods = ["set-0", "set-1"];
    let template = json!({"image": "busybox:1", "env": [{"name": "A", "value": "b"}]});
    stage
        .space
        .podset_of("set", json!({"replicas": 2, "template": template}), &pods);
    for (name, _) in specs() {
        stage.space.until_reported(name);
    }
    older.terminate();
    let before = identities(&stage.space);
    assert_eq!(before.len(), 5 + 4 + 3 + 2, "{before:#?}");

    stage.cluster.install_crd();
    let mark = stage.space.mark();
    let newer = stage.start(false, "newer", &[]);
    until_settled(&newer);
    assert_eq!(
        identities(&stage.space),
        before,
        "the newer version has changed something"
    );
    // A new version may add to the status. A write of a child would be a write for each app of the cluster at the same time.
    let written = stage
        .space
        .asked_since(mark)
        .writes()
        .that(|request| request.subresource != "status");
    assert_eq!(written.count(), 0, "{:?}", written.tally());
    // It recognizes the existing objects as its own.
    stage.space.set("web", json!({"image": "nginx:2"}));
    stage.space.until(DEPLOYMENT, "web", "it is changed", |web| {
        text(web, "/spec/template/spec/containers/0/image") == "nginx:2"
    });
    newer.terminate();
    let others = |mut identities: BTreeMap<String, String>| {
        identities.remove("Deployment web").unwrap();
        identities
    };
    let before = others(identities(&stage.space));

    let older = stage.start(true, "older", &[]);
    until_settled(&older);
    assert_eq!(
        others(identities(&stage.space)),
        before,
        "the older version has changed an app that the newer one had not changed"
    );
}

/// C6: in the middle of an upgrade both run.
#[test]
fn only_one_of_two_versions_writes() {
    const LEASE_NAME: &str = "appdeploy-operator";
    let stage = Stage::new();
    let flags = ["--leader-elect", "--leader-elect-lease-duration", "3s"];
    let system = Namespace::new(stage.cluster.clone(), crd::OPERATOR_NAMESPACE);
    let holder = |lease: &Value| text(lease, "/spec/holderIdentity").to_owned();
    let older = stage.start(true, "older", &flags);
    let held = system.until(LEASE, LEASE_NAME, "the older one leads", |lease| {
        !holder(lease).is_empty()
    });
    let newer = stage.start(false, "newer", &flags);
    let mark = stage.space.mark();
    for (name, spec) in specs() {
        stage.space.app(name, spec);
    }
    for (name, _) in specs() {
        stage.space.until_reported(name);
    }
    let by = |user: &str, mark| {
        let requests = stage.cluster.control_plane.audit().since(mark).unwrap();
        requests.by_user(user).writes().without("leases").count()
    };
    assert_eq!(by("newer", mark), 0);
    let before = identities(&stage.space);
    let mark = stage.space.mark();
    older.terminate();
    system.until(LEASE, LEASE_NAME, "the newer one leads", |lease| {
        !holder(lease).is_empty() && holder(lease) != holder(&held)
    });
    stage.space.settled_app("late", json!({"image": "nginx:1"}));
    assert_eq!(by("older", mark), 0);
    let mut after = identities(&stage.space);
    after.remove("Deployment late");
    assert_eq!(after, before, "the two do not agree");
    // And nothing goes to and fro.
    let mark = stage.space.mark();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(by("newer", mark) + by("older", mark), 0);
    drop(newer);
}
