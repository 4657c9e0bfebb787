//! What the operator costs a cluster, counted where it is paid: in the API server's audit log.
//!
//! There is no controller except the operator, so each request is its own.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, Namespace, Operator, SENTINEL, SERVICE, Shared, is_long, is_observed, web,
};

type Tally = BTreeMap<String, usize>;

/// The number of applications.
fn apps() -> usize {
    if is_long() { 200 } else { 50 }
}

/// Everything that was asked while these applications went through their life.
struct Costs {
    create: Tally,
    /// The reconciles of all creations.
    reconciles: usize,
    steady: Tally,
    restart: Tally,
    image: Tally,
}

/// Measured once, because the steps build on each other, and checked by five tests.
static COSTS: LazyLock<Costs> = LazyLock::new(|| {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let many = cluster.namespace("many");
    let operator = cluster.operator(&[]);
    let names: Vec<String> = (0..apps()).map(|n| format!("app-{n}")).collect();
    let until_all_reported = || {
        for name in &names {
            many.until_reported(name);
        }
    };

    // An app that is created before everything was listed is reconciled once more then.
    many.settle();
    let (mark, before) = (many.mark(), reconciles(&operator));
    for name in &names {
        many.app(name, web());
    }
    until_all_reported();
    let reconciles = reconciles(&operator) - before;
    many.settle();
    let create = tally(&many, mark);

    let mark = many.mark();
    std::thread::sleep(steady_time());
    let steady = tally(&many, mark);

    operator.terminate();
    let mark = many.mark();
    let _operator = cluster.operator(&[]);
    many.settle();
    let restart = tally(&many, mark);

    let mark = many.mark();
    for name in &names {
        many.set(name, json!({"image": "nginx:1.28"}));
    }
    until_all_reported();
    many.settle();
    let image = tally(&many, mark);
    Costs {
        create,
        reconciles,
        steady,
        restart,
        image,
    }
});

/// Waits until no app is queued or reconciled, and returns how many reconciles of apps there were.
fn reconciles(operator: &Operator) -> usize {
    let body = operator.until("/metrics", "nothing is queued or reconciled", |_, body| {
        body.contains("controller_runtime_active_workers{controller=\"appdeploy\"} 0\n")
            && body.contains("workqueue_depth{name=\"appdeploy\"} 0\n")
    });
    let series = "controller_runtime_reconcile_time_seconds_count{controller=\"appdeploy\"} ";
    let count = body.lines().find_map(|line| line.strip_prefix(series));
    count.unwrap().parse().unwrap()
}

/// Two minutes when there is time; else long enough for a loop of any kind to show.
fn steady_time() -> Duration {
    Duration::from_secs(if is_long() { 120 } else { 10 })
}

/// Counts what the operator asked since, in all namespaces, watches aside.
fn tally(namespace: &Namespace, mark: testcluster::audit::Mark) -> Tally {
    let requests = namespace.cluster.control_plane.audit().since(mark).unwrap();
    requests
        .by_user_agent_prefix("appdeploy-operator/")
        .that(|request| request.verb != "watch" && !request.name.starts_with(SENTINEL))
        .tally()
}

fn counts(expected: &[(&str, usize)]) -> Tally {
    expected
        .iter()
        .map(|(what, count)| ((*what).to_owned(), *count))
        .collect()
}

#[test]
fn app_is_created_with_four_writes_and_no_read() {
    let expected = counts(&[
        ("create deployments", apps()),
        ("create services", apps()),
        ("create ingresses", apps()),
        ("patch appdeploys/status", apps()),
    ]);
    assert_eq!(COSTS.create, expected);
}

/// The watch reports the writes of a reconcile, often before they are answered, and must not cause another one.
#[test]
fn app_is_created_with_one_reconcile() {
    assert_eq!(COSTS.reconciles, apps());
}

#[test]
fn steady_cluster_costs_no_request() {
    assert_eq!(COSTS.steady, Tally::new());
}

/// Guards P13. Remedy: a status is compared before it is written, and of a condition that has not changed the time
/// of its last change is kept. The pods of apps and of sets are two lists.
#[test]
fn restart_lists_each_kind_once_and_requests_nothing_else() {
    let expected = counts(&[
        ("list appdeploys", 1),
        ("list appqueues", 1),
        ("list configmaps", 1),
        ("list customresourcedefinitions", 1),
        ("list deployments", 1),
        ("list ingressclasses", 1),
        ("list ingresses", 1),
        ("list podmonitors", 1),
        ("list pods", 2),
        ("list podsets", 1),
        ("list serviceaccounts", 1),
        ("list services", 1),
    ]);
    assert_eq!(COSTS.restart, expected);
}

/// Also after a restart: the list of an operator that has just started is current.
#[test]
fn new_image_costs_two_writes_and_no_read() {
    let expected = counts(&[("patch deployments", apps()), ("patch appdeploys/status", apps())]);
    assert_eq!(COSTS.image, expected);
}

/// One control plane for what follows, with an operator for all of it.
fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED
        .get(|| Cluster::start(ControlPlane::builder()).with_operator(&[]))
        .namespace(name)
}

/// Does something to an application, and returns what that cost.
fn cost(namespace: &Namespace, name: &str, change: Value) -> Tally {
    let before = namespace.get(APP, name);
    let mark = namespace.mark();
    namespace.set(name, change);
    namespace.until(APP, name, "the change is seen", |app| {
        is_observed(app) && app["metadata"]["generation"] != before["metadata"]["generation"]
    });
    namespace.settle();
    namespace.asked_since(mark).tally()
}

/// The child was deleted: perhaps the app was, too, and its watch is late.
#[test]
fn deleted_child_costs_a_read_of_its_app_and_a_create() {
    let shop = namespace("heal");
    shop.settled_app("shop", web());
    for (kind, create) in [
        (DEPLOYMENT, "create deployments"),
        (SERVICE, "create services"),
        (INGRESS, "create ingresses"),
    ] {
        let (before, mark) = (shop.get(kind, "shop"), shop.mark());
        shop.delete(kind, "shop");
        shop.until_back(kind, &before);
        shop.settle();
        assert_eq!(
            shop.asked_since(mark).tally(),
            counts(&[("get appdeploys", 1), (create, 1)])
        );
    }
}

/// A child that the operator has deleted itself says nothing about the app.
#[test]
fn child_that_is_desired_again_costs_no_read() {
    let shop = namespace("again");
    shop.settled_app("shop", web());
    cost(&shop, "shop", json!({"expose": "Cluster"}));
    shop.until_gone(INGRESS, "shop");
    let asked = cost(&shop, "shop", json!({"expose": null}));
    assert_eq!(
        asked,
        counts(&[("create ingresses", 1), ("patch appdeploys/status", 1)])
    );
}

/// Without the fold of managedFields the field would stay: the POST owns it as another manager than the apply
/// (P6). The fold is the third write.
#[test]
fn dropping_a_field_costs_three_writes_and_drops_it() {
    let shop = namespace("drop");
    let mut spec = web();
    spec["env"] = json!([{"name": "MODE", "value": "live"}, {"name": "COLOUR", "value": "red"}]);
    spec["command"] = json!(["/shop"]);
    shop.settled_app("shop", spec);

    let asked = cost(
        &shop,
        "shop",
        json!({"env": [{"name": "MODE", "value": "live"}], "command": null}),
    );
    assert_eq!(
        asked,
        counts(&[("patch deployments", 2), ("patch appdeploys/status", 1)])
    );
    let container = shop.get(DEPLOYMENT, "shop")["spec"]["template"]["spec"]["containers"][0].clone();
    assert_eq!(container["env"], json!([{"name": "MODE", "value": "live"}]));
    assert_eq!(container.get("command"), None);

    // From now on everything is an apply, and a drop costs what any change does.
    let asked = cost(&shop, "shop", json!({"env": null}));
    assert_eq!(
        asked,
        counts(&[("patch deployments", 1), ("patch appdeploys/status", 1)])
    );
    assert_eq!(
        shop.get(DEPLOYMENT, "shop")
            .pointer("/spec/template/spec/containers/0/env"),
        None
    );
}

/// Ports are merged by number: the old one would stay in addition to the new one.
#[test]
fn new_port_replaces_the_old_one() {
    let shop = namespace("port");
    shop.settled_app("shop", web());
    shop.set("shop", json!({"port": 8080}));
    shop.until(SERVICE, "shop", "the Service has the new port", |service| {
        service["spec"]["ports"][0]["port"] == 8080 || service["spec"]["ports"][1]["port"] == 8080
    });
    shop.until_reported("shop");
    let ports = |object: &Value, pointer: &str, field: &str| -> Vec<Value> {
        let ports = object.pointer(pointer).unwrap().as_array().unwrap();
        ports.iter().map(|port| port[field].clone()).collect()
    };
    let service = shop.get(SERVICE, "shop");
    assert_eq!(ports(&service, "/spec/ports", "port"), [8080]);
    let deployment = shop.get(DEPLOYMENT, "shop");
    let container = "/spec/template/spec/containers/0/ports";
    assert_eq!(ports(&deployment, container, "containerPort"), [8080]);
}

#[test]
fn tls_that_is_no_longer_wanted_leaves_the_ingress() {
    let shop = namespace("tls");
    let mut spec = web();
    spec["tls"] = json!({"secretName": "shop-tls"});
    shop.settled_app("shop", spec);
    assert_eq!(shop.get(INGRESS, "shop")["spec"]["tls"][0]["secretName"], "shop-tls");
    let asked = cost(&shop, "shop", json!({"tls": null}));
    assert_eq!(shop.get(INGRESS, "shop")["spec"].get("tls"), None);
    assert_eq!(asked, counts(&[("patch ingresses", 2), ("patch appdeploys/status", 1)]));
}
