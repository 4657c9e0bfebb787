//! Actions for requests and their answers.

use std::thread;
use std::time::{Duration, Instant};

use fault_proxy::Proxy;
use fault_proxy::{Action, Answer, Edit, Point, Requests, Rule, Verb};
use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::kubeconfig::{Credential, Kubeconfig};
use testcluster::wait::eventually;

use crate::{Stage, TIMEOUT, count, creates};

#[test]
fn proxy_without_rules_forwards_everything() {
    let stage = Stage::new("plain");
    let who = stage
        .kubectl
        .run(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])
        .unwrap();
    assert_eq!(who, "operator");
    stage.create("one").unwrap();
    assert!(stage.exists("one"));
    let told: Vec<_> = stage.told(Verb::Create, "configmaps");
    assert_eq!(told, [(Some(201), Some(201))]);
}

#[test]
fn client_without_a_certificate_is_rejected() {
    let stage = Stage::new("stranger");
    let kubeconfig = stage.control_plane.folder().join("stranger.kubeconfig");
    let stranger = Kubeconfig {
        cluster: "c",
        server: &stage.proxy.url(),
        authority: stage.control_plane.ca().certificate(),
        user: "stranger",
        credential: Credential::Token("guessed"),
    };
    stranger.write(&kubeconfig).unwrap();
    let refused = stage
        .kubectl
        .with_kubeconfig(&kubeconfig)
        .run(&["get", "--raw", "/version"])
        .unwrap_err();
    assert!(refused.to_string().contains("certificate required"), "{refused}");
    assert!(stage.proxy.records().is_empty());
}

#[test]
fn answered_request_does_not_reach_the_api_server() {
    let stage = Stage::new("answer");
    let mark = stage.control_plane.audit().mark().unwrap();
    let forbidden = Answer::refusal(403, "Forbidden", "you may not, says the proxy");
    let rule = stage.proxy.add(Rule::new(creates(), Action::Answer(forbidden)));
    let refused = stage.create("one").unwrap_err().to_string();
    assert!(refused.contains("you may not, says the proxy"), "{refused}");
    assert_eq!(stage.told(Verb::Create, "configmaps"), [(None, Some(403))]);
    let asked = stage
        .control_plane
        .audit()
        .since(mark)
        .unwrap()
        .by_user("operator")
        .on("configmaps");
    assert_eq!(asked.in_namespace("answer").writes().count(), 0);

    stage.proxy.remove(rule);
    stage.create("one").unwrap();
}

#[test]
fn headers_of_an_answer_reach_the_client() {
    let stage = Stage::new("retry");
    let busy = Answer::refusal(429, "TooManyRequests", "too many requests").header("Retry-After", "1");
    stage.proxy.add(Rule::new(creates(), Action::Answer(busy)).first(1));
    // kubectl only repeats a request if the answer says so.
    stage.create("one").unwrap();
    assert_eq!(
        stage.told(Verb::Create, "configmaps"),
        [(None, Some(429)), (Some(201), Some(201))]
    );
    let records = stage.proxy.records();
    let times: Vec<Instant> = records
        .iter()
        .filter(|record| record.request.verb == Verb::Create)
        .map(|record| record.at)
        .collect();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "it did not wait");
}

#[test]
fn rule_applies_to_the_nth_request_only() {
    let stage = Stage::new("nth");
    stage
        .proxy
        .add(Rule::new(creates(), Action::Answer(Answer::refusal(409, "Conflict", "no"))).nth(2));
    stage.create("one").unwrap();
    stage.create("two").unwrap_err();
    stage.create("three").unwrap();
}

#[test]
fn write_is_done_although_the_client_receives_an_error() {
    let stage = Stage::new("committed");
    let timeout = Answer::refusal(504, "Timeout", "request did not complete within the allotted timeout");
    stage
        .proxy
        .add(Rule::new(creates(), Action::ForwardThenAnswer(timeout)));
    let refused = stage.create("one").unwrap_err().to_string();
    assert!(refused.contains("allotted timeout"), "{refused}");
    assert!(stage.exists("one"));
    assert_eq!(stage.told(Verb::Create, "configmaps"), [(Some(201), Some(504))]);
}

#[test]
fn connection_is_closed_before_or_after_a_write() {
    let stage = Stage::new("broken");
    stage.proxy.add(Rule::new(creates(), Action::Disconnect).nth(1));
    stage
        .proxy
        .add(Rule::new(creates(), Action::ForwardThenDisconnect).nth(2));
    let broken = stage.create("before").unwrap_err().to_string();
    assert!(broken.contains("EOF"), "{broken}");
    let broken = stage.create("after").unwrap_err().to_string();
    assert!(broken.contains("EOF"), "{broken}");
    assert_eq!((stage.exists("before"), stage.exists("after")), (false, true));
    assert_eq!(
        stage.told(Verb::Create, "configmaps"),
        [(None, None), (Some(201), None)]
    );
}

#[test]
fn request_hangs_until_the_rule_is_removed() {
    let stage = Stage::new("hang");
    let rule = stage.proxy.add(Rule::new(creates(), Action::Hang));
    let impatient = stage.create_with("one", &["--request-timeout=1s"]);
    let message = impatient.unwrap_err().to_string();
    assert!(message.contains("imeout") || message.contains("deadline"), "{message}");
    thread::scope(|scope| {
        let patient = scope.spawn(|| stage.create("one"));
        stage
            .proxy
            .wait_for(TIMEOUT, |records| count(records, Verb::Create) == 2)
            .unwrap();
        assert!(!patient.is_finished());
        stage.proxy.remove(rule);
        patient.join().unwrap().unwrap_err();
    });
    assert!(!stage.exists("one"));
}

#[test]
fn request_is_delayed() {
    let stage = Stage::new("delay");
    let delay = Duration::from_secs(2);
    stage.proxy.add(Rule::new(creates(), Action::Delay(delay)));
    let started = Instant::now();
    stage.create("one").unwrap();
    assert!(started.elapsed() >= delay);
}

#[test]
fn answer_is_edited() {
    let stage = Stage::new("edit");
    for name in ["one", "two"] {
        stage.create(name).unwrap();
    }
    let lists = Requests::with(&[Verb::List]).on("configmaps").in_namespace("edit");
    let list = || {
        stage
            .kubectl
            .run(&["get", "--raw", "/api/v1/namespaces/edit/configmaps"])
            .unwrap()
    };
    let names = |list: &str| -> Vec<String> {
        let list: Value = serde_json::from_str(list).unwrap();
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&list()), ["one", "two"]);

    let hide = stage.proxy.add(Rule::new(
        lists.clone(),
        Action::Edit(vec![Edit::HideItem("one".into())]),
    ));
    assert_eq!(names(&list()), ["two"]);
    stage.proxy.remove(hide);

    let rename = Edit::Replace("/items/1/metadata/name".into(), json!("three"));
    let rename = stage.proxy.add(Rule::new(lists.clone(), Action::Edit(vec![rename])));
    assert_eq!(names(&list()), ["one", "three"]);
    stage.proxy.remove(rename);

    let garble = stage.proxy.add(Rule::new(
        lists.clone(),
        Action::Edit(vec![Edit::Body("no JSON".into())]),
    ));
    assert_eq!(list(), "no JSON");
    stage.proxy.remove(garble);

    let nothing = Edit::Replace("/items/7/metadata/name".into(), json!("seven"));
    stage.proxy.add(Rule::new(lists, Action::Edit(vec![nothing])));
    let refused = stage
        .kubectl
        .run(&["get", "--raw", "/api/v1/namespaces/edit/configmaps"])
        .unwrap_err();
    assert!(refused.to_string().contains("has no /items/7"), "{refused}");
}

#[test]
fn record_has_the_name_of_a_created_object() {
    let stage = Stage::new("named");
    let one = creates().named("one");
    stage.proxy.add(Rule::new(one, Action::Disconnect));
    stage.create("one").unwrap_err();
    stage.create("two").unwrap();
    let records = stage.proxy.records();
    let created = records.iter().filter(|record| record.request.verb == Verb::Create);
    let names: Vec<_> = created
        .map(|record| (&*record.request.name, record.done.is_some()))
        .collect();
    assert_eq!(names, [("one", true), ("two", false)]);
}

#[test]
fn connection_is_reset() {
    let stage = Stage::new("reset");
    stage.proxy.add(Rule::new(creates(), Action::Reset));
    let broken = stage.create("one").unwrap_err().to_string();
    assert!(broken.contains("connection reset by peer"), "{broken}");
    assert!(!stage.exists("one"));
}

#[test]
fn answer_is_truncated() {
    let stage = Stage::new("truncated");
    stage.proxy.add(Rule::new(creates(), Action::Truncate(20)));
    let broken = stage.create("one").unwrap_err().to_string();
    assert!(broken.contains("unexpected EOF"), "{broken}");
    assert!(stage.exists("one"));
    assert_eq!(stage.told(Verb::Create, "configmaps"), [(Some(201), Some(201))]);
}

#[test]
fn request_is_done_and_never_answered() {
    let stage = Stage::new("done-hang");
    let rule = stage.proxy.add(Rule::new(creates(), Action::ForwardThenHang));
    thread::scope(|scope| {
        let patient = scope.spawn(|| stage.create("one"));
        eventually("the object exists", || stage.exists("one"));
        assert!(!patient.is_finished());
        stage.proxy.remove(rule);
        patient.join().unwrap().unwrap_err();
    });
}

#[test]
fn held_request_is_done_later_without_its_client() {
    let stage = Stage::new("hold");
    let rule = stage.proxy.add(Rule::new(creates(), Action::Hold));
    stage.create_with("one", &["--request-timeout=1s"]).unwrap_err();
    assert!(!stage.exists("one"));
    stage.proxy.remove(rule);
    eventually("the object exists", || stage.exists("one"));
}

#[test]
fn held_request_is_answered_to_a_waiting_client() {
    let stage = Stage::new("hold-wait");
    let rule = stage.proxy.add(Rule::new(creates(), Action::Hold));
    thread::scope(|scope| {
        let patient = scope.spawn(|| stage.create("one"));
        stage.proxy.wait_for_hits(TIMEOUT, rule, 1).unwrap();
        stage.proxy.remove(rule);
        patient.join().unwrap().unwrap();
    });
}

#[test]
fn client_stops_at_a_point_of_a_request() {
    for (point, done, told) in [
        (Point::Sent, false, false),
        (Point::Done, true, false),
        (Point::Answered, true, true),
    ] {
        let stage = Stage::new(["stop-sent", "stop-done", "stop-answered"][point as usize]);
        let rule = stage.proxy.add(Rule::new(creates().named("two"), Action::Stop(point)));
        stage.create("one").unwrap();
        assert_eq!(stage.proxy.hits(rule), 0);
        thread::scope(|scope| {
            let stopped = scope.spawn(|| stage.create("two"));
            stage.proxy.wait_for_hits(TIMEOUT, rule, 1).unwrap();
            assert_eq!(stage.exists("two"), done, "{point:?}");
            let three = scope.spawn(|| stage.create("three"));
            let came = |records: &[_]| count(records, Verb::Create) == 3;
            stage.proxy.wait_for(TIMEOUT, came).unwrap();
            stage.proxy.remove(rule);
            assert_eq!(stopped.join().unwrap().is_ok(), told, "{point:?}");
            three.join().unwrap().unwrap_err();
        });
        assert!(!stage.exists("three"), "{point:?}: what came after it");
        assert_eq!(stage.proxy.hits(rule), 1);
        stage.create("three").unwrap();
    }
}

#[test]
fn stale_list_is_served() {
    let stage = Stage::new("older");
    let current = "/api/v1/namespaces/older/configmaps";
    let path = &format!("{current}?resourceVersion=0");
    let list = || stage.kubectl.run(&["get", "--raw", path]).unwrap();
    let empty = list();
    stage.create("one").unwrap();
    let newer = list();
    assert_ne!(empty, newer);
    let lists = Requests::with(&[Verb::List]).on("configmaps");
    let rule = stage.proxy.add(Rule::new(lists.clone(), Action::ServeList(1)));
    assert_eq!(list(), empty);
    let is_current = stage.kubectl.run(&["get", "--raw", current]).unwrap().contains("one");
    assert!(is_current, "it did not ask for any version");
    assert_eq!(stage.proxy.hits(rule), 1);
    stage.proxy.remove(rule);
    let rule = stage.proxy.add(Rule::new(lists.clone(), Action::ServeList(2)));
    assert_eq!(list(), newer);
    stage.proxy.remove(rule);
    stage.proxy.add(Rule::new(lists, Action::ServeList(9)));
    let refused = stage.kubectl.run(&["get", "--raw", path]).unwrap_err().to_string();
    assert!(refused.contains("there were fewer than 9 of these lists"), "{refused}");
}

#[test]
fn restart_of_the_api_server_is_visible_to_clients() {
    // With its own control plane: stopping its client would stop the other tests.
    let control_plane = ControlPlane::start().unwrap();
    let proxy = Proxy::before(&control_plane, "operator", &["system:masters"]).unwrap();
    let kubectl = control_plane.kubectl_as(proxy.kubeconfig());
    kubectl.run(&["get", "--raw", "/version"]).unwrap();
    control_plane.stop_apiserver();
    kubectl.run(&["get", "--raw", "/version"]).unwrap_err();
    control_plane.start_apiserver().unwrap();
    kubectl.run(&["get", "--raw", "/version"]).unwrap();
}

#[test]
fn dropped_proxy_serves_no_client() {
    let stage = Stage::new("dropped");
    let watch = stage.watch();
    let Stage { proxy, kubectl, .. } = stage;
    drop(proxy);
    assert!(watch.end().contains("EOF"));
    let refused = kubectl.run(&["get", "--raw", "/version"]).unwrap_err().to_string();
    assert!(refused.contains("refused"), "{refused}");
}
