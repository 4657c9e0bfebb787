//! The operator in a cluster that lacks what `install` would apply.

use std::sync::Arc;

use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, DEPLOYMENT, INGRESS, PODSET, QUEUE, SERVICE, config, web};

#[test]
fn missing_crd_is_reported_and_waited_for() {
    let cluster = Arc::new(Cluster::without_crd(ControlPlane::builder()));
    let operator = cluster.spawn_operator(&[]);
    let hint = "the AppDeploy API is not installed in this cluster; run: kubectl appdeploy install (or make install)";
    operator.until("/readyz", "it says what it lacks", |status, body| {
        status == 503 && body == format!("appdeploys: {hint}\n")
    });
    let log = operator.log();
    let warnings = log.lines().filter(|line| line.contains("WARN") && line.contains(hint));
    assert_eq!(warnings.count(), 1, "once, however often it was tried");
    assert_eq!(operator.get("/healthz").0, 200, "a restart would not help");

    cluster.install_crd();
    operator.until_ready();
    let shop = cluster.namespace("shop");
    shop.settled_app("shop", web());
    shop.until_there(INGRESS, "shop");

    // E11: and it outlives the CRD's removal, which takes all applications with it.
    shop.kubectl(&["delete", "crd", "appdeploys.appdeploy.dev"]);
    for kind in [DEPLOYMENT, SERVICE, INGRESS] {
        shop.delete(kind, "shop");
    }
    cluster.install_crd();
    shop.app("again", web());
    shop.until_there(INGRESS, "again");
    assert!(shop.get(DEPLOYMENT, "shop").is_null(), "of a deleted app");
}

/// The API server delays the first list of a kind that it has just begun to serve, and may refuse the first watch.
#[test]
fn operator_that_starts_right_after_the_crds_warns_of_nothing() {
    let cluster = Arc::new(Cluster::without_crd(ControlPlane::builder()));
    for kind in [PODSET, QUEUE, APP] {
        let crd = config(&format!("crd/{}.yaml", kind.plural()));
        cluster.control_plane.apply(&crd).unwrap();
    }
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.control_plane.kubectl(&wait).unwrap();
    let operator = cluster.operator(&[]);
    let log = operator.log();
    assert!(!log.contains("WARN"), "{log}");
}

/// An image that is newer than its installation. Remedies: each controller waits only for what it needs
/// (`Watched::controller`), and readiness not for a kind that the server does not have (`Need::IfServed`).
#[test]
fn apps_are_reconciled_without_the_podset_crd() {
    let cluster = Arc::new(Cluster::without_crd(ControlPlane::builder()));
    cluster.apply_crd(APP, &config("crd/appdeploys.yaml"));
    let operator = cluster.operator(&[]);
    let shop = cluster.namespace("shop");
    shop.settled_app("shop", web());
    shop.until_there(INGRESS, "shop");
    let before = shop.get(SERVICE, "shop");
    shop.delete(SERVICE, "shop");
    shop.until_back(SERVICE, &before);
    operator.until_ready();
    let hint = "the PodSet API is not installed in this cluster; run: kubectl appdeploy install (or make install)";
    let warning = format!("WARN the watch failed, and is retried resource=\"podsets\" error=\"{hint}\"");
    assert_eq!(operator.log().matches(&warning).count(), 1, "{}", operator.log());
    let failing = |is: u8| format!("appdeploy_watch_failing{{resource=\"podsets\"}} {is}");
    operator.until("/metrics", "the metric reports the failing watch", |_, body| {
        body.contains(&failing(1))
    });

    cluster.install_crd();
    operator.until("/metrics", "PodSets are watched", |_, body| {
        body.contains("appdeploy_watch_synced{resource=\"podsets\"} 1") && body.contains(&failing(0))
    });
    operator.until_ready();
}
