//! The API server ends, is killed or freezes while there is work under way.

use std::sync::Arc;

use fault_proxy::Proxy;
use fault_proxy::{Action, Requests, Rule, Verb};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, OPERATOR, PATIENCE, SERVICE, eventually, is_long, is_observed, ready, text, uid,
    web,
};

/// B1: what was asked of it while the API server was away is done when it is back.
#[test]
fn operator_survives_an_outage_of_the_api_server() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let shop = cluster.namespace("outlive");
    let operator = cluster.operator(&[]);
    for round in 0..if is_long() { 20 } else { 2 } {
        let names: Vec<String> = (0..10).map(|n| format!("shop-{round}-{n}")).collect();
        for name in &names {
            shop.app(name, web());
        }
        // Asked to end, it answers what it has begun; killed, it does not.
        if round % 2 == 0 {
            cluster.control_plane.kill_apiserver().unwrap();
        } else {
            cluster.control_plane.stop_apiserver();
        }
        cluster.control_plane.start_apiserver().unwrap();
        shop.app(&format!("after-{round}"), web());
        for name in names.iter().chain([&format!("after-{round}")]) {
            for kind in [DEPLOYMENT, SERVICE, INGRESS] {
                shop.until_there(kind, name);
            }
            shop.until(APP, name, "nothing is amiss", |app| {
                is_observed(app) && ready(app).1 == "Progressing"
            });
        }
        let before = shop.get(SERVICE, "shop-0-0");
        shop.delete(SERVICE, "shop-0-0");
        let after = shop.until_back(SERVICE, &before);
        assert_ne!(uid(&after), uid(&before));
    }
    assert!(operator.is_running());
}

/// B5, B18: requests that are in flight when the API server freezes fail after their deadline. They are repeated when it responds
/// again, although it then processes some of the old ones.
#[test]
fn operator_survives_a_frozen_api_server() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let shop = cluster.namespace("frozen");
    let proxy = Proxy::before(&cluster.control_plane, OPERATOR, &[]).unwrap();
    let creates = Requests::with(&[Verb::Create]).on("deployments");
    let held = proxy.add(Rule::new(creates, Action::Hold));
    let operator = cluster.spawn_operator_behind(&proxy, &[]);
    operator.until_ready();
    let names: Vec<String> = (0..10).map(|n| format!("shop-{n}")).collect();
    for name in &names {
        shop.app(name, web());
    }
    proxy.wait_for_hits(PATIENCE, held, names.len()).unwrap();
    cluster.control_plane.pause_apiserver().unwrap();
    proxy.remove(held);
    eventually("it gives requests up", || operator.log().contains("no answer within"));
    cluster.control_plane.resume_apiserver().unwrap();
    for name in &names {
        for kind in [DEPLOYMENT, SERVICE, INGRESS] {
            shop.until_there(kind, name);
        }
        shop.until(APP, name, "nothing is amiss", |app| {
            is_observed(app) && ready(app).1 == "Progressing"
        });
    }
    assert!(operator.is_running());
    let audit = cluster.control_plane.audit().all().unwrap();
    let made = audit
        .by_user(OPERATOR)
        .in_namespace("frozen")
        // That the API server did not answer is reported by an Event.
        .that(|request| request.verb == "create" && request.code == 201 && request.resource != "events");
    assert_eq!(made.count(), 3 * names.len(), "{:?}", made.tally());
}

/// B13: etcd is restored to an older state, with older versions. A client that compares versions would ignore all changes.
/// Remedy: `Cache::upsert_listed`, and so the next list.
#[test]
fn restored_etcd_is_followed_after_a_relist() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let shop = cluster.namespace("backup");
    let operator = cluster.operator(&["--resync-period", "5s"]);
    for name in ["changed", "deleted"] {
        shop.settled_app(name, web());
    }
    let backup = cluster.control_plane.save().unwrap();
    shop.delete(APP, "deleted");
    shop.settled_app("made", web());
    for tag in 0..20 {
        let image = format!("nginx:{tag}");
        shop.set("changed", json!({"image": image}));
        shop.until(DEPLOYMENT, "changed", "it has the image", |it| {
            text(it, "/spec/template/spec/containers/0/image") == image
        });
    }
    let version = |object: &Value| text(object, "/metadata/resourceVersion").parse::<u64>().unwrap();
    let before = version(&shop.get(DEPLOYMENT, "changed"));

    cluster.control_plane.set_back(&backup).unwrap();
    assert!(shop.get(APP, "made").is_null());
    for name in ["changed", "deleted"] {
        shop.set(name, json!({"image": "httpd"}));
        let after = shop.until(DEPLOYMENT, name, "it has the image", |it| {
            text(it, "/spec/template/spec/containers/0/image") == "httpd"
        });
        assert!(version(&after) < before, "the test needs an older version");
    }
    let service = shop.get(SERVICE, "changed");
    shop.delete(SERVICE, "changed");
    shop.until_back(SERVICE, &service);
    shop.settled_app("made", web());
    assert!(operator.is_running());
}
