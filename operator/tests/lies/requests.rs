//! Requests that are not answered, answered wrongly, or late.

use std::time::Duration;

use fault_proxy::{Action, Answer, Record, Requests, Rule, Verb};
use serde_json::{Value, json};

use crate::harness::{
    APP, DEPLOYMENT, INGRESS, Kind, Namespace, PATIENCE, QUEUE, QUIET, SERVICE, is_long, is_observed, ready, web,
};
use crate::lies::{Stage, creates, done_without_success, of, patches, watches};

/// P4. Remedy: the deadline around every call (`perform::call`); concurrency for the others.
#[test]
fn unanswered_request_delays_only_its_app_until_its_deadline() {
    let stage = Stage::new("hang");
    stage.proxy.add(Rule::new(creates(SERVICE), Action::Hang).first(1));
    stage.shop.app("stuck", web());
    stage.until_asked(0, &creates(SERVICE), 1);
    stage.shop.settled_app("other", web());
    let other = stage.shop.get(SERVICE, "stuck");
    assert!(other.is_null(), "the other one did not wait for this one");

    stage.shop.until_there(SERVICE, "stuck");
    let asked = stage.until_asked(0, &creates(SERVICE), 3);
    let waited = asked[2].at - asked[0].at;
    assert!(
        waited >= Duration::from_secs(9),
        "{waited:?}: it hung for as long as its deadline"
    );
    assert!(waited < Duration::from_secs(20), "{waited:?}");
}

/// An operator of some namespaces reviews whether it may list IngressClasses, for which apps wait. Without an answer, it lists them.
#[test]
fn unanswered_review_of_a_right_delays_a_start_until_its_deadline() {
    let reviews = Requests::with(&[Verb::Create]).on("selfsubjectaccessreviews");
    let stage = Stage::scripted("review", &[], |proxy| {
        proxy.add(Rule::new(reviews.clone(), Action::Hang));
    });
    stage.shop.app("shop", web());
    let review = stage.until_asked(0, &reviews, 1);
    let list = stage.until_asked(0, &Requests::with(&[Verb::List]).on("ingressclasses"), 1);
    let waited = list[0].at - review[0].at;
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    stage.shop.until_reported("shop");
}

/// P5. Remedy: no retry in the client, which would repeat the POST immediately; and a name that makes the repeated
/// POST a conflict, after which one GET shows that the object is ours.
#[test]
fn successful_create_with_an_error_response_is_not_repeated() {
    for (name, lie) in done_without_success() {
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

/// P5. An overloaded API server sends `Retry-After`. It delays only the object whose request was rejected, also if that object
/// changes in the meantime. Longer times are cut to a minute (`attempt`).
#[test]
fn retry_after_is_respected() {
    let busy = Answer::refusal(429, "TooManyRequests", "too many requests").header("Retry-After", "6");
    let stage = Stage::scripted("busy", &[], |proxy| {
        let creates = creates(SERVICE).named("shop");
        proxy.add(Rule::new(creates, Action::Answer(busy)).first(1));
    });
    stage.shop.app("shop", web());
    stage.until_asked(0, &creates(SERVICE), 1);
    stage.shop.set("shop", json!({"image": "nginx:1.28"}));
    stage.shop.settled_app("other", web());
    assert!(
        stage.shop.get(SERVICE, "shop").is_null(),
        "the other one was not delayed"
    );
    stage.shop.until_reported("shop");
    let shops = |record: &Record| record.request.name == "shop";
    let posts = of(&stage.proxy.records(), &creates(SERVICE));
    let posts: Vec<_> = posts.into_iter().filter(shops).collect();
    let told: Vec<Option<u16>> = posts.iter().map(|post| post.told).collect();
    assert_eq!(told, [Some(429), Some(201)]);
    let waited = posts[1].at - posts[0].at;
    assert!(waited >= Duration::from_secs(6), "{waited:?}");
    assert!(waited < Duration::from_secs(20), "{waited:?}");
}

/// An author does not wait until the operator has reported the pods of all other apps, for example when a node fails. Remedy:
/// `Priority::Object`.
#[test]
fn change_of_an_app_overtakes_reports_about_other_apps() {
    let stage = Stage::scripted("backlog", &["--concurrency", "1"], |_| {});
    stage.operator.until_ready();
    let others: Vec<String> = (0..10).map(|number| format!("other-{number}")).collect();
    for name in others.iter().map(String::as_str).chain(["busy", "shop"]) {
        stage.shop.settled_app(name, web());
    }
    let newer = || json!({"image": "nginx:1.28"});
    let since = stage.asked();
    let held = stage
        .proxy
        .add(Rule::new(patches("deployments").named("busy"), Action::Hold));
    stage.shop.set("busy", newer());
    stage.until_asked(since, &patches("deployments").named("busy"), 1);
    for name in &others {
        stage.shop.pods_become_ready(name);
    }
    let waiting = |depth: usize| {
        let metric = format!("workqueue_depth{{name=\"appdeploy\"}} {depth}\n");
        stage
            .operator
            .until("/metrics", "the apps wait for the worker", |_, metrics| {
                metrics.contains(&metric)
            });
    };
    waiting(others.len());
    stage.shop.set("shop", newer());
    waiting(others.len() + 1);
    stage.proxy.remove(held);
    for name in &others {
        stage.shop.until(APP, name, "its pods are reported", |app| {
            app["status"]["readyReplicas"] == 1
        });
    }
    let asked = stage.until_asked(since, &patches("deployments").named("shop"), 1);
    let overtaken = of(&stage.proxy.records()[since..], &patches("appdeploys/status"));
    let before = overtaken.iter().filter(|report| report.at < asked[0].at);
    // That of the busy app, and one in its turn.
    assert!(before.count() <= 2, "{overtaken:?}");
}

/// B7: an answer 200 that is not one. Whether the write was carried out or not, it is carried out once in the end.
#[test]
fn invalid_response_is_retried() {
    let bodies = [
        "",
        "{",
        "{}",
        "null",
        "[]",
        "<html>200 OK</html>",
        r#"{"kind":"Status","apiVersion":"v1"}"#,
    ];
    let stage = Stage::new("babble");
    for (number, body) in bodies.into_iter().enumerate() {
        let answer = Answer::new(200, body);
        let lies = [Action::Answer(answer.clone()), Action::ForwardThenAnswer(answer)];
        for (done, lie) in lies.into_iter().enumerate() {
            // Each body with both takes half a minute.
            if !is_long() && done != number % 2 {
                continue;
            }
            let name = format!("shop-{number}-{done}");
            let statuses = Requests::with(&[Verb::Patch]).on("appdeploys/status");
            let rules: Vec<_> = [DEPLOYMENT, SERVICE, INGRESS]
                .map(creates)
                .into_iter()
                .chain([statuses])
                .map(|requests| stage.proxy.add(Rule::new(requests, lie.clone()).first(1)))
                .collect();
            stage.shop.app(&name, web());
            for kind in [DEPLOYMENT, SERVICE, INGRESS] {
                stage.shop.until_there(kind, &name);
            }
            stage.shop.until(APP, &name, "nothing is amiss", |app| {
                is_observed(app) && ready(app).1 == "Progressing"
            });
            for rule in rules {
                assert_eq!(stage.proxy.hits(rule), 1, "{body:?}");
                stage.proxy.remove(rule);
            }
        }
    }
    let kinds = [DEPLOYMENT, SERVICE, INGRESS].map(Kind::plural);
    let mut made: Vec<(String, String)> = of(&stage.proxy.records(), &Requests::with(&[Verb::Create]))
        .into_iter()
        .filter(|create| create.status == Some(201))
        .map(|create| (create.request.resource, create.request.name))
        .filter(|(resource, _)| kinds.contains(&resource.as_str()))
        .collect();
    made.sort();
    let mut once = made.clone();
    once.dedup();
    assert_eq!(made, once, "something was created twice");
}

/// B14: etcd is full. Nothing can be said in the status, so the log says it; when there is room, all is made.
#[test]
fn full_etcd_is_logged_and_survived() {
    let stage = Stage::new("full");
    let words = "etcdserver: mvcc: database space exceeded";
    let full = Answer::refusal(500, "InternalError", words);
    let rule = stage.proxy.add(Rule::new(Requests::writes(), Action::Answer(full)));
    stage.shop.app("shop", web());
    stage.proxy.wait_for_hits(PATIENCE, rule, 5).unwrap();
    assert!(stage.operator.log().contains(words), "{}", stage.operator.log_tail(20));
    stage.proxy.remove(rule);
    for kind in [DEPLOYMENT, SERVICE, INGRESS] {
        stage.shop.until_there(kind, "shop");
    }
    let well = |app: &Value| is_observed(app) && ready(app).1 == "Progressing";
    stage.shop.until(APP, "shop", "nothing is amiss", well);
}

/// Remedy: only a conflict about the UID shows that a child was deleted (`is_another_uid`). Another is a reason to try again: no
/// watch would tell of a child that was forgotten and has not changed.
#[test]
fn rejected_delete_of_a_child_is_retried() {
    let stage = Stage::new("child-conflict");
    stage.shop.settled_app("shop", web());
    let deletes = Requests::with(&[Verb::Delete]).on("ingresses");
    let conflict = Answer::refusal(409, "Conflict", "the object has been modified; please try again");
    stage.proxy.add(Rule::new(deletes, Action::Answer(conflict)).first(1));
    stage.shop.set("shop", json!({"expose": "Cluster"}));
    stage.shop.until_gone(INGRESS, "shop");
}

/// Remedy: after a conflict of the status the object is read again.
#[test]
fn queue_is_read_again_if_another_client_has_changed_it_before_the_status() {
    let conflict = Answer::refusal(409, "Conflict", "the object has been modified; please try again");
    let patches = Requests::with(&[Verb::Patch]).on("appqueues/status");
    let stage = Stage::scripted("queue-conflict", &[], |proxy| {
        proxy.add(Rule::new(patches, Action::Answer(conflict)).first(1));
    });
    let spec = json!({"sqs": {"region": "us-east-1"}, "credentials": {"secretRef": {"name": "none"}}});
    stage
        .shop
        .create(QUEUE, json!({"metadata": {"name": "orders"}, "spec": spec}));
    stage.shop.until(QUEUE, "orders", "the status is written", is_observed);
    stage.until_asked(0, &Requests::with(&[Verb::Get]).on("appqueues"), 1);
}

/// P24. Remedy: the UID among the preconditions of every delete.
#[test]
fn delayed_delete_does_not_delete_a_recreated_child() {
    let stage = Stage::new("late-delete");
    stage.shop.settled_app("shop", web());
    let deletes = Requests::with(&[Verb::Delete]).on("services");
    stage
        .proxy
        .add(Rule::new(deletes.clone(), Action::Delay(QUIET)).first(1));
    stage.shop.set("shop", json!({"port": null}));
    stage.until_asked(0, &deletes, 1);
    let namesake = recreate_with_the_same_name(&stage.shop);
    let answered = |records: &[Record]| of(records, &deletes).iter().any(|delete| delete.told.is_some());
    let records = stage.proxy.wait_for(PATIENCE, answered).unwrap();
    assert_eq!(of(&records, &deletes)[0].told, Some(409));
    assert_eq!(stage.shop.bytes(SERVICE, "shop"), namesake);
}

/// P6, F4. Remedy: the UID in every apply; without it, a forced apply would take over what it finds.
#[test]
fn delayed_apply_does_not_change_a_recreated_child() {
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
    let namesake = recreate_with_the_same_name(&stage.shop);
    let conflict = |app: &Value| is_observed(app) && ready(app).1 == "NameConflict";
    stage
        .shop
        .until(APP, "shop", "its status reports the conflict", conflict);
    assert_eq!(stage.shop.bytes(SERVICE, "shop"), namesake);
}

/// P6. As above, where the name is free when the apply arrives: it must not create either.
#[test]
fn delayed_apply_does_not_recreate_a_deleted_child() {
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
    // The watch reports it, but the app is being reconciled.
    stage.shop.delete(SERVICE, "shop");
    let answered = |records: &[Record]| of(records, &applies).iter().any(|apply| apply.told.is_some());
    let records = stage.proxy.wait_for(PATIENCE, answered).unwrap();
    assert_eq!(of(&records, &applies)[0].told, Some(409));
    stage.shop.until(SERVICE, "shop", "it is recreated", |it| {
        it["spec"]["ports"][0]["port"] == 8080
    });
}

/// Deletes the Service and makes another one of the same name; returns it as bytes.
fn recreate_with_the_same_name(shop: &Namespace) -> String {
    shop.delete(SERVICE, "shop");
    shop.create(
        SERVICE,
        json!({"metadata": {"name": "shop"}, "spec": {"ports": [{"port": 9000}]}}),
    );
    shop.bytes(SERVICE, "shop")
}
