//! The operator as a process: how it starts, ends and restarts, and what it reports.

mod away;
mod installation;
mod token;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use fault_proxy::Proxy;
use fault_proxy::{Action, Requests, Rule, Verb};
use kube::api::Patch;
use serde_json::json;
use testcluster::ControlPlane;
use testcluster::audit::Mark;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, OPERATOR, Operator, PATIENCE, QUIET, SERVICE, Shared, free_address, is_long,
    text, web,
};

fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| Cluster::start(ControlPlane::builder()))
}

/// Makes a namespace with an operator for it alone.
fn stage(name: &str) -> (crate::harness::Namespace, Operator) {
    let cluster = cluster();
    let shop = cluster.namespace(name);
    let operator = cluster.operator(&["--watch-namespace", name]);
    (shop, operator)
}

#[test]
fn idle_operator_ends_immediately() {
    let (shop, operator) = stage("end");
    shop.settled_app("shop", web());
    let (status, took) = operator.terminate();
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(3), "{took:?}");

    let waiting = shop.cluster.spawn_operator(&["--watch-namespace", "end"]);
    waiting.until("/healthz", "it runs", |status, _| status == 200);
    assert_eq!(waiting.terminate().0.code(), Some(0), "also before it is ready");
}

/// P19: shorter than the 30 s after which Kubernetes kills. Remedy: the deadline of each request, and the grace
/// for all of them.
#[test]
fn operator_ends_in_time_although_a_request_gets_no_answer() {
    let cluster = cluster();
    let shop = cluster.namespace("end-hanging");
    let proxy = Proxy::before(&cluster.control_plane, OPERATOR, &[]).unwrap();
    let creates = Requests::with(&[Verb::Create]).on("deployments");
    proxy.add(Rule::new(creates.clone(), Action::Hang));
    let operator = cluster.spawn_operator_behind(&proxy, &["--watch-namespace", "end-hanging"]);
    operator.until_ready();
    shop.app("shop", web());
    proxy
        .wait_for(PATIENCE, |records| {
            records.iter().any(|record| creates.contain(&record.request))
        })
        .unwrap();
    let (status, took) = operator.terminate();
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(25), "{took:?}");
}

#[test]
fn changes_during_a_downtime_are_repaired_at_the_start() {
    let (shop, operator) = stage("away");
    shop.settled_app("shop", web());
    let service = shop.get(SERVICE, "shop");
    operator.terminate();
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "evil"}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(image).unwrap());
    shop.patch(DEPLOYMENT, "shop", patch);
    shop.delete(SERVICE, "shop");
    shop.app("blog", web());
    let _operator = shop.cluster.operator(&["--watch-namespace", "away"]);
    shop.until(DEPLOYMENT, "shop", "the image is restored", |deployment| {
        text(deployment, "/spec/template/spec/containers/0/image") == "nginx:1.27"
    });
    shop.until_back(SERVICE, &service);
    shop.until_reported("blog");
}

/// The name of an Event is made from what it says.
#[test]
fn event_is_not_written_again_after_a_restart() {
    let (shop, operator) = stage("events");
    let mut spec = web();
    spec["resources"] = json!({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}});
    shop.settled_app("shop", spec);
    crate::harness::eventually("an Event reports it", || !shop.events_about("shop").is_empty());
    operator.terminate();
    // As if the former process had ended between the status and its Event.
    let none = json!({"status": {"cause": null, "conditions": null}});
    shop.patch_status(APP, "shop", none["status"].clone());
    let _operator = shop.cluster.operator(&["--watch-namespace", "events"]);
    shop.until(APP, "shop", "the cause is reported", |app| {
        text(app, "/status/cause/reason") == "Rejected"
    });
    std::thread::sleep(QUIET);
    assert_eq!(shop.events_about("shop"), ["Rejected"]);
}

/// Repetitions are counted by this operator and by the next one.
#[test]
fn repeated_event_is_counted() {
    let (shop, operator) = stage("repeated");
    let repeat = || {
        for (limit, reason) in [(1, ""), (2, "Rejected")] {
            shop.set(
                "shop",
                json!({"resources": {"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": limit}}}),
            );
            shop.until(APP, "shop", "the status is about this limit", |app| {
                crate::harness::is_observed(app) && text(app, "/status/cause/reason") == reason
            });
        }
    };
    let event = || {
        let mut events = shop.app_events("shop");
        assert!(events.len() <= 1, "{events:?}");
        events.pop().unwrap_or_default()
    };
    shop.settled_app("shop", web());
    repeat();
    crate::harness::eventually("an Event reports it", || event()["count"] == 1);
    let first = event();
    crate::harness::eventually("it is counted", || {
        repeat();
        event()["count"].as_i64() > Some(1)
    });
    operator.terminate();
    let before = event();
    let _operator = shop.cluster.operator(&["--watch-namespace", "repeated"]);
    repeat();
    crate::harness::eventually("it is counted by another operator", || {
        event()["count"].as_i64() > before["count"].as_i64()
    });
    let last = event();
    assert_eq!(last["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(last["firstTimestamp"], first["firstTimestamp"]);
    assert!(text(&last, "/lastTimestamp") > text(&first, "/lastTimestamp"), "{last}");
}

/// A1 to A3, A9: the next operator continues after each kill, and nothing is created twice. A kill every dozen writes.
#[test]
fn operator_may_be_killed_at_any_time() {
    let cluster = cluster();
    let shop = cluster.namespace("killed");
    let rounds = if is_long() { 20 } else { 4 };
    let names: Vec<String> = (0..rounds * 5).map(|n| format!("shop-{n}")).collect();
    for name in &names {
        shop.app(name, web());
    }
    let mark = shop.mark();
    let audit = cluster.control_plane.audit();
    for round in 1..=rounds {
        let operator = cluster.spawn_operator(&["--watch-namespace", "killed", "--concurrency", "2"]);
        audit
            .wait_for(mark, PATIENCE, |asked| {
                asked.clone().in_namespace("killed").writes().count() > round * 12
            })
            .unwrap();
        operator.kill();
    }
    let _operator = cluster.operator(&["--watch-namespace", "killed"]);
    for name in &names {
        shop.until_reported(name);
        for kind in [DEPLOYMENT, SERVICE, INGRESS] {
            shop.until_there(kind, name);
        }
    }
    assert_eq!(created_again(&shop, mark), [""; 0]);
    assert_eq!(
        shop.asked_since(mark).that(|request| request.verb == "delete").count(),
        0
    );

    // The log does show a child that is created again.
    let before = shop.get(SERVICE, &names[0]);
    shop.delete(SERVICE, &names[0]);
    shop.until_back(SERVICE, &before);
    assert_eq!(created_again(&shop, mark), [format!("services {}", names[0])]);
}

/// Returns what was created more than once, which an operator with fixed names only does after a deletion. A create whose
/// operator was killed before the answer came has no code in the log.
fn created_again(space: &crate::harness::Namespace, mark: Mark) -> Vec<String> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    let creates = space
        .asked_since(mark)
        .that(|request| request.verb == "create" && request.code == 201 && request.resource != "events");
    for create in &creates {
        *count.entry(format!("{} {}", create.resource, create.name)).or_default() += 1;
    }
    count.retain(|_, count| *count > 1);
    count.into_keys().collect()
}

#[test]
fn metrics_count_requests_and_reconciles() {
    let (shop, operator) = stage("metrics");
    shop.settled_app("shop", web());
    let body = operator.until("/metrics", "the reconcile has ended", |_, body| {
        !body.contains("controller_runtime_reconcile_total{controller=\"appdeploy\",result=\"success\"} 0")
            // The watch event of the status may arrive before the answer, and causes a reconcile then.
            && body.contains("workqueue_depth{name=\"appdeploy\"} 0")
            && body.contains("controller_runtime_active_workers{controller=\"appdeploy\"} 0")
    });
    for line in [
        "appdeploy_requests_total{verb=\"create\",resource=\"deployments\"} 1",
        "appdeploy_requests_total{verb=\"create\",resource=\"services\"} 1",
        "appdeploy_requests_total{verb=\"create\",resource=\"ingresses\"} 1",
        "appdeploy_requests_total{verb=\"patch\",resource=\"appdeploys/status\"} 1",
        "appdeploy_watch_synced{resource=\"appdeploys\"} 1",
        "appdeploy_watch_failing{resource=\"appdeploys\"} 0",
        "appdeploy_cached_objects{resource=\"deployments\"} 1",
        "workqueue_depth{name=\"podset\"} 0",
        "controller_runtime_reconcile_errors_total{controller=\"appdeploy\"} 0",
    ] {
        assert!(body.contains(line), "{line} is not in\n{body}");
    }
}

#[test]
fn log_level_can_be_changed_while_running() {
    let (_shop, operator) = stage("log");
    assert_eq!(operator.debug("PUT", "/log-level", "warn"), (200, "warn\n".to_owned()));
    assert_eq!(operator.debug("GET", "/log-level", ""), (200, "warn\n".to_owned()));
    let (status, said) = operator.debug("PUT", "/log-level", "operator=loud");
    assert_eq!(status, 400);
    assert!(said.starts_with("invalid log filter \"operator=loud\": "), "{said}");
    assert_eq!(
        operator.debug("GET", "/log-level", "").1,
        "warn\n",
        "the old one stays in force"
    );
    // Probes are for the network, changes for this machine alone.
    assert_eq!(operator.get("/log-level").0, 404);
}

#[test]
fn given_namespaces_are_managed() {
    let cluster = cluster();
    let [one, two, other] = ["scope-one", "scope-two", "scope-other"].map(|name| cluster.namespace(name));
    other.app("shop", web());
    let mark = one.mark();
    let operator = cluster.operator(&["--watch-namespace", "scope-one,scope-two"]);
    for shop in [&one, &two] {
        shop.settled_app("shop", web());
        let before = shop.get(DEPLOYMENT, "shop");
        shop.delete(DEPLOYMENT, "shop");
        shop.until_back(DEPLOYMENT, &before);
    }
    assert_eq!(other.get(APP, "shop").get("status"), None);
    let resources = ["appdeploys", "podsets", "deployments", "services", "ingresses", "pods"];
    let asked = cluster.control_plane.audit().since(mark).unwrap();
    let everywhere = asked
        .by_user_agent_prefix("appdeploy-operator/")
        .that(|request| request.namespace.is_empty() && resources.contains(&request.resource.as_str()))
        // Of this operator: others run concurrently.
        .that(|request| request.user == OPERATOR);
    assert_eq!(everywhere.count(), 0, "{:?}", everywhere.tally());
    assert!(operator.is_running());
}

#[test]
fn port_in_use_is_reported_in_one_line() {
    let cluster = cluster();
    let bind = free_address();
    let _taken = TcpListener::bind(bind).unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig_for(OPERATOR, &[]).unwrap();
    let operator = Operator::spawn_on(cluster.control_plane.folder(), &kubeconfig, bind, &[]);
    assert_eq!(operator.until_ended().code(), Some(1));
    let line =
        format!("error: can't listen on {bind}; set --bind to a free address: Address already in use (os error 98)");
    assert_eq!(operator.log().trim_end(), line);
}

#[test]
fn invalid_kubeconfig_is_reported_in_one_line() {
    let cluster = cluster();
    let missing = cluster.control_plane.folder().join("missing.kubeconfig");
    let operator = Operator::spawn(cluster.control_plane.folder(), &missing, &[]);
    assert_eq!(operator.until_ended().code(), Some(1));
    let log = operator.log();
    assert!(
        log.starts_with(&format!("error: the kubeconfig {} can't be used: ", missing.display())),
        "{log}"
    );
    assert_eq!(log.trim_end().lines().count(), 1, "{log}");
}
