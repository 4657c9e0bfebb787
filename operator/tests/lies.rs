//! The operator against an API server and a network that behave as they do on a bad day.
//!
//! A proxy stands before the real API server and does what a test scripts. Each test names the pitfall that it
//! guards, and the remedy without which it fails.

#![expect(clippy::unwrap_used, reason = "clippy takes what tests share for code")]

#[path = "harness/harness.rs"]
mod harness;

use std::time::{Duration, Instant};

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::proxy::{Action, Answer, Events, Record, Requests, Rule, Verb};
use testcluster::{ControlPlane, Proxy};

use harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, Kind, Namespace, OPERATOR, Operator, PATIENCE, QUIET, SERVICE, Shared, ready,
    text, told, uid, web,
};

/// A namespace, and an operator for it alone that sees the API server through a proxy.
struct Stage {
    // Dropped in this order: the operator while there is somebody to talk to.
    operator: Operator,
    proxy: Proxy,
    shop: Namespace,
}

fn cluster() -> std::sync::Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| Cluster::start(ControlPlane::builder()))
}

impl Stage {
    fn new(name: &str) -> Self {
        let stage = Self::scripted(name, &[], |_| {});
        stage.operator.until_ready();
        stage
    }

    /// Starts an operator that is lied to from the start.
    fn scripted(name: &str, flags: &[&str], script: impl FnOnce(&Proxy)) -> Self {
        let cluster = cluster();
        let shop = cluster.namespace(name);
        let proxy = cluster.control_plane.proxy(OPERATOR, &[]).unwrap();
        script(&proxy);
        let flags: Vec<&str> = ["--watch-namespace", name].iter().chain(flags).copied().collect();
        let operator = cluster.spawn_operator_behind(&proxy, &flags);
        Self { operator, proxy, shop }
    }

    /// Waits for requests that came after the first `since`.
    fn until_asked(&self, since: usize, wanted: &Requests, count: usize) -> Vec<Record> {
        let enough = |records: &[Record]| of(&records[since..], wanted).len() >= count;
        of(&self.proxy.wait_for(PATIENCE, enough).unwrap()[since..], wanted)
    }

    fn asked(&self) -> usize {
        self.proxy.records().len()
    }

    /// Breaks the watch of a kind, and lets no new one begin before `meanwhile` is done. Then each that begins
    /// is answered so, until the operator lists the kind anew.
    fn lose_place(&self, kind: Kind, answer: Answer, meanwhile: impl FnOnce()) {
        let watches = watches(kind);
        let deaf = self.proxy.add(Rule::new(watches.clone(), Action::Disconnect));
        assert_eq!(self.proxy.cut_watches(&watches), 1);
        meanwhile();
        let since = self.asked();
        let lost = self.proxy.add(Rule::new(watches, Action::Answer(answer)));
        self.proxy.remove(deaf);
        self.until_asked(since, &Requests::with(&[Verb::List]).on(kind.plural()), 1);
        self.proxy.remove(lost);
    }
}

fn of(records: &[Record], wanted: &Requests) -> Vec<Record> {
    records
        .iter()
        .filter(|record| wanted.contain(&record.request))
        .cloned()
        .collect()
}

fn watches(kind: Kind) -> Requests {
    Requests::with(&[Verb::Watch]).on(kind.plural())
}

fn creates(kind: Kind) -> Requests {
    Requests::with(&[Verb::Create]).on(kind.plural())
}

/// The Status with which the API server says that it has forgotten a place in its stream.
fn expired() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired",
        "message": "too old resource version", "code": 410})
}

/// P1. Remedy: after a list, the cache says what is missing from it (`Cache::retain`), and that wakes the owner.
#[test]
fn a_child_that_vanished_while_the_watch_was_lost_comes_back() {
    let stage = Stage::new("vanished");
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(DEPLOYMENT, "shop");
    let event = json!({"type": "ERROR", "object": expired()});
    stage.lose_place(DEPLOYMENT, Answer::new(200, format!("{event}\n")), || {
        stage.shop.delete(DEPLOYMENT, "shop");
    });
    stage.shop.until_back(DEPLOYMENT, &before);
}

/// What no watch ever tells is found by the list that is made from time to time.
#[test]
fn a_deletion_that_is_never_told_is_found_by_the_timed_resync() {
    let stage = Stage::scripted("untold", &["--resync-period", "5s"], |_| {});
    stage.operator.until_ready();
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(SERVICE, "shop");
    let deleted = Action::HideEvents(Events::of_type("DELETED").named("shop"));
    stage.proxy.add(Rule::new(watches(SERVICE), deleted));
    stage.shop.delete(SERVICE, "shop");
    stage.shop.until_back(SERVICE, &before);
}

/// A drift that no watch tells is found by the same list.
#[test]
fn a_drift_that_is_never_told_is_found_by_the_timed_resync() {
    let stage = Stage::scripted("untold-drift", &["--resync-period", "5s"], |_| {});
    stage.operator.until_ready();
    stage.shop.settled_app("shop", web());
    let modified = Action::HideEvents(Events::of_type("MODIFIED").named("shop"));
    stage.proxy.add(Rule::new(watches(INGRESS), modified));
    let host = json!([{"op": "replace", "path": "/spec/rules/0/host", "value": "evil.example.com"}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(host).unwrap());
    stage.shop.patch(INGRESS, "shop", patch);
    stage.shop.until(INGRESS, "shop", "the host is restored", |ingress| {
        text(ingress, "/spec/rules/0/host") == "shop.untold-drift"
    });
}

/// P3. kube would ask for the same place for ever. Remedy: `has_lost_its_place` begins anew with a list.
#[test]
fn a_watch_that_is_answered_410_is_begun_anew_with_a_list() {
    let stage = Stage::new("gone");
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(SERVICE, "shop");
    stage.lose_place(SERVICE, Answer::new(410, expired().to_string()), || {
        stage.shop.delete(SERVICE, "shop");
    });
    stage.shop.until_back(SERVICE, &before);
}

/// P25. Remedy: as for P3, where the answer says 200 and its body has no envelope.
#[test]
fn a_bare_status_that_says_410_is_a_lost_place_too() {
    let stage = Stage::new("bare-gone");
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(SERVICE, "shop");
    stage.lose_place(SERVICE, Answer::new(200, format!("{}\n", expired())), || {
        stage.shop.delete(SERVICE, "shop");
    });
    stage.shop.until_back(SERVICE, &before);
}

/// P25. Remedy: what a watch can't read is an error of this watch, which is begun again after a backoff.
#[test]
fn nonsense_on_a_watch_is_survived() {
    for (name, body) in [
        (
            "bare",
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcd is busy","code":500}"#,
        ),
        ("nonsense", "<html>502 Bad Gateway</html>"),
        ("empty", ""),
    ] {
        let stage = Stage::new(name);
        stage.shop.settled_app("shop", web());
        let before = stage.shop.get(SERVICE, "shop");
        let since = stage.asked();
        let answer = Action::Answer(Answer::new(200, format!("{body}\n")));
        let rule = stage.proxy.add(Rule::new(watches(SERVICE), answer));
        assert_eq!(stage.proxy.cut_watches(&watches(SERVICE)), 1);
        stage.shop.delete(SERVICE, "shop");
        stage.until_asked(since, &watches(SERVICE), 2);
        stage.proxy.remove(rule);
        stage.shop.until_back(SERVICE, &before);
    }
}

/// P4. Remedy: the deadline around every call (`perform::call`); concurrency for the others.
#[test]
fn a_request_that_is_never_answered_holds_up_its_app_for_a_deadline_and_no_other() {
    let stage = Stage::new("hang");
    stage.proxy.add(Rule::new(creates(SERVICE), Action::Hang).first(1));
    stage.shop.app("stuck", web());
    stage.until_asked(0, &creates(SERVICE), 1);
    stage.shop.settled_app("other", web());
    let meanwhile = stage.shop.get(SERVICE, "stuck");
    assert!(meanwhile.is_null(), "the other one was not held up by this one");

    stage.shop.until_there(SERVICE, "stuck");
    let asked = stage.until_asked(0, &creates(SERVICE), 3);
    let waited = asked[2].at - asked[0].at;
    assert!(
        waited >= Duration::from_secs(9),
        "{waited:?}: it hung for as long as its deadline"
    );
    assert!(waited < Duration::from_secs(20), "{waited:?}");
}

/// P5. Remedy: no retry in the client, which would repeat the POST at once; and a name that makes the repeated
/// POST a conflict, after which one GET tells that the object is ours.
#[test]
fn a_create_that_was_done_although_it_was_said_to_fail_is_not_done_twice() {
    let timeout = Answer::refusal(504, "Timeout", "request did not complete within the allotted timeout");
    for (name, lie) in [
        ("timeout", Action::ForwardThenAnswer(timeout)),
        ("cut", Action::ForwardThenDisconnect),
    ] {
        let stage = Stage::new(name);
        // Else the watch would tell of the object before the next try.
        let deaf = stage.proxy.add(Rule::new(watches(DEPLOYMENT), Action::FreezeWatches));
        stage.proxy.add(Rule::new(creates(DEPLOYMENT), lie).first(1));
        let app = stage.shop.settled_app("shop", web());
        let posts = of(&stage.proxy.records(), &creates(DEPLOYMENT));
        let statuses: Vec<Option<u16>> = posts.iter().map(|post| post.status).collect();
        assert_eq!(statuses, [Some(201), Some(409)], "{name}");
        let wait = posts[1].at - posts[0].at;
        assert!(
            wait >= Duration::from_millis(200),
            "{name}: tried again after {wait:?}, without a backoff"
        );
        let gets = Requests::with(&[Verb::Get]).on("deployments");
        assert_eq!(of(&stage.proxy.records(), &gets).len(), 1, "{name}");
        assert_ne!(ready(&app).1, "NameConflict", "{name}: it is our own");
        stage.proxy.remove(deaf);
    }
}

/// P5. Remedy: the operator's own backoff, not the day that the server asks for.
#[test]
fn a_server_that_asks_to_come_back_tomorrow_is_asked_again_soon() {
    let tomorrow = Answer::refusal(429, "TooManyRequests", "too many requests").header("Retry-After", "86400");
    let stage = Stage::scripted("tomorrow", &[], |proxy| {
        proxy.add(Rule::new(creates(SERVICE), Action::Answer(tomorrow)).first(2));
    });
    stage.shop.settled_app("shop", web());
    let posts = of(&stage.proxy.records(), &creates(SERVICE));
    let told: Vec<Option<u16>> = posts.iter().map(|post| post.told).collect();
    assert_eq!(told, [Some(429), Some(429), Some(201)]);
    let waited = posts[2].at - posts[0].at;
    assert!(waited >= Duration::from_millis(200), "{waited:?}: without a backoff");
    assert!(waited < Duration::from_secs(5), "{waited:?}");
}

/// P7. Remedy: each kind has a watch and a backoff of its own, and what can't be seen holds up only itself
/// (`Health::settled`, `Sight::Blind`).
#[test]
fn a_kind_that_may_not_be_read_holds_up_no_other() {
    let mut rule = None;
    let stage = Stage::scripted("forbidden", &[], |proxy| {
        let reads = Requests::with(&[Verb::List, Verb::Watch]).on("ingresses");
        let forbidden = Answer::refusal(403, "Forbidden", "ingresses is forbidden: says the proxy");
        rule = Some(proxy.add(Rule::new(reads, Action::Answer(forbidden))));
    });
    let ingresses_alone = "ingresses: ingresses is forbidden: says the proxy\n";
    stage
        .operator
        .until("/readyz", "it says what it lacks", |status, body| {
            status == 503 && body == ingresses_alone
        });

    stage.shop.settled_app("worker", json!({"image": "busybox"}));
    let before = stage.shop.get(DEPLOYMENT, "worker");
    stage.shop.delete(DEPLOYMENT, "worker");
    stage.shop.until_back(DEPLOYMENT, &before);
    let app = stage.shop.settled_app("shop", web());
    assert_eq!(ready(&app), ("False", "WatchFailed"));
    assert!(!stage.shop.get(SERVICE, "shop").is_null());
    assert!(stage.shop.get(INGRESS, "shop").is_null(), "nothing is written blindly");

    stage.proxy.remove(rule.unwrap());
    stage.shop.until_there(INGRESS, "shop");
    stage.operator.until_ready();
    stage.shop.until(APP, "shop", "nothing is amiss any more", |app| {
        ready(app).1 == "Progressing"
    });
}

/// P8. Remedy: a child is known by its name and the UID of its controller, not by the controller's apiVersion;
/// a reference in another version is rewritten.
#[test]
fn a_child_whose_owner_reference_has_another_version_is_still_ours() {
    let stage = Stage::new("version");
    let app = stage.shop.settled_app("shop", web());
    let older = json!([
        {"op": "replace", "path": "/metadata/ownerReferences/0/apiVersion", "value": "appdeploy.dev/v1alpha0"},
        {"op": "replace", "path": "/spec/replicas", "value": 5}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(older).unwrap());
    stage.shop.patch(DEPLOYMENT, "shop", patch);
    let restored = stage
        .shop
        .until(DEPLOYMENT, "shop", "it is restored", |it| it["spec"]["replicas"] == 1);
    let owner = &restored["metadata"]["ownerReferences"];
    assert_eq!(owner.as_array().unwrap().len(), 1);
    assert_eq!(text(&owner[0], "/apiVersion"), "appdeploy.dev/v1alpha1");
    assert_eq!(text(&owner[0], "/uid"), uid(&app));
}

/// P12, P20. Remedies: lists ask for the newest state, never for what a cache may have; watches of children
/// select by label, so that the pods of a whole cluster don't have to be kept.
#[test]
fn lists_are_fresh_and_of_our_own_objects() {
    let stage = Stage::new("lists");
    let lists = of(&stage.proxy.records(), &Requests::with(&[Verb::List]));
    assert_eq!(lists.len(), 6);
    for list in lists {
        let request = list.request;
        assert!(!request.query.contains("resourceVersion"), "{request:?}");
        let ours = match request.resource.as_str() {
            "appdeploys" | "ingressclasses" => true,
            "pods" => request.query.contains("labelSelector=appdeploy.dev%2Fapp"),
            _ => request
                .query
                .contains("labelSelector=app.kubernetes.io%2Fmanaged-by%3Dappdeploy"),
        };
        assert!(ours, "{request:?}");
    }
}

/// P24. Remedy: the UID among the preconditions of every delete.
#[test]
fn a_delete_that_comes_late_does_not_hit_a_namesake() {
    let stage = Stage::new("late-delete");
    stage.shop.settled_app("shop", web());
    let deletes = Requests::with(&[Verb::Delete]).on("services");
    stage
        .proxy
        .add(Rule::new(deletes.clone(), Action::Delay(QUIET)).first(1));
    stage.shop.set("shop", json!({"port": null}));
    stage.until_asked(0, &deletes, 1);
    let namesake = replace_with_a_namesake(&stage.shop);
    let answered = |records: &[Record]| of(records, &deletes).iter().any(|delete| delete.told.is_some());
    let records = stage.proxy.wait_for(PATIENCE, answered).unwrap();
    assert_eq!(of(&records, &deletes)[0].told, Some(409));
    assert_eq!(stage.shop.bytes(SERVICE, "shop"), namesake);
}

/// P6, F4. Remedy: the UID in every apply; without it, a forced apply would take over what it finds.
#[test]
fn an_apply_that_comes_late_does_not_hit_a_namesake() {
    let stage = Stage::new("late-apply");
    stage.shop.settled_app("shop", web());
    let applies = Requests::with(&[Verb::Patch])
        .on("services")
        .with_uri_containing("force=true");
    stage
        .proxy
        .add(Rule::new(applies.clone(), Action::Delay(QUIET)).first(1));
    stage.shop.set("shop", json!({"port": 8080}));
    stage.until_asked(0, &applies, 1);
    let namesake = replace_with_a_namesake(&stage.shop);
    let conflict = |app: &Value| told(app) && ready(app).1 == "NameConflict";
    stage.shop.until(APP, "shop", "it tells of the conflict", conflict);
    assert_eq!(stage.shop.bytes(SERVICE, "shop"), namesake);
}

/// P6. As above, where the name is free when the apply arrives: it must not create either.
#[test]
fn an_apply_that_comes_late_does_not_bring_back_what_was_deleted() {
    let stage = Stage::new("late-revival");
    stage.shop.settled_app("shop", web());
    let applies = Requests::with(&[Verb::Patch])
        .on("services")
        .with_uri_containing("force=true");
    stage
        .proxy
        .add(Rule::new(applies.clone(), Action::Delay(QUIET)).first(1));
    stage.shop.set("shop", json!({"port": 8080}));
    stage.until_asked(0, &applies, 1);
    // The watch tells of it, but the application is being worked on.
    stage.shop.delete(SERVICE, "shop");
    let answered = |records: &[Record]| of(records, &applies).iter().any(|apply| apply.told.is_some());
    let records = stage.proxy.wait_for(PATIENCE, answered).unwrap();
    assert_eq!(of(&records, &applies)[0].told, Some(409));
    stage.shop.until(SERVICE, "shop", "it is made anew", |it| {
        it["spec"]["ports"][0]["port"] == 8080
    });
}

/// Deletes the Service and makes another one of the same name; returns it as bytes.
fn replace_with_a_namesake(shop: &Namespace) -> String {
    shop.delete(SERVICE, "shop");
    shop.create(
        SERVICE,
        json!({"metadata": {"name": "shop"}, "spec": {"ports": [{"port": 9000}]}}),
    );
    shop.bytes(SERVICE, "shop")
}

/// B4: nothing says that the server is gone. Remedy: the read timeout, which no healthy watch ever reaches.
#[test]
#[ignore = "takes two minutes: cargo test -p operator --test lies -- --ignored"]
fn a_watch_that_is_silent_is_given_up() {
    let stage = Stage::new("silent");
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(DEPLOYMENT, "shop");
    let since = stage.asked();
    let started = Instant::now();
    stage.proxy.add(Rule::new(watches(DEPLOYMENT), Action::FreezeWatches));
    stage.shop.delete(DEPLOYMENT, "shop");
    let again = Requests::with(&[Verb::List, Verb::Watch]).on("deployments");
    let patience = Duration::from_secs(150);
    let asked = |records: &[Record]| !of(&records[since..], &again).is_empty();
    stage.proxy.wait_for(patience, asked).unwrap();
    assert!(
        started.elapsed() >= Duration::from_secs(60),
        "a bookmark a minute is no silence"
    );
    stage.proxy.clear();
    stage.shop.until_back(DEPLOYMENT, &before);
}
