//! The operator's HTTP/2 connections to a real API server. `operator/src/client/http2/tests.rs` has other servers.

use std::sync::Arc;

use fault_proxy::{Action, Proxy, Requests, Rule};
use serde_json::json;
use testcluster::ControlPlane;
use testcluster::audit::Mark;

use crate::harness::{Cluster, DEPLOYMENT, Namespace, OPERATOR, Operator, SENTINEL, SERVICE, is_long, text, web};

/// One connection for watches, and one for other requests, or two at load.
const MOST: usize = 3;

/// The number of applications.
fn apps() -> usize {
    if is_long() { 200 } else { 50 }
}

fn connections(operator: &Operator, cluster: &Cluster) -> usize {
    operator.connections(cluster.control_plane.address())
}

/// Creates applications, then changes the image of all of them, and returns the most connections at a time.
fn load(shop: &Namespace, operator: &Operator) -> usize {
    let names: Vec<String> = (0..apps()).map(|n| format!("app-{n}")).collect();
    let mut most = 0;
    let mut measure = || most = most.max(connections(operator, &shop.cluster));
    for name in &names {
        shop.app(name, web());
        measure();
    }
    for name in &names {
        shop.until_reported(name);
        shop.set(name, json!({"image": "nginx:1.28"}));
        measure();
    }
    for name in &names {
        shop.until(DEPLOYMENT, name, "it has the new image", |deployment| {
            text(deployment, "/spec/template/spec/containers/0/image") == "nginx:1.28"
        });
        shop.until_reported(name);
        measure();
    }
    most
}

/// Returns the writes that were refused. A write that is repeated after it was carried out is refused with 409, because the
/// object exists or has changed.
fn refused(shop: &Namespace, mark: Mark) -> Vec<String> {
    let requests = shop.asked_since(mark).writes();
    let refused = requests.iter().filter(|request| request.code >= 400);
    refused
        .map(|request| {
            format!(
                "{} {}: {} {}",
                request.what(),
                request.name,
                request.code,
                request.message
            )
        })
        .collect()
}

#[test]
fn few_connections_are_used_at_load() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let operator = cluster.operator(&[]);
    let most = load(&cluster.namespace("load"), &operator);
    assert!((2..=MOST).contains(&most), "{most}");
    assert!(!operator.log().contains("HTTP/1.1"));
}

#[test]
fn api_server_that_restarts_is_reconnected() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let operator = cluster.operator(&[]);
    let shop = cluster.namespace("restart");
    shop.settled_app("before", web());
    let before = shop.get(DEPLOYMENT, "before");
    for name in ["first", "second"] {
        cluster.control_plane.kill_apiserver().unwrap();
        cluster.control_plane.start_apiserver().unwrap();
        shop.settled_app(name, web());
    }
    shop.delete(DEPLOYMENT, "before");
    shop.until_back(DEPLOYMENT, &before);
    operator.until_ready();
    let now = connections(&operator, &cluster);
    assert!((2..=MOST).contains(&now), "{now}");
}

/// As with a load balancer that does not offer HTTP/2.
#[test]
fn api_server_without_http2_is_used_with_http1() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let proxy = Proxy::without_http2(&cluster.control_plane, OPERATOR, &[]).unwrap();
    let operator = cluster.spawn_operator_behind(&proxy, &[]);
    operator.until_ready();
    let shop = cluster.namespace("http1");
    shop.settled_app("shop", web());
    let before = shop.get(SERVICE, "shop");
    proxy.add(Rule::new(Requests::writes(), Action::ForwardThenDisconnect).first(1));
    shop.delete(SERVICE, "shop");
    shop.until_back(SERVICE, &before);
    assert!(operator.log().contains("using HTTP/1.1"));
}

/// The API server shuts down the connection after every fiftieth request. The operator starts with all apps, so many requests
/// run at that time.
#[test]
fn goaway_loses_no_request_and_repeats_no_write() {
    let cluster = Arc::new(Cluster::start(
        ControlPlane::builder().apiserver_flag("--goaway-chance=0.02"),
    ));
    let shop = cluster.namespace("goaway");
    let mark = shop.mark();
    let names: Vec<String> = (0..4 * apps()).map(|n| format!("early-{n}")).collect();
    for name in &names {
        shop.app(name, web());
    }
    let operator = cluster.operator(&[]);
    for name in &names {
        shop.until_reported(name);
    }
    shop.settle();
    assert_eq!(refused(&shop, mark), [""; 0], "{}", operator.log());
    let asked = shop.asked_since(mark);
    for resource in ["deployments", "services", "ingresses"] {
        let creates = asked
            .clone()
            .on(resource)
            .that(|request| request.verb == "create" && !request.name.starts_with(SENTINEL));
        assert_eq!(creates.count(), names.len(), "{resource}");
    }
    let metrics = operator.get("/metrics").1;
    let errors = "controller_runtime_reconcile_errors_total{controller=\"appdeploy\"} 0";
    assert!(metrics.contains(errors), "{errors} is not in\n{metrics}");
    let log = operator.log();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    // Two are opened at the start, and one after each GOAWAY.
    assert!(log.matches("opened a connection").count() > 2, "no GOAWAY");
}
