//! D3 with a whole operator: its certificate is damaged or thrown away, and it makes another.

use std::sync::Arc;

use serde_json::json;
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, Webhooks, eventually};

#[test]
fn damaged_or_deleted_certificate_is_replaced() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let webhooks = Webhooks::install(&cluster);
    let operator = webhooks.operator(&cluster, &[]);
    let space = cluster.namespace("certified");
    let system = |arguments: &[&str]| {
        let all = [&["-n", "appdeploy-system"], arguments].concat();
        cluster.control_plane.kubectl(&all).unwrap()
    };
    let secret = [
        "get",
        "secret",
        "appdeploy-webhook-certificate",
        "-o",
        "jsonpath={.data.tls\\.crt}",
    ];
    let mut number = 0;
    let mut works_again = |before: &str| {
        eventually("there is another certificate", || {
            let now = cluster
                .control_plane
                .kubectl(&[&["-n", "appdeploy-system"], &secret[..]].concat());
            now.is_ok_and(|now| !now.is_empty() && now != before && now != "bm9uZQ==")
        });
        number += 1;
        eventually("the API server is answered", || {
            let app = json!({"metadata": {"name": format!("app-{number}")}, "spec": {"image": "nginx:1"}});
            space.try_create(APP, app).is_ok()
        });
    };
    let before = system(&secret);
    let damage = r#"{"data": {"tls.crt": "bm9uZQ=="}}"#;
    system(&[
        "patch",
        "secret",
        "appdeploy-webhook-certificate",
        "--type=merge",
        "-p",
        damage,
    ]);
    works_again(&before);
    let before = system(&secret);
    system(&["delete", "secret", "appdeploy-webhook-certificate"]);
    works_again(&before);
    // A user applies the manifests again, which empties the bundle.
    let empty = r#"[{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]"#;
    let patch = [
        "patch",
        "validatingwebhookconfiguration",
        "appdeploy",
        "--type=json",
        "-p",
        empty,
    ];
    cluster.control_plane.kubectl(&patch).unwrap();
    eventually("the API server is answered", || {
        let app = json!({"metadata": {"name": "last"}, "spec": {"image": "nginx:1"}});
        space.try_create(APP, app).is_ok()
    });
    let (_, metrics) = operator.get("/metrics");
    let end = "appdeploy_webhook_certificate_expiration_timestamp_seconds{} ";
    let end: Option<i64> = metrics.lines().find_map(|line| line.strip_prefix(end)?.parse().ok());
    assert!(end > Some(jiff::Timestamp::now().as_second()), "{metrics}");
    assert!(
        metrics.contains("appdeploy_requests_total{verb=\"update\",resource=\"secrets\"}"),
        "{metrics}"
    );
}
