//! A host belongs to one namespace, and within it a path to one app. An app that serves a host keeps it.

use std::sync::Arc;
use std::thread;

use fault_proxy::Proxy;
use fault_proxy::{Action, Answer, Record, Requests, Rule, RuleId, Verb};
use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, INGRESS, Namespace, OPERATOR, Operator, PATIENCE, Shared, condition, eventually, is_observed, ready,
    text,
};

fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| {
        let flags = ["--allowed-host-suffix", "example.com,example.org"];
        let builder = ControlPlane::builder().controller_manager(&["garbage-collector-controller"]);
        Cluster::start(builder).with_operator(&flags)
    })
}

fn on(host: &str, path: &str) -> Value {
    json!({"image": "nginx", "port": 80, "host": host, "path": path})
}

/// Creates an application that is younger than another one: creation times have whole seconds.
pub(crate) fn younger(namespace: &Namespace, name: &str, than: &Value, spec: Value) -> Value {
    let before: Timestamp = text(than, "/metadata/creationTimestamp").parse().unwrap();
    eventually("a second has passed", || {
        Timestamp::now().as_second() > before.as_second()
    });
    namespace.settled_app(name, spec)
}

fn has_lost(app: &Value) -> bool {
    is_observed(app) && ready(app) == ("False", "HostConflict")
}

#[test]
fn second_namespace_waits_for_the_host_of_the_first() {
    let cluster = cluster();
    let (first, second) = (cluster.namespace("first"), cluster.namespace("second"));
    let host = "shop.example.com";
    let winner = first.settled_app("shop", on(host, "/"));
    first.until_there(INGRESS, "shop");

    let loser = younger(&second, "pirate", &winner, on(host, "/other"));
    assert!(has_lost(&loser), "{loser:#}");
    assert_eq!(
        text(&loser, "/status/cause/message"),
        "shop.example.com is used by an AppDeploy of another namespace, which came first"
    );
    assert_eq!(
        text(&loser, "/status/cause/next"),
        "kubectl appdeploy set host pirate=HOST -n second"
    );
    assert_eq!(loser.pointer("/status/url"), None, "it has no URL");
    assert_eq!(condition(&loser, "Exposed").unwrap()["status"], "False");
    assert_eq!(condition(&loser, "Stalled").unwrap()["status"], "True");
    assert!(second.get(INGRESS, "pirate").is_null());
    assert!(has_lost(&second.get(APP, "pirate")));
    assert_eq!(text(&first.get(APP, "shop"), "/status/url"), "http://shop.example.com/");

    // It is reconciled when the host becomes free, for any reason.
    first.set("shop", json!({"host": "other.example.com"}));
    second.until_there(INGRESS, "pirate");
    second.until(APP, "pirate", "it has the host", |app| {
        !has_lost(app) && is_observed(app)
    });
}

#[test]
fn host_of_a_deleted_app_goes_to_the_waiting_app() {
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
fn app_that_changes_to_a_taken_host_loses_its_ingress() {
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

const GUARD: &str = "example.com/guard";

/// Deletes an app that a finalizer keeps from being removed.
fn delete_guarded(namespace: &Namespace, name: &str) {
    namespace.patch(APP, name, Patch::Merge(json!({"metadata": {"finalizers": [GUARD]}})));
    namespace.delete(APP, name);
}

fn remove_finalizers(namespace: &Namespace, name: &str) {
    namespace.patch(APP, name, Patch::Merge(json!({"metadata": {"finalizers": null}})));
}

/// Creates an app that is already in deletion: an apply that creates an object keeps its deletion timestamp.
fn created_in_deletion(namespace: &Namespace, name: &str, spec: &Value) -> Value {
    let object = json!({
        "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
        "metadata": {"name": name, "finalizers": [GUARD], "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
    });
    let params = PatchParams::apply("tenant");
    let api = namespace.api(APP);
    let created = namespace
        .cluster
        .block_on(api.patch(name, &params, &Patch::Apply(&object)))
        .unwrap();
    let created = serde_json::to_value(created).unwrap();
    assert_ne!(text(&created, "/metadata/deletionTimestamp"), "", "{created:#}");
    created
}

/// Waits until everything that was done before to apps of the namespace is known to the operator: it handles the events of
/// one watch in order.
fn until_known(namespace: &Namespace) {
    namespace.settled_app("witness", json!({"image": "nginx"}));
    namespace.delete(APP, "witness");
}

#[test]
fn app_in_deletion_cannot_take_a_host() {
    let cluster = cluster();
    let (attacker, victim) = (cluster.namespace("attacker"), cluster.namespace("victim"));
    let old = attacker.settled_app("old", on("attacker.example.com", "/"));
    younger(&victim, "shop", &old, on("victim.example.com", "/"));
    let before = victim.until_there(INGRESS, "shop");

    delete_guarded(&attacker, "old");
    attacker.set("old", json!({"host": "victim.example.com"}));
    until_known(&attacker);
    let next = attacker.settled_app("next", on("victim.example.com", "/other"));
    assert!(has_lost(&next), "{next:#}");
    until_known(&victim);
    assert!(!has_lost(&victim.get(APP, "shop")));
    assert_eq!(
        victim.get(INGRESS, "shop")["metadata"]["uid"],
        before["metadata"]["uid"]
    );
    assert!(attacker.get(INGRESS, "next").is_null());
    // Nor does it hold what it gave up: its Ingress still has the first host, and no other one.
    assert_eq!(
        text(&attacker.get(INGRESS, "old"), "/spec/rules/0/host"),
        "attacker.example.com"
    );
    remove_finalizers(&attacker, "old");
}

#[test]
fn app_in_deletion_keeps_the_host_of_its_ingress() {
    let cluster = cluster();
    let (first, second) = (cluster.namespace("lingering"), cluster.namespace("patient"));
    let host = "lingering.example.com";
    let old = first.settled_app("shop", on(host, "/"));
    first.until_there(INGRESS, "shop");
    delete_guarded(&first, "shop");
    // Neither does a change of its spec release the host: its Ingress still serves it.
    first.set("shop", json!({"host": "elsewhere.example.com"}));
    until_known(&first);
    let waiting = younger(&second, "shop", &old, on(host, "/"));
    assert!(has_lost(&waiting), "{waiting:#}");
    assert!(second.get(INGRESS, "shop").is_null());
    remove_finalizers(&first, "shop");
    second.until_there(INGRESS, "shop");
    assert!(first.get(INGRESS, "shop").is_null(), "two namespaces serve one host");
}

#[test]
fn app_created_in_deletion_blocks_no_host() {
    let cluster = cluster();
    let (attacker, victim) = (cluster.namespace("stillborn"), cluster.namespace("unblocked"));
    let old = created_in_deletion(&attacker, "block", &on("wanted.example.com", "/"));
    created_in_deletion(&attacker, "outside", &on("wanted.example.net", "/"));
    until_known(&attacker);
    let app = younger(&victim, "shop", &old, on("wanted.example.com", "/"));
    assert!(!has_lost(&app), "{app:#}");
    victim.until_there(INGRESS, "shop");
    for name in ["block", "outside"] {
        assert!(attacker.get(INGRESS, name).is_null());
        remove_finalizers(&attacker, name);
    }
}

/// Without webhooks nothing keeps an older app from asking for the host of a younger one.
#[test]
fn older_app_cannot_take_a_served_host_by_an_edit() {
    let cluster = cluster();
    let (first, second) = (cluster.namespace("elder"), cluster.namespace("junior"));
    let old = first.settled_app("shop", on("elder.example.com", "/"));
    younger(&second, "shop", &old, on("junior.example.com", "/"));
    let before = second.until_there(INGRESS, "shop");
    first.set("shop", json!({"host": "junior.example.com"}));
    first.until(APP, "shop", "it does not get the host", has_lost);
    until_known(&second);
    assert!(!has_lost(&second.get(APP, "shop")));
    assert_eq!(
        second.get(INGRESS, "shop")["metadata"]["uid"],
        before["metadata"]["uid"]
    );
}

/// An Ingress that a finalizer keeps still serves its host.
#[test]
fn host_is_free_only_when_the_ingress_is_removed() {
    let cluster = cluster();
    let (first, second) = (cluster.namespace("balanced"), cluster.namespace("follower"));
    let host = "balanced.example.com";
    let old = first.settled_app("shop", on(host, "/"));
    first.until_there(INGRESS, "shop");
    first.patch(
        INGRESS,
        "shop",
        Patch::Merge(json!({"metadata": {"finalizers": [GUARD]}})),
    );
    first.delete_with(APP, "shop", &DeleteParams::background());
    first.until_gone(APP, "shop");
    first.until(INGRESS, "shop", "it is being deleted", |ingress| {
        !text(ingress, "/metadata/deletionTimestamp").is_empty()
    });
    let waiting = younger(&second, "shop", &old, on(host, "/"));
    assert!(has_lost(&waiting), "{waiting:#}");
    first.patch(INGRESS, "shop", Patch::Merge(json!({"metadata": {"finalizers": null}})));
    second.until_there(INGRESS, "shop");
    second.until(APP, "shop", "it has the host", |app| is_observed(app) && !has_lost(app));
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
        "family.example.com/api is used by AppDeploy sister, which came first"
    );
}

#[test]
fn host_without_an_allowed_suffix_is_invalid_except_the_default_host() {
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
fn one_of_two_concurrent_apps_gets_the_host() {
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
            let decided = |app: &Value| is_observed(app) && (has_lost(app) || ready(app).1 == "Progressing");
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
    both[0].settle();
    let first = winners();
    operator.terminate();
    let mark = both[0].mark();
    let _operator = cluster.operator(&[]);
    both[0].settle();
    assert_eq!(winners(), first);
    for namespace in &both {
        let asked = namespace.asked_since(mark).that(|request| request.verb != "list");
        assert_eq!(asked.tally(), std::collections::BTreeMap::new());
    }
}

/// What was arbitrated is arbitrated the same way by an operator that has just been started, before it writes.
#[test]
fn hosts_do_not_change_at_a_restart() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let (first, second) = (cluster.namespace("first"), cluster.namespace("second"));
    let operator = cluster.operator(&[]);
    let winner = first.settled_app("shop", on("shop.example.com", "/"));
    younger(&second, "shop", &winner, on("shop.example.com", "/"));
    second.until(APP, "shop", "it has lost", has_lost);
    first.settle();
    operator.terminate();
    let mark = first.mark();
    let _operator = cluster.operator(&[]);
    first.settle();
    for namespace in [&first, &second] {
        let asked = namespace.asked_since(mark).that(|request| request.verb != "list");
        assert_eq!(asked.tally(), std::collections::BTreeMap::new());
    }
}

/// Two namespaces, and an operator that reaches the API server through a proxy.
struct Proxied {
    // Dropped in this order: the operator before the API server.
    _operator: Operator,
    proxy: Proxy,
    first: Namespace,
    second: Namespace,
}

impl Proxied {
    fn start() -> Self {
        let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
        let proxy = Proxy::before(&cluster.control_plane, OPERATOR, &[]).unwrap();
        let operator = cluster.spawn_operator_behind(&proxy, &[]);
        operator.until_ready();
        let (first, second) = (cluster.namespace("first"), cluster.namespace("second"));
        Self {
            _operator: operator,
            proxy,
            first,
            second,
        }
    }

    /// Creates an app in the first namespace whose Ingress is created, but the operator gets no answer and no event. It tries
    /// again after some seconds. Returns the rule that keeps back the events.
    fn lose_answer(&self, host: &str) -> RuleId {
        let watches = Requests::with(&[Verb::Watch]).on("ingresses");
        let frozen = self.proxy.add(Rule::new(watches, Action::FreezeWatches));
        let timeout = Answer::refusal(504, "Timeout", "request did not complete within the allotted timeout");
        let answer = Action::ForwardThenAnswer(timeout.header("Retry-After", "6"));
        let lost = Rule::new(self.requests(Verb::Create), answer).first(1);
        let lost = self.proxy.add(lost);
        self.first.app("shop", on(host, "/"));
        self.proxy.wait_for_hits(PATIENCE, lost, 1).unwrap();
        self.first.until_there(INGRESS, "shop");
        frozen
    }

    fn requests(&self, verb: Verb) -> Requests {
        Requests::with(&[verb]).on("ingresses").in_namespace(&self.first.name)
    }

    /// Returns how often the operator has read the Ingress of the app whose answer was lost.
    fn reads(&self, records: &[Record]) -> usize {
        let reads = self.requests(Verb::Get);
        let is_answered = |record: &&Record| record.told == Some(200) && reads.contain(&record.request);
        records.iter().filter(is_answered).count()
    }
}

/// An app names the default host of another app, which asks for it before the watch has shown the Ingress of the first one.
#[test]
fn ingress_is_read_after_a_lost_answer_before_another_namespace_gets_its_host() {
    let world = Proxied::start();
    world.second.settled_app("shop", on("own.example.com", "/"));
    world.second.until_there(INGRESS, "shop");
    let frozen = world.lose_answer("shop.second");
    world.second.set("shop", json!({"host": null}));
    world
        .second
        .until(APP, "shop", "it waits for its default host", has_lost);
    assert_eq!(
        world.reads(&world.proxy.records()),
        0,
        "the write was tried again before"
    );

    world
        .second
        .until(INGRESS, "shop", "it has its default host", |ingress| {
            text(ingress, "/spec/rules/0/host") == "shop.second"
        });
    let left = world.first.get(INGRESS, "shop");
    assert!(left.is_null(), "two namespaces serve one host: {left:#}");
    assert_eq!(world.reads(&world.proxy.records()), 1);
    world.proxy.remove(frozen);
    world.first.until(APP, "shop", "it has lost the host", has_lost);
}

#[test]
fn ingress_of_a_deleted_app_is_read_after_a_lost_answer() {
    let world = Proxied::start();
    let frozen = world.lose_answer("shop.example.com");
    // No garbage collector runs here, so the Ingress stays.
    world.first.delete(APP, "shop");
    let waiting = world.second.settled_app("shop", on("shop.example.com", "/"));
    assert!(has_lost(&waiting), "{waiting:#}");
    let is_read = |records: &[Record]| world.reads(records) == 1;
    world.proxy.wait_for(PATIENCE, is_read).unwrap();
    until_known(&world.second);
    let early = world.second.get(INGRESS, "shop");
    assert!(early.is_null(), "two namespaces serve one host: {early:#}");
    world.proxy.remove(frozen);
    world.first.delete(INGRESS, "shop");
    world.second.until_there(INGRESS, "shop");
}
