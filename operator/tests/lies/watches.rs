//! Watches that break, stall, lose their place or keep something back.

use std::time::{Duration, Instant};

use fault_proxy::{Action, Answer, Events, Record, Requests, Rule, Verb};
use kube::api::Patch;
use serde_json::{Value, json};

use crate::harness::{APP, DEPLOYMENT, INGRESS, PATIENCE, POD, PODSET, SERVICE, ready, text, uid, web};
use crate::lies::{Stage, cluster, expired, lists, of, watches};

/// P1. Remedy: after a list, the cache says what is missing from it (`Cache::retain`), and that wakes the owner.
#[test]
fn child_deleted_during_an_outage_of_the_watch_is_recreated() {
    let stage = Stage::new("vanished");
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(DEPLOYMENT, "shop");
    let event = json!({"type": "ERROR", "object": expired()});
    stage.expire_position(DEPLOYMENT, Answer::new(200, format!("{event}\n")), || {
        stage.shop.delete(DEPLOYMENT, "shop");
    });
    stage.shop.until_back(DEPLOYMENT, &before);
}

/// After a restart, a user's new app must not wait until all children in the cluster were listed. An app that existed before waits: its
/// children may not be listed yet.
#[test]
fn new_app_does_not_wait_for_the_lists_of_its_children() {
    let stage = Stage::new("early");
    stage.shop.settled_app("shop", web());
    stage.operator.terminate();
    let since = stage.asked();
    let stalled = [DEPLOYMENT, SERVICE].map(|kind| stage.proxy.add(Rule::new(lists(kind), Action::StallAnswer)));
    let second = cluster().spawn_operator_behind(&stage.proxy, &["--watch-namespace", "early"]);
    stage.until_asked(since, &lists(DEPLOYMENT), 1);
    stage.shop.set("shop", json!({"image": "nginx:1.28"}));
    stage.shop.app("blog", web());
    let blog = stage.shop.until_reported("blog");
    for kind in [DEPLOYMENT, SERVICE, INGRESS] {
        let owner = stage.shop.until_there(kind, "blog")["metadata"]["ownerReferences"][0]["uid"].clone();
        assert_eq!(owner, blog["metadata"]["uid"]);
    }
    let writes = of(&stage.proxy.records()[since..], &Requests::writes());
    assert!(writes.iter().all(|write| write.request.name != "shop"), "{writes:#?}");
    for rule in stalled {
        stage.proxy.remove(rule);
    }
    let image = |child: &Value| text(child, "/spec/template/spec/containers/0/image") == "nginx:1.28";
    stage.shop.until(DEPLOYMENT, "shop", "it has the new image", image);
    second.until_ready();
    stage.shop.settle();
    let creates = of(
        &stage.proxy.records()[since..],
        &Requests::with(&[Verb::Create]).named("blog"),
    );
    assert!(creates.iter().all(|create| create.status == Some(201)), "{creates:#?}");
}

/// What a new app waits for is listed before the rest.
#[test]
fn hosts_are_listed_before_other_children() {
    let stage = Stage::new("first");
    stage.operator.until_ready();
    let records = stage.proxy.records();
    let first = |kind| {
        let begins = |record: &Record| lists(kind).contain(&record.request);
        records.iter().position(begins).unwrap()
    };
    assert!(first(INGRESS) < first(DEPLOYMENT).min(first(SERVICE)), "{records:#?}");
}

/// Changes that no watch reports are found by the periodic list.
#[test]
fn deletion_that_is_never_reported_is_found_by_the_resync() {
    let stage = Stage::scripted("untold", &["--resync-period", "5s"], |_| {});
    stage.operator.until_ready();
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(SERVICE, "shop");
    let deleted = Action::HideEvents(Events::of_type("DELETED").named("shop"));
    stage.proxy.add(Rule::new(watches(SERVICE), deleted));
    stage.shop.delete(SERVICE, "shop");
    stage.shop.until_back(SERVICE, &before);
}

/// Drift that no watch reports is found by the same list.
#[test]
fn drift_that_is_never_reported_is_found_by_the_resync() {
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

/// Remedy: an app is queued when an answer about it is stored (`StatusWriter::store`). The watch does not report that version again.
#[test]
fn change_in_a_response_before_its_watch_event_is_reconciled() {
    let stage = Stage::new("answered");
    for name in ["shop", "blog"] {
        stage.shop.settled_app(name, web());
    }
    stage.proxy.add(Rule::new(watches(APP), Action::FreezeWatches));
    // A default host is its app's, whichever is older.
    let change = json!({"image": "nginx:1.28", "host": "shop.answered"});
    stage.shop.set("blog", change);
    // Now there is something to say of it, and the answer is what the watch keeps back.
    stage.shop.pods_become_ready("blog");
    let image = |child: &Value| text(child, "/spec/template/spec/containers/0/image") == "nginx:1.28";
    stage.shop.until(DEPLOYMENT, "blog", "it has the new image", image);
    stage.shop.until(APP, "blog", "it is refused the host", |app| {
        text(app, "/status/cause/reason") == "HostConflict"
    });
}

/// P3. kube's watcher would request the same position indefinitely. Remedy: `Error::is_expired` causes a new list.
#[test]
fn watch_answered_with_410_is_relisted() {
    let stage = Stage::new("gone");
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(SERVICE, "shop");
    stage.expire_position(SERVICE, Answer::new(410, expired().to_string()), || {
        stage.shop.delete(SERVICE, "shop");
    });
    stage.shop.until_back(SERVICE, &before);
}

/// P25. Remedy: as for P3, where the answer says 200 and its body has no envelope.
#[test]
fn status_event_with_410_causes_a_relist() {
    let stage = Stage::new("bare-gone");
    stage.shop.settled_app("shop", web());
    let before = stage.shop.get(SERVICE, "shop");
    stage.expire_position(SERVICE, Answer::new(200, format!("{}\n", expired())), || {
        stage.shop.delete(SERVICE, "shop");
    });
    stage.shop.until_back(SERVICE, &before);
}

/// P25. Remedy: what a watch can't read is an error of this watch, which is begun again after a backoff.
#[test]
fn invalid_watch_events_are_survived() {
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

/// P7. Remedy: each kind has its own watch and backoff, and a kind that can't be listed delays only its own objects
/// (`Health::settled`, `Cached::Unknown`).
#[test]
fn forbidden_kind_does_not_delay_other_kinds() {
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
    assert_eq!(ready(&app), ("Unknown", "WatchFailed"));
    assert!(!stage.shop.get(SERVICE, "shop").is_null());
    assert!(stage.shop.get(INGRESS, "shop").is_null(), "nothing is written blindly");

    stage.proxy.remove(rule.unwrap());
    stage.shop.until_there(INGRESS, "shop");
    stage.operator.until_ready();
    stage.shop.until(APP, "shop", "nothing is amiss any more", |app| {
        ready(app).1 == "Progressing"
    });
}

/// Remedy: plans still use the cached objects, but the status does not report them as current once they can no longer be read
/// (`Health::outdated`).
#[test]
fn unreadable_objects_are_not_reported_as_current() {
    let stage = Stage::new("blinded");
    let spec = json!({"image": "nginx", "port": 80, "expose": "Cluster"});
    stage.shop.settled_app("shop", spec);
    stage.shop.podset_of("set", json!({"replicas": 1}), &["set-0"]);
    stage.shop.pods_become_ready("shop");
    stage
        .shop
        .until(APP, "shop", "it is ready", |app| ready(app).0 == "True");
    let watches = [watches(DEPLOYMENT), watches(POD)];
    let rules = watches.each_ref().map(|watches| {
        let forbidden = Answer::refusal(403, "Forbidden", "the proxy does not show it any more");
        stage.proxy.add(Rule::new(watches.clone(), Action::Answer(forbidden)))
    });
    for watches in &watches {
        stage.proxy.cut_watches(watches);
    }
    for (kind, name, why) in [
        (
            APP,
            "shop",
            "the deployments can't be watched: the proxy does not show it any more",
        ),
        (
            PODSET,
            "set",
            "the pods can't be watched: the proxy does not show it any more",
        ),
    ] {
        stage
            .shop
            .until(kind, name, "its status reports that this may be outdated", |object| {
                ready(object) == ("Unknown", "WatchFailed") && text(object, "/status/cause/message").contains(why)
            });
    }
    // Reconciles continue.
    stage.shop.set("shop", json!({"port": 81}));
    stage.shop.until(SERVICE, "shop", "it is changed", |service| {
        service.pointer("/spec/ports/0/port") == Some(&json!(81))
    });

    for rule in rules {
        stage.proxy.remove(rule);
    }
    // Any event shows that the kind can be listed again.
    let touched = || Patch::Merge(json!({"metadata": {"annotations": {"example.com/touched": "yes"}}}));
    stage.shop.patch(DEPLOYMENT, "shop", touched());
    stage.shop.patch(POD, "set-0", touched());
    for (kind, name) in [(APP, "shop"), (PODSET, "set")] {
        // No controller rolls out the new port here, or runs the pod.
        stage
            .shop
            .until(kind, name, "its status reports the current objects", |object| {
                ready(object).1 == "Progressing"
            });
    }
}

/// A kind that can't be read is listed less and less often.
#[test]
fn failing_lists_are_retried_with_backoff() {
    let stage = Stage::scripted("denied", &[], |proxy| {
        let forbidden = Answer::refusal(403, "Forbidden", "ingresses is forbidden: says the proxy");
        proxy.add(Rule::new(lists(INGRESS), Action::Answer(forbidden)));
    });
    let tries = stage.until_asked(0, &lists(INGRESS), 5);
    let waits: Vec<Duration> = tries.windows(2).map(|two| two[1].at - two[0].at).collect();
    assert!(waits[3] > 3 * waits[0], "{waits:?}");
    let watches = of(&stage.proxy.records(), &watches(INGRESS));
    assert_eq!(watches.len(), 0, "{watches:?}");
}

/// Remedy: nothing is concluded from an incomplete list, which begins again after a backoff (`Watch::list_once`).
#[test]
fn objects_outlive_a_list_that_is_cut() {
    let stage = Stage::scripted("half", &["--resync-period", "5s"], |_| {});
    stage.operator.until_ready();
    for name in ["blog", "shop"] {
        stage.shop.settled_app(name, web());
    }
    let before = ["blog", "shop"].map(|name| stage.shop.get(DEPLOYMENT, name));
    let (since, wanted) = (stage.asked(), lists(APP));
    let cut = stage.proxy.add(Rule::new(wanted.clone(), Action::Truncate(10)));
    stage.until_asked(since, &wanted, 3);
    let gets = Requests::with(&[Verb::Get]).on("appdeploys");
    assert_eq!(of(&stage.proxy.records(), &gets).len(), 0);
    let after = ["blog", "shop"].map(|name| stage.shop.get(DEPLOYMENT, name));
    assert_eq!(after, before);
    // The watch from before has continued.
    stage.shop.set("shop", json!({"image": "nginx:1.28"}));
    let image = |child: &Value| text(child, "/spec/template/spec/containers/0/image") == "nginx:1.28";
    stage.shop.until(DEPLOYMENT, "shop", "it has the new image", image);
    stage.proxy.remove(cut);
}

/// P8. Remedy: a child is known by its name and the UID of its controller, not by the controller's apiVersion;
/// a reference in another version is rewritten.
#[test]
fn child_whose_owner_reference_has_another_api_version_is_still_owned() {
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

/// P12, P20. Remedies: lists request the newest state, never what a cache may have; watches of children select by label, so that the
/// pods of a whole cluster don't have to be kept.
#[test]
fn lists_are_consistent_and_select_owned_objects() {
    let stage = Stage::new("lists");
    let reads = Requests::with(&[Verb::List, Verb::Watch]);
    // The API server does not serve PodMonitors, so they are not watched.
    let enough = |records: &[Record]| of(records, &reads).len() >= 25;
    let reads = of(&stage.proxy.wait_for(PATIENCE, enough).unwrap(), &reads);
    let (lists, watches): (Vec<Record>, Vec<Record>) =
        reads.into_iter().partition(|read| read.request.verb == Verb::List);
    assert_eq!((lists.len(), watches.len()), (13, 12));
    for list in &lists {
        assert!(!list.request.query.contains("resourceVersion"), "{:?}", list.request);
    }
    for Record { request, .. } in lists.into_iter().chain(watches) {
        let ours = match request.resource.as_str() {
            "appdeploys" | "podsets" | "appqueues" | "ingressclasses" => true,
            "customresourcedefinitions" => {
                let one = "fieldSelector=metadata.name%3Dpodmonitors.monitoring.coreos.com";
                request.query.contains(one)
            }
            "pods" => ["app", "podset"].iter().any(|label| {
                let selector = format!("labelSelector=appdeploy.dev%2F{label}");
                request.query.split('&').any(|part| part == selector)
            }),
            _ => request
                .query
                .contains("labelSelector=app.kubernetes.io%2Fmanaged-by%3Dappdeploy"),
        };
        assert!(ours, "{request:?}");
    }
}

/// B4: nothing reports that the server has ended. Remedy: the read timeout, which no healthy watch ever reaches.
#[test]
#[ignore = "takes two minutes: make test-long"]
fn silent_watch_is_restarted() {
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
        "a bookmark each minute is not a silence"
    );
    stage.proxy.clear();
    stage.shop.until_back(DEPLOYMENT, &before);
}
