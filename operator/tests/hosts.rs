//! A host belongs to one namespace, and within it a path to one application: the oldest that claims it.

#![expect(clippy::unwrap_used, reason = "clippy takes what tests share for code")]

#[path = "harness/harness.rs"]
mod harness;

use std::sync::Arc;
use std::thread;

use jiff::Timestamp;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use harness::{APP, Cluster, INGRESS, Namespace, QUIET, Shared, condition, eventually, ready, text, told};

fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| {
        let flags = ["--allowed-host-suffix", "example.com,example.org"];
        Cluster::start(ControlPlane::builder()).with_operator(&flags)
    })
}

fn on(host: &str, path: &str) -> Value {
    json!({"image": "nginx", "port": 80, "host": host, "path": path})
}

/// Creates an application that is younger than another one: creation times have whole seconds.
fn younger(namespace: &Namespace, name: &str, than: &Value, spec: Value) -> Value {
    let before: Timestamp = text(than, "/metadata/creationTimestamp").parse().unwrap();
    eventually("a second has passed", || {
        Timestamp::now().as_second() > before.as_second()
    });
    namespace.settled_app(name, spec)
}

fn has_lost(app: &Value) -> bool {
    told(app) && ready(app) == ("False", "HostConflict")
}

#[test]
fn the_second_namespace_waits_for_the_host_of_the_first() {
    let cluster = cluster();
    let (first, second) = (cluster.namespace("first"), cluster.namespace("second"));
    let host = "shop.example.com";
    let winner = first.settled_app("shop", on(host, "/"));
    first.until_there(INGRESS, "shop");

    let loser = younger(&second, "pirate", &winner, on(host, "/other"));
    assert!(has_lost(&loser), "{loser:#}");
    assert_eq!(
        text(&loser, "/status/cause/message"),
        "shop.example.com is answered for by an AppDeploy of another namespace, which is older"
    );
    assert_eq!(
        text(&loser, "/status/cause/next"),
        "kubectl appdeploy set host pirate HOST -n second"
    );
    assert_eq!(loser.pointer("/status/url"), None, "it answers nowhere");
    assert_eq!(condition(&loser, "Exposed").unwrap()["status"], "False");
    assert_eq!(condition(&loser, "Stalled").unwrap()["status"], "True");
    assert!(second.get(INGRESS, "pirate").is_null());
    assert!(has_lost(&second.get(APP, "pirate")));
    assert_eq!(text(&first.get(APP, "shop"), "/status/url"), "http://shop.example.com/");

    // It is told when the host becomes free, whichever way.
    first.set("shop", json!({"host": "other.example.com"}));
    second.until_there(INGRESS, "pirate");
    second.until(APP, "pirate", "it has the host", |app| !has_lost(app) && told(app));
}

#[test]
fn a_host_that_becomes_free_by_a_deletion_is_taken_over() {
    let cluster = cluster();
    let (first, second) = (cluster.namespace("leaver"), cluster.namespace("heir"));
    let host = "inherited.example.com";
    let winner = first.settled_app("shop", on(host, "/"));
    younger(&second, "shop", &winner, on(host, "/"));
    second.until(APP, "shop", "it has lost", has_lost);
    first.delete(APP, "shop");
    second.until_there(INGRESS, "shop");
}

#[test]
fn who_takes_a_host_by_an_edit_loses_its_ingress() {
    let cluster = cluster();
    let (first, second) = (cluster.namespace("settler"), cluster.namespace("mover"));
    let winner = first.settled_app("shop", on("settled.example.com", "/"));
    younger(&second, "shop", &winner, on("mover.example.org", "/"));
    second.until_there(INGRESS, "shop");
    second.set("shop", json!({"host": "settled.example.com"}));
    second.until(APP, "shop", "it has lost", has_lost);
    second.until_gone(INGRESS, "shop");
    assert_eq!(
        text(&first.get(INGRESS, "shop"), "/spec/rules/0/host"),
        "settled.example.com"
    );
}

#[test]
fn within_a_namespace_a_host_is_shared_by_path() {
    let namespace = cluster().namespace("family");
    let host = "family.example.com";
    let eldest = namespace.settled_app("eldest", on(host, "/"));
    let sister = younger(&namespace, "sister", &eldest, on(host, "/api"));
    assert!(!has_lost(&sister), "{sister:#}");
    namespace.until_there(INGRESS, "sister");
    let twin = younger(&namespace, "twin", &sister, on(host, "/api"));
    assert!(has_lost(&twin));
    assert_eq!(
        text(&twin, "/status/cause/message"),
        "family.example.com/api is answered for by AppDeploy sister, which is older"
    );
}

#[test]
fn a_host_outside_of_what_is_allowed_is_invalid_and_the_default_host_is_not() {
    let namespace = cluster().namespace("allowed");
    let refused = namespace.settled_app("shop", on("shop.example.net", "/"));
    assert_eq!(ready(&refused), ("False", "InvalidSpec"));
    assert_eq!(
        text(&refused, "/status/cause/message"),
        "spec.host: shop.example.net is not allowed in this cluster; use a host that ends with example.com or example.org"
    );
    namespace.settled_app("plain", json!({"image": "nginx", "port": 80}));
    namespace.until_there(INGRESS, "plain");
}

/// F7: two namespaces want a hundred hosts at the same moment.
#[test]
fn of_two_at_the_same_moment_one_has_the_host() {
    const HOSTS: usize = 100;
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let both = [cluster.namespace("left"), cluster.namespace("right")];
    let operator = cluster.operator(&[]);
    thread::scope(|scope| {
        for namespace in &both {
            scope.spawn(move || {
                for number in 0..HOSTS {
                    namespace.app(&format!("shop-{number}"), on(&format!("{number}.example.com"), "/"));
                }
            });
        }
    });
    let winners = || -> Vec<String> {
        let of = |number: usize| {
            let name = format!("shop-{number}");
            let decided = |app: &Value| told(app) && (has_lost(app) || ready(app).1 == "Progressing");
            let apps = both
                .each_ref()
                .map(|space| space.until(APP, &name, "it is decided", decided));
            let lost = apps.each_ref().map(has_lost);
            assert!(lost[0] != lost[1], "{name}: {apps:#?}");
            let winner = usize::from(lost[0]);
            both[winner].until_there(INGRESS, &name);
            both[1 - winner].until_gone(INGRESS, &name);
            both[winner].name.clone()
        };
        (0..HOSTS).map(of).collect()
    };
    thread::sleep(QUIET);
    let first = winners();
    operator.terminate();
    let mark = both[0].mark();
    let _operator = cluster.operator(&[]);
    thread::sleep(QUIET);
    assert_eq!(winners(), first);
    for namespace in &both {
        let asked = namespace.asked_since(mark).that(|request| request.verb != "list");
        assert_eq!(asked.tally(), std::collections::BTreeMap::new());
    }
}

/// What was arbitrated is arbitrated the same way by an operator that has just been started, before it writes.
#[test]
fn a_restart_changes_nothing() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let (first, second) = (cluster.namespace("first"), cluster.namespace("second"));
    let operator = cluster.operator(&[]);
    let winner = first.settled_app("shop", on("shop.example.com", "/"));
    younger(&second, "shop", &winner, on("shop.example.com", "/"));
    second.until(APP, "shop", "it has lost", has_lost);
    std::thread::sleep(QUIET);
    operator.terminate();
    let mark = first.mark();
    let _operator = cluster.operator(&[]);
    std::thread::sleep(QUIET);
    for namespace in [&first, &second] {
        let asked = namespace.asked_since(mark).that(|request| request.verb != "list");
        assert_eq!(asked.tally(), std::collections::BTreeMap::new());
    }
}
