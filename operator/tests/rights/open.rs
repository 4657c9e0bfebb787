//! I3: anonymous clients of the operator's port get nothing that they could use, and can change nothing.

use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, config};

#[test]
fn open_port_exposes_no_names_and_changes_nothing() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let space = cluster.namespace("needle-space");
    let operator = cluster.operator(&[]);
    let env = json!([{"name": "NEEDLE", "value": "needle-value"}]);
    space.settled_app(
        "needle-app",
        json!({"image": "needle/image", "port": 80, "host": "needle.example.com", "env": env}),
    );
    space.podset_of("needle-set", json!({"replicas": 1}), &["needle-set-0"]);
    // A cause is counted, too.
    space.app(
        "needle-refused",
        json!({"image": "nginx", "resources": {"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}}}),
    );
    space.until_reported("needle-refused");
    let metrics = operator.until("/metrics", "failures are counted", |_, body| {
        body.contains("appdeploy_failures_total{")
    });
    for answers in [metrics, operator.get("/readyz").1, operator.get("/healthz").1] {
        let line = answers.lines().find(|line| line.to_lowercase().contains("needle"));
        assert_eq!(line, None);
        assert!(
            !answers.contains(&cluster.control_plane.url()) && !answers.contains("system:serviceaccount"),
            "{answers}"
        );
    }

    let before = operator.debug("GET", "/log-level", "").1;
    for path in [
        "/log-level",
        "/",
        "/debug/pprof/",
        "/config",
        "/metrics/../log-level",
        "/env",
    ] {
        for method in ["GET", "PUT", "POST", "DELETE"] {
            assert_eq!(operator.ask(method, path, "trace").0, 404, "{method} {path}");
        }
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        for method in ["PUT", "POST", "PATCH", "DELETE"] {
            assert_eq!(operator.ask(method, path, "trace").0, 405, "{method} {path}");
        }
    }
    assert_eq!(operator.debug("GET", "/log-level", "").1, before);
    assert!(!space.get(APP, "needle-app").is_null() && operator.is_running());
}

#[test]
fn log_level_is_changed_on_loopback_only() {
    let help = Command::new(env!("CARGO_BIN_EXE_appdeploy-operator"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("[default: 127.0.0.1:8089]"), "{help}");
    let installed = config("manager/deployment.yaml");
    assert!(
        !installed.contains("debug") && !installed.to_lowercase().contains("8089"),
        "{installed}"
    );
}
