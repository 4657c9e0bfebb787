//! The token by which the operator proves who it is, as a kubelet keeps it in a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use testcluster::ControlPlane;
use testcluster::kubeconfig::{Credential, Kubeconfig, TEST_CLUSTER};
use testcluster::pki::Authority;

use crate::harness::{Cluster, DEPLOYMENT, Operator, PATIENCE, eventually, web};
use crate::life::cluster;

const SYSTEM: &str = crd::OPERATOR_NAMESPACE;

/// Returns a token that counts for as long as a Secret is there, which is made for it.
fn token(control_plane: &ControlPlane, secret: &str) -> String {
    let make = ["-n", SYSTEM, "create", "secret", "generic", secret];
    control_plane.kubectl(&make).unwrap();
    let ask = [
        "-n",
        SYSTEM,
        "create",
        "token",
        "appdeploy-operator",
        "--bound-object-kind=Secret",
        "--bound-object-name",
        secret,
    ];
    control_plane.kubectl(&ask).unwrap().trim().to_owned()
}

fn kubeconfig(control_plane: &ControlPlane, token: &Path) -> PathBuf {
    let path = control_plane.fresh_path("token", "kubeconfig");
    let config = Kubeconfig {
        cluster: TEST_CLUSTER,
        server: &control_plane.url(),
        authority: control_plane.ca().certificate(),
        user: "operator",
        credential: Credential::TokenFile(token),
    };
    config.write(&path).unwrap();
    path
}

/// B17: what is in the file is replaced, and what was in it counts no more. The file is read once a minute.
#[test]
#[ignore = "takes a minute or two: make test-long"]
fn replaced_token_is_reloaded() {
    let cluster = cluster();
    let control_plane = &cluster.control_plane;
    let shop = cluster.namespace("token");
    let (file, old) = (
        control_plane.fresh_path("operator", "token"),
        control_plane.fresh_path("old", "token"),
    );
    let first = token(control_plane, "first");
    for path in [&file, &old] {
        std::fs::write(path, &first).unwrap();
    }
    let ours = kubeconfig(control_plane, &file);
    let operator = Operator::spawn(control_plane.folder(), &ours, &["--watch-namespace", "token"]);
    operator.until_ready();
    shop.settled_app("before", web());

    std::fs::write(&file, token(control_plane, "second")).unwrap();
    control_plane
        .kubectl(&["-n", SYSTEM, "delete", "secret", "first"])
        .unwrap();
    let old = control_plane.kubectl_as(&kubeconfig(control_plane, &old));
    eventually("the old token counts no more", || old.run(&["auth", "whoami"]).is_err());
    shop.app("after", web());
    let started = Instant::now();
    while shop.get(DEPLOYMENT, "after").is_null() {
        assert!(started.elapsed() < 3 * PATIENCE, "{}", operator.log_tail(40));
        thread::sleep(Duration::from_millis(100));
    }
    assert!(operator.is_running());
}

/// B17: the CA bundle contains the next CA in addition to the old one, then the API server gets a certificate of the next CA. kube
/// reloads the file once a minute, so the operator continues without a restart.
#[test]
#[ignore = "takes a minute or two: make test-long"]
fn replaced_ca_is_trusted_without_a_restart() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let control_plane = &cluster.control_plane;
    let shop = cluster.namespace("authority");
    let (file, ours) = (
        control_plane.fresh_path("authority", "crt"),
        control_plane.fresh_path("authority", "kubeconfig"),
    );
    let before = control_plane.ca().certificate();
    std::fs::write(&file, before).unwrap();
    let kubeconfig = std::fs::read_to_string(control_plane.kubeconfig()).unwrap();
    let in_file = |line: &str| match line.find("certificate-authority-data:") {
        Some(place) => format!("{}certificate-authority: {}", &line[..place], file.display()),
        None => line.to_owned(),
    };
    let lines: Vec<String> = kubeconfig.lines().map(in_file).collect();
    for path in [&ours, &control_plane.kubeconfig()] {
        std::fs::write(path, lines.join("\n")).unwrap();
    }
    let operator = Operator::spawn(control_plane.folder(), &ours, &["--watch-namespace", "authority"]);
    operator.until_ready();
    shop.settled_app("before", web());

    let after = Authority::new("the-next-one").unwrap();
    std::fs::write(&file, format!("{before}{}", after.certificate())).unwrap();
    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"];
    let served = after.server("kube-apiserver", &names).unwrap();
    served.write(control_plane.folder(), "apiserver").unwrap();
    control_plane.kill_apiserver().unwrap();
    control_plane.start_apiserver().unwrap();
    // Only kubectl trusts both: the client of the tests has read the old one.
    let app = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
        "metadata": {"name": "after", "namespace": "authority"}, "spec": web()});
    control_plane.apply(&app.to_string()).unwrap();
    let started = Instant::now();
    while control_plane
        .kubectl(&["-n", "authority", "get", "deployment", "after"])
        .is_err()
    {
        assert!(operator.is_running(), "{}", operator.log_tail(40));
        assert!(started.elapsed() < 3 * PATIENCE, "{}", operator.log_tail(40));
        thread::sleep(Duration::from_millis(200));
    }
    assert!(operator.is_running(), "{}", operator.log_tail(40));
}
