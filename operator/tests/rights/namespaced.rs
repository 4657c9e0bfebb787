//! The operator with rights in some namespaces, as `kubectl appdeploy install --watch-namespace` gives them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, CLASS, Cluster, DEPLOYMENT, Namespace, OPERATOR, QUIET, condition, eventually, ready, text, web,
};

/// Builds the plugin from the current sources, and returns it. Cargo builds only the programs of this crate for its tests, so
/// the plugin next to the operator may be of any age. Built are the targets of `make test`, with whose features nothing is
/// built a second time.
fn plugin() -> PathBuf {
    let operator = Path::new(env!("CARGO_BIN_EXE_appdeploy-operator"));
    let folder = operator.parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace", "--all-targets", "--target-dir"]);
    build
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if folder.ends_with("release") {
        build.arg("--release");
    }
    // Variables that cargo sets for tests cause build scripts to run again, and half of the workspace to be rebuilt.
    let variables = std::env::vars_os().map(|(name, _)| name);
    for name in variables.filter(|name| {
        name.to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
    }) {
        build.env_remove(name);
    }
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    operator.with_file_name("kubectl-appdeploy")
}

/// Installs for these namespaces with the plugin.
fn install(cluster: &Cluster, namespaces: &str) {
    let mut command = Command::new(plugin());
    command.args(["install", "--wait=false", "--watch-namespace", namespaces]);
    command.env("KUBECONFIG", cluster.control_plane.kubeconfig());
    let installed = command.output().unwrap();
    assert!(installed.status.success(), "{installed:?}");
}

#[test]
fn operator_of_some_namespaces_sends_no_forbidden_request() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let [shop, blog] = ["shop", "blog"].map(|name| cluster.namespace(name));
    // The harness has granted everything.
    install(&cluster, "shop,blog");
    eventually("nothing is granted in the whole cluster", || {
        let asked = ["auth", "can-i", "list", "deployments.apps", "-A", "--as", OPERATOR];
        let granted = [
            "auth",
            "can-i",
            "list",
            "deployments.apps",
            "-n",
            "blog",
            "--as",
            OPERATOR,
        ];
        let control_plane = &cluster.control_plane;
        control_plane.kubectl(&asked).is_err() && control_plane.kubectl(&granted).is_ok()
    });
    let flags = [
        "--watch-namespace",
        "shop,blog",
        "--leader-elect",
        "--resync-period",
        "5s",
    ];
    let operator = cluster.operator(&flags);
    for space in [&shop, &blog] {
        works(space);
    }
    // An operator that can list the classes would report that this one is missing.
    let mut spec = web();
    spec["ingressClassName"] = json!("lane");
    shop.settled_app("classy", spec);
    shop.pods_become_ready("classy");
    let app = shop.until(APP, "classy", "it is ready", |app| ready(app).0 == "True");
    let exposed = condition(&app, "Exposed").unwrap();
    assert_eq!(
        (text(exposed, "/status"), text(exposed, "/reason")),
        ("False", "NoIngressClass")
    );
    assert_eq!(text(exposed, "/message"), "the operator may not read IngressClasses");
    assert_eq!(operator.get("/readyz"), (200, "ok\n".to_owned()));

    std::thread::sleep(QUIET);
    let asked = cluster.control_plane.audit().all().unwrap().by_user(OPERATOR);
    let denied = asked.clone().that(|request| request.code == 403);
    assert_eq!(denied.count(), 0, "{:?}", denied.tally());
    assert_eq!(asked.on("ingressclasses").count(), 0);

    // More rights can be granted later, without a restart.
    let role = [
        "create",
        "clusterrole",
        "classes",
        "--verb=list,watch",
        "--resource=ingressclasses.networking.k8s.io",
    ];
    cluster.control_plane.kubectl(&role).unwrap();
    let user = format!("--user={OPERATOR}");
    let binding = [
        "create",
        "clusterrolebinding",
        "classes",
        "--clusterrole=classes",
        &user,
    ];
    cluster.control_plane.kubectl(&binding).unwrap();
    shop.until(APP, "classy", "the class is missed", |app| {
        ready(app) == ("False", "NoIngressClass")
    });
    shop.create(
        CLASS,
        json!({"metadata": {"name": "lane"}, "spec": {"controller": "example.com/lane"}}),
    );
    shop.until(APP, "classy", "the class is seen", |app| {
        ready(app) == ("False", "AddressPending")
    });
}

/// Each kind is created, repaired and reported.
fn works(space: &Namespace) {
    space.settled_app("web", web());
    let before = space.get(DEPLOYMENT, "web");
    space.delete(DEPLOYMENT, "web");
    space.until_back(DEPLOYMENT, &before);
    space.podset_of("set", json!({"replicas": 2}), &["set-0", "set-1"]);
    let image = Patch::Merge(json!({"spec": {"template": {"image": "nginx:2"}, "replicas": 1}}));
    let updated: Value = space.patch(crate::harness::PODSET, "set", image);
    assert_eq!(text(&updated, "/spec/template/image"), "nginx:2");
    space.until_pods("set", &["set-0"]);
}
