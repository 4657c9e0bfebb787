//! PodSets, whose pods have their own names: answers to writes are cached although no watch reports them, and cached objects are
//! re-read before it matters. The rows are those of `podset/main.rs`.

use fault_proxy::{Action, Answer, Record, Requests, Rule, Verb};
use serde_json::{Value, json};

use crate::harness::{Namespace, PATIENCE, POD, PODSET, QUIET, count_of, eventually, pods_of, ready, text, uid};
use crate::lies::{Stage, creates, done_without_success, expired, of, watches};

/// The watch of the pods of PodSets. That of the pods of applications goes to the same resource.
fn set_pods(verb: Verb) -> Requests {
    let all = Requests::with(&[verb]).on("pods");
    all.with_uri_containing("labelSelector=appdeploy.dev%2Fpodset")
}

fn patches() -> Requests {
    Requests::with(&[Verb::Patch]).on("pods")
}

/// Row 1. Remedy: the answers to creates and deletes are taken in (`Performer::take_in`), so what is decided next
/// rests on them, however late the watch is.
#[test]
fn writes_are_cached_before_a_watch_reports_them() {
    let stage = Stage::new("own-writes");
    let deaf = stage.proxy.add(Rule::new(set_pods(Verb::Watch), Action::FreezeWatches));
    stage.shop.podset("web", json!({"replicas": 5}));
    stage
        .shop
        .until_pods("web", &["web-0", "web-1", "web-2", "web-3", "web-4"]);
    stage.shop.set_podset("web", json!({"replicas": 2}));
    let set = stage.shop.until_pods("web", &["web-0", "web-1"]);
    assert_eq!(
        count_of(&set, "terminatingReplicas"),
        3,
        "no event has reported that they were deleted"
    );
    // Their names are not known to be free yet, so they are waited for.
    stage.shop.set_podset("web", json!({"replicas": 4}));
    stage
        .shop
        .until_podset("web", "it has seen", |set| pods_of(set) == ["web-0", "web-1"]);
    stage.proxy.remove(deaf);
    stage.shop.until_pods("web", &["web-0", "web-1", "web-2", "web-3"]);
    let writes = of(&stage.proxy.records(), &Requests::writes().on("pods"));
    let codes = |verb: Verb| -> Vec<Option<u16>> {
        let writes = writes.iter().filter(|write| write.request.verb == verb);
        writes.map(|write| write.told).collect()
    };
    assert_eq!(codes(Verb::Create), [Some(201); 7]);
    assert_eq!(codes(Verb::Delete), [Some(200); 3]);
}

/// Row 1. Remedy: an answer replaces the cached version, and later events with older versions are ignored
/// (`Cache::upsert`). Else the pod that was deleted would count again, and be worth more than the one that stays.
#[test]
fn events_older_than_a_write_are_ignored() {
    let stage = Stage::new("old-news");
    stage.shop.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let deaf = stage.proxy.add(Rule::new(set_pods(Verb::Watch), Action::FreezeWatches));
    stage.shop.pod_runs("web-1", "one", true);
    stage.shop.set_podset("web", json!({"replicas": 1}));
    stage.shop.until_pods("web", &["web-0"]);
    stage.proxy.remove(deaf);
    stage.shop.until_podset("web", "its status reports it", |set| {
        count_of(set, "terminatingReplicas") == 0
    });
    std::thread::sleep(QUIET);
    let deletes = of(&stage.proxy.records(), &Requests::with(&[Verb::Delete]).on("pods"));
    assert_eq!(deletes.len(), 1);
    assert_eq!(stage.shop.pods().into_keys().collect::<Vec<_>>(), ["web-0"]);
}

/// Row 1. Remedy: a name that makes the repeated POST a conflict, after which one GET shows that the pod is ours.
#[test]
fn pod_created_despite_an_error_response_is_not_created_twice() {
    for (name, lie) in done_without_success() {
        let stage = Stage::new(&format!("pod-{name}"));
        let deaf = stage.proxy.add(Rule::new(set_pods(Verb::Watch), Action::FreezeWatches));
        stage.proxy.add(Rule::new(creates(POD), lie).first(1));
        let set = stage.shop.podset_of("web", json!({}), &["web-0"]);
        let posts = of(&stage.proxy.records(), &creates(POD));
        let statuses: Vec<Option<u16>> = posts.iter().map(|post| post.status).collect();
        assert_eq!(statuses, [Some(201), Some(409)], "{name}");
        let gets = Requests::with(&[Verb::Get]).on("pods");
        assert_eq!(of(&stage.proxy.records(), &gets).len(), 1, "{name}");
        assert_eq!(set["status"].get("cause"), None, "{name}: it is our own");
        stage.proxy.remove(deaf);
    }
}

/// Row 18. Remedy: after a list, the cache says what is missing from it (`Cache::retain`), and that wakes the set.
#[test]
fn pod_deleted_during_an_outage_of_the_watch_is_recreated() {
    let stage = Stage::new("pod-vanished");
    stage.shop.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let before = stage.shop.get(POD, "web-1");
    expire_position(&stage, || stage.shop.delete(POD, "web-1"));
    stage.shop.until_back(POD, &before);
}

/// Rows 6 and 18. Remedy: a pod that a list by label lacks may still exist (`Member::lost_by`), and is read. No create would find its
/// name taken.
#[test]
fn pod_that_lost_its_label_during_an_outage_of_the_watch_is_released() {
    let stage = Stage::new("pod-unlabelled");
    orphan(&stage.shop, "orphan");
    // Otherwise it may learn of the set first, and create a pod.
    let cached = "appdeploy_cached_objects{resource=\"podset-pods\"} 1\n";
    stage
        .operator
        .until("/metrics", "the pod is cached", |_, metrics| metrics.contains(cached));
    stage.shop.podset_of("web", json!({}), &["orphan"]);
    expire_position(&stage, || {
        stage.shop.label_pod("orphan", crd::label::PODSET, json!(null));
    });
    stage.shop.until_pods("web", &["web-0"]);
    let pod = stage.shop.get(POD, "orphan");
    assert_eq!(pod["metadata"].get("ownerReferences"), None);
}

/// Row 1. Remedy: the pod is read if its release is refused. The policy of the operator refuses a change of a pod that is no longer
/// of a PodSet, so the repeated release of a released pod would be refused forever.
#[test]
fn pod_released_despite_an_error_response_is_replaced() {
    for (name, lie) in done_without_success() {
        let stage = Stage::new(&format!("released-{name}"));
        stage.shop.podset_of("web", json!({}), &["web-0"]);
        stage.proxy.add(Rule::new(patches(), lie).first(1));
        stage.shop.label_pod("web-0", crd::label::PODSET, json!(null));
        let set = stage
            .shop
            .until_podset("web", "the pod was replaced", |set| pods_of(set) == ["web-1"]);
        assert_ne!(set["status"]["cause"]["reason"], "PodsRefused", "{name}");
        let pod = stage.shop.get(POD, "web-0");
        assert_eq!(pod["metadata"].get("ownerReferences"), None, "{name}");
    }
}

/// Row 5. Remedy: the GET before an adoption. A pod that a deleted set adopts would be garbage-collected.
#[test]
fn deleted_set_adopts_no_pod() {
    let stage = Stage::new("gone-adopts");
    stage.shop.podset_of("web", json!({}), &["web-0"]);
    stage.proxy.add(Rule::new(watches(PODSET), Action::FreezeWatches));
    stage.shop.delete(PODSET, "web");
    let before = orphan(&stage.shop, "orphan");
    stage.until_asked(0, &Requests::with(&[Verb::Get]).on("podsets"), 1);
    std::thread::sleep(QUIET);
    assert_eq!(of(&stage.proxy.records(), &patches()).len(), 0);
    assert_eq!(stage.shop.bytes(POD, "orphan"), before);
}

/// Row 5. As above; the set says that it goes, so it is not asked again.
#[test]
fn terminating_set_adopts_nothing_after_a_read() {
    let stage = Stage::new("going-adopts");
    stage.shop.podset_of("web", json!({}), &["web-0"]);
    stage.shop.hold(PODSET, "web");
    stage.proxy.add(Rule::new(watches(PODSET), Action::FreezeWatches));
    stage.shop.delete(PODSET, "web");
    let before = orphan(&stage.shop, "orphan");
    stage.shop.until(PODSET, "web", "its status reports it", |set| {
        crate::harness::ready(set).1 == "Deleting"
    });
    std::thread::sleep(QUIET);
    let gets = Requests::with(&[Verb::Get]).on("podsets");
    assert_eq!(of(&stage.proxy.records(), &gets).len(), 1);
    assert_eq!(of(&stage.proxy.records(), &patches()).len(), 0);
    assert_eq!(stage.shop.bytes(POD, "orphan"), before);
}

/// Rows 2 and 5. As above; it is the new one that takes it in.
#[test]
fn recreated_set_adopts_with_its_own_uid() {
    let stage = Stage::new("another-adopts");
    stage.shop.podset_of("web", json!({}), &["web-0"]);
    stage.proxy.add(Rule::new(watches(PODSET), Action::FreezeWatches));
    stage.shop.delete(PODSET, "web");
    let set = stage.shop.podset("web", json!({}));
    orphan(&stage.shop, "orphan");
    let pod = stage.shop.until(POD, "orphan", "it is taken in", |pod| {
        !text(pod, "/metadata/ownerReferences/0/uid").is_empty()
    });
    assert_eq!(text(&pod, "/metadata/ownerReferences/0/uid"), uid(&set));
}

/// Row 7. Remedy: only a conflict about the UID shows that the pod was deleted (`is_another_uid`). Another is a reason to try
/// again: no watch would tell of a pod that was forgotten and has not changed.
#[test]
fn rejected_delete_of_a_pod_is_retried() {
    let stage = Stage::new("delete-conflict");
    stage.shop.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let deletes = Requests::with(&[Verb::Delete]).on("pods");
    let conflict = Answer::refusal(409, "Conflict", "the object has been modified; please try again");
    stage.proxy.add(Rule::new(deletes, Action::Answer(conflict)).first(1));
    stage.shop.set_podset("web", json!({"replicas": 0}));
    crate::harness::eventually("both pods are deleted", || stage.shop.pods().is_empty());
}

/// Row 7. Remedy: the UID among the preconditions of every delete.
#[test]
fn delayed_delete_does_not_delete_a_recreated_pod() {
    let stage = Stage::new("late-pod-delete");
    stage.shop.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let deletes = Requests::with(&[Verb::Delete]).on("pods");
    delay_write(&stage, "web-1", &deletes, || {
        stage.shop.set_podset("web", json!({"replicas": 1}));
    });
}

/// Row 7. Remedy: the UID in every patch.
#[test]
fn delayed_image_change_does_not_change_a_recreated_pod() {
    let stage = Stage::new("late-image");
    stage
        .shop
        .podset_of("web", json!({"template": {"image": "app:1"}}), &["web-0"]);
    delay_write(&stage, "web-0", &patches(), || {
        stage.shop.set_podset("web", json!({"template": {"image": "app:2"}}));
    });
}

/// Rows 6 and 7. As above.
#[test]
fn delayed_adoption_does_not_adopt_a_recreated_pod() {
    let stage = Stage::new("late-adoption");
    stage.shop.podset_of("web", json!({"replicas": 0}), &[]);
    stage.shop.set_podset("web", json!({"replicas": 1}));
    stage.shop.until_pods("web", &["web-0"]);
    delay_write(&stage, "orphan", &patches(), || drop(orphan(&stage.shop, "orphan")));
}

/// Rows 6 and 7. As above.
#[test]
fn delayed_release_does_not_release_a_recreated_pod() {
    let stage = Stage::new("late-release");
    stage.shop.podset_of("web", json!({}), &["web-0"]);
    delay_write(&stage, "web-0", &patches(), || {
        stage.shop.label_pod("web-0", crd::label::PODSET, json!(null));
    });
}

/// Delays the write that `cause` triggers until another pod has the name, and checks that this pod is not changed.
fn delay_write(stage: &Stage, pod: &str, write: &Requests, cause: impl FnOnce()) {
    let late = write.clone().named(pod);
    stage.proxy.add(Rule::new(late.clone(), Action::Delay(QUIET)).first(1));
    let since = stage.asked();
    cause();
    stage.until_asked(since, &late, 1);
    stage.shop.delete(POD, pod);
    let container = json!({"name": "app", "image": "legacy"});
    stage.shop.create(
        POD,
        json!({"metadata": {"name": pod}, "spec": {"containers": [container]}}),
    );
    let namesake = stage.shop.bytes(POD, pod);
    let answered = |records: &[Record]| of(&records[since..], &late)[0].told.is_some();
    let records = stage.proxy.wait_for(PATIENCE, answered).unwrap();
    let code = of(&records[since..], &late)[0].told;
    assert!(matches!(code, Some(409 | 422)), "{code:?}");
    assert_eq!(stage.shop.bytes(POD, pod), namesake);
}

/// Makes a pod that a set would take in; returns it as bytes.
fn orphan(shop: &Namespace, name: &str) -> String {
    let labels = json!({"appdeploy.dev/podset": "web"});
    let spec: Value = json!({"containers": [{"name": "app", "image": "app"}]});
    shop.create(POD, json!({"metadata": {"name": name, "labels": labels}, "spec": spec}));
    shop.bytes(POD, name)
}

fn expire_position(stage: &Stage, in_between: impl FnOnce()) {
    let event = json!({"type": "ERROR", "object": expired()});
    let answer = Answer::new(200, format!("{event}\n"));
    stage.expire_position_of(set_pods, answer, in_between);
}

/// Remedy: an Event is written for each deleted pod that had ended, also if another delete of the same step failed.
#[test]
fn event_is_written_for_each_ended_pod_also_when_a_delete_fails() {
    let stage = Stage::new("obituaries");
    stage.shop.podset_of("web", json!({"replicas": 2}), &["web-0", "web-1"]);
    let unavailable = Answer::refusal(503, "ServiceUnavailable", "the proxy is busy");
    let deletes = Requests::with(&[Verb::Delete]).on("pods");
    stage
        .proxy
        .add(Rule::new(deletes.clone().named("web-0"), Action::Answer(unavailable)).first(1));
    let deaf = stage.proxy.add(Rule::new(set_pods(Verb::Watch), Action::FreezeWatches));
    for pod in ["web-0", "web-1"] {
        stage.shop.patch_status(POD, pod, json!({"phase": "Succeeded"}));
    }
    stage.proxy.remove(deaf);
    let messages = || -> Vec<String> {
        let events = stage.shop.events_about_podset("web").into_iter();
        let mut ended: Vec<String> = events
            .map(|(_, message)| message)
            .filter(|message| message.contains("has ended"))
            .collect();
        ended.sort();
        ended
    };
    eventually("Events tell of both", || {
        messages() == ["web-0 has ended by itself", "web-1 has ended by itself"]
    });
}

/// A step of many requests ends within a reconcile, and what hinders it is in the status.
#[test]
fn hanging_deletes_of_many_pods_are_reported() {
    const PODS: i64 = 130;
    let stage = Stage::new("many");
    stage.shop.podset("web", json!({"replicas": PODS}));
    stage
        .shop
        .until_podset("web", "all are there", |set| count_of(set, "replicas") == PODS);
    stage
        .proxy
        .add(Rule::new(Requests::with(&[Verb::Delete]).on("pods"), Action::Hang));
    stage.shop.set_podset("web", json!({"replicas": 0}));
    let set = stage
        .shop
        .until_podset("web", "the status says why they are not deleted", |set| {
            !set["status"]["cause"].is_null()
        });
    assert_eq!(ready(&set), ("Unknown", "ApiUnavailable"));
    assert_eq!(set["status"]["observedGeneration"], set["metadata"]["generation"]);
}
