//! The token by which the operator proves who it is, as a kubelet keeps it in a file.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use testcluster::ControlPlane;
use testcluster::kubeconfig::{Credential, Kubeconfig, TEST_CLUSTER};
use testcluster::pki::Authority;

use crate::cluster;
use crate::harness::{DEPLOYMENT, Operator, PATIENCE, eventually, is_long, web};

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
fn a_token_that_is_replaced_is_read_anew() {
    if !is_long() {
        return;
    }
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

/// B17: a kubelet brings a file with another authority beside the old one, long before the API server is one of it. It is
/// looked at once a minute or so, and counts from the next start on.
#[test]
fn an_authority_that_is_replaced_is_a_reason_to_start_again() {
    if !is_long() {
        return;
    }
    let cluster = cluster();
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
    std::fs::write(&ours, lines.join("\n")).unwrap();
    let flags = ["--watch-namespace", "authority"];
    let operator = Operator::spawn(control_plane.folder(), &ours, &flags);
    operator.until_ready();
    shop.settled_app("before", web());

    let after = Authority::new("the-next-one").unwrap();
    std::fs::write(&file, format!("{before}{}", after.certificate())).unwrap();
    let started = Instant::now();
    while operator.is_running() {
        assert!(started.elapsed() < 3 * PATIENCE, "{}", operator.log_tail(40));
        thread::sleep(Duration::from_millis(100));
    }
    assert!(operator.until_ended().success(), "{}", operator.log_tail(40));
    assert!(
        operator.log().contains("has another authority"),
        "{}",
        operator.log_tail(40)
    );
    let next = Operator::spawn(control_plane.folder(), &ours, &flags);
    next.until_ready();
    shop.settled_app("after", web());
}
