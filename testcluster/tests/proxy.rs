//! Each lie of the proxy, told to a real client about a real API server.

#![expect(clippy::unwrap_used, reason = "clippy takes the functions that tests share for code")]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testcluster::kubeconfig::{Credential, Kubeconfig};
use testcluster::proxy::{Action, Answer, Edit, Events, Requests, Rule, Verb};
use testcluster::{ControlPlane, Kubectl, Proxy};

const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing has to happen until a test believes that nothing does.
const QUIET: Duration = Duration::from_millis(500);

#[test]
fn without_rules_it_is_the_api_server() {
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
fn a_stranger_is_not_served() {
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
fn an_answer_keeps_the_request_from_the_api_server() {
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
    // kubectl sends a request again when it is told to, and only then.
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
fn only_the_nth_is_lied_about() {
    let stage = Stage::new("nth");
    stage
        .proxy
        .add(Rule::new(creates(), Action::Answer(Answer::refusal(409, "Conflict", "no"))).nth(2));
    stage.create("one").unwrap();
    stage.create("two").unwrap_err();
    stage.create("three").unwrap();
}

#[test]
fn a_write_is_done_although_the_client_is_told_that_it_is_not() {
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
fn a_connection_breaks_before_or_after_a_write() {
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
fn a_request_hangs_until_the_rule_is_removed() {
    let stage = Stage::new("hang");
    let rule = stage.proxy.add(Rule::new(creates(), Action::Hang));
    let impatient = stage
        .kubectl
        .run(&["create", "configmap", "one", "-n", "hang", "--request-timeout=1s"]);
    let message = impatient.unwrap_err().to_string();
    assert!(message.contains("imeout") || message.contains("deadline"), "{message}");
    thread::scope(|scope| {
        let patient = scope.spawn(|| stage.create("one"));
        stage
            .proxy
            .wait_for(PATIENCE, |records| count(records, Verb::Create) == 2)
            .unwrap();
        assert!(!patient.is_finished());
        stage.proxy.remove(rule);
        patient.join().unwrap().unwrap_err();
    });
    assert!(!stage.exists("one"));
}

#[test]
fn a_request_is_delayed() {
    let stage = Stage::new("delay");
    let delay = Duration::from_secs(2);
    stage.proxy.add(Rule::new(creates(), Action::Delay(delay)));
    let started = Instant::now();
    stage.create("one").unwrap();
    assert!(started.elapsed() >= delay);
}

#[test]
fn an_answer_is_edited() {
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
fn a_watch_is_cut_after_some_events() {
    let stage = Stage::new("cut-after");
    for name in ["one", "two", "three"] {
        stage.create(name).unwrap();
    }
    stage.proxy.add(Rule::new(watches(), Action::CutAfterEvents(2)));
    let mut watch = stage.watch();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    assert_eq!(watch.next(), ["ADDED", "three"]);
    assert!(watch.end().contains("EOF"), "a cut is not to look like an end");
}

#[test]
fn open_watches_are_cut_where_they_match() {
    let stage = Stage::new("cut");
    let mut watch = stage.watch();
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    assert_eq!(stage.proxy.cut_watches(&Requests::all().on("secrets")), 0);
    stage.create("two").unwrap();
    assert_eq!(watch.next(), ["ADDED", "two"]);
    assert_eq!(stage.proxy.cut_watches(&watches()), 1);
    assert!(watch.end().contains("EOF"), "a cut is not to look like an end");
    assert_eq!(stage.proxy.cut_watches(&watches()), 0);
}

#[test]
fn a_frozen_watch_stays_open_and_hears_everything_later() {
    let stage = Stage::new("freeze");
    let mut watch = stage.watch();
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    let freeze = stage.proxy.add(Rule::new(watches(), Action::FreezeWatches));
    stage.create("two").unwrap();
    stage.create("three").unwrap();
    stage.proxy.wait_for_hits(PATIENCE, freeze, 1).unwrap();
    watch.hears_nothing();
    // One that opens meanwhile is frozen from the start.
    let mut late = stage.watch();
    late.hears_nothing();
    stage.proxy.remove(freeze);
    assert_eq!(watch.next(), ["ADDED", "two"]);
    assert_eq!(watch.next(), ["ADDED", "three"]);
    assert_eq!(late.next(), ["ADDED", "one"]);
}

#[test]
fn events_are_hidden_from_open_watches() {
    let stage = Stage::new("hide");
    let mut watch = stage.watch();
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    let deleted = Events::of_type("DELETED").named("one");
    let hide = stage
        .proxy
        .add(Rule::new(watches(), Action::HideEvents(deleted)).first(1));
    stage.delete("one");
    stage.proxy.wait_for_hits(PATIENCE, hide, 1).unwrap();
    stage.create("two").unwrap();
    assert_eq!(watch.next(), ["ADDED", "two"]);
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    stage.delete("one");
    assert_eq!(watch.next(), ["DELETED", "one"], "only the first was to be hidden");
    assert_eq!(stage.proxy.hits(hide), 1);
}

#[test]
fn a_watch_is_open_until_its_client_is_gone() {
    let stage = Stage::new("open");
    let watch = stage.watch();
    assert_eq!(stage.proxy.open_watches(&watches()), 1);
    assert_eq!(stage.proxy.open_watches(&Requests::all().on("secrets")), 0);
    drop(watch);
    eventually(|| stage.proxy.open_watches(&watches()) == 0);
}

#[test]
fn an_api_server_that_is_gone_looks_gone_and_comes_back() {
    // On its own: the others would not like theirs to be stopped.
    let control_plane = ControlPlane::start().unwrap();
    let proxy = control_plane.proxy("operator", &["system:masters"]).unwrap();
    let kubectl = control_plane.kubectl_as(proxy.kubeconfig());
    kubectl.run(&["get", "--raw", "/version"]).unwrap();
    control_plane.stop_apiserver();
    kubectl.run(&["get", "--raw", "/version"]).unwrap_err();
    control_plane.start_apiserver().unwrap();
    kubectl.run(&["get", "--raw", "/version"]).unwrap();
}

#[test]
fn a_dropped_proxy_serves_nobody() {
    let stage = Stage::new("dropped");
    let watch = stage.watch();
    let Stage { proxy, kubectl, .. } = stage;
    drop(proxy);
    assert!(watch.end().contains("EOF"));
    let refused = kubectl.run(&["get", "--raw", "/version"]).unwrap_err().to_string();
    assert!(refused.contains("refused"), "{refused}");
}

/// A namespace of a control plane, and a client that sees it through a proxy.
struct Stage {
    namespace: &'static str,
    proxy: Proxy,
    kubectl: Kubectl,
    control_plane: Arc<ControlPlane>,
}

impl Stage {
    fn new(namespace: &'static str) -> Self {
        let control_plane = shared();
        control_plane.kubectl(&["create", "namespace", namespace]).unwrap();
        let proxy = control_plane.proxy("operator", &["system:masters"]).unwrap();
        let kubectl = control_plane.kubectl_as(proxy.kubeconfig());
        Self {
            namespace,
            proxy,
            kubectl,
            control_plane,
        }
    }

    fn create(&self, name: &str) -> Result<String, testcluster::kubectl::Error> {
        self.kubectl.run(&["create", "configmap", name, "-n", self.namespace])
    }

    fn delete(&self, name: &str) {
        self.control_plane
            .kubectl(&["delete", "configmap", name, "-n", self.namespace])
            .unwrap();
    }

    /// Asks the API server itself.
    fn exists(&self, name: &str) -> bool {
        self.control_plane
            .kubectl(&["get", "configmap", name, "-n", self.namespace])
            .is_ok()
    }

    /// Returns what the API server said to each request, and what the client was told.
    fn told(&self, verb: Verb, resource: &str) -> Vec<(Option<u16>, Option<u16>)> {
        let records = self.proxy.records();
        let of_it = records
            .iter()
            .filter(|record| record.request.verb == verb && record.request.resource == resource);
        of_it.map(|record| (record.status, record.told)).collect()
    }

    /// Opens a watch, and waits until the proxy has it.
    fn watch(&self) -> Watch {
        let before = count(&self.proxy.records(), Verb::Watch);
        let path = format!("/api/v1/namespaces/{}/configmaps?watch=true", self.namespace);
        let mut command = self.kubectl.command();
        command
            .args(["get", "--raw", &path])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        self.proxy
            .wait_for(PATIENCE, |records| {
                let mut watches = records
                    .iter()
                    .filter(|record| record.request.verb == Verb::Watch)
                    .skip(before);
                watches.any(|record| record.told == Some(200))
            })
            .unwrap();
        Watch { child, lines }
    }
}

struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    /// Returns the type and the name of the next event.
    fn next(&mut self) -> [String; 2] {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        [&event["type"], &event["object"]["metadata"]["name"]].map(|text| text.as_str().unwrap().to_owned())
    }

    fn hears_nothing(&mut self) {
        assert_eq!(self.lines.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout));
        assert!(self.child.try_wait().unwrap().is_none(), "the watch ended");
    }

    /// Waits until the watch ends without another event, and returns what the client says to that.
    fn end(mut self) -> String {
        assert_eq!(self.lines.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
        let mut said = String::new();
        BufReader::new(self.child.stderr.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        said
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn lines(stdout: ChildStdout) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive
}

fn eventually(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "it did not happen within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn count(records: &[testcluster::proxy::Record], verb: Verb) -> usize {
    records.iter().filter(|record| record.request.verb == verb).count()
}

fn creates() -> Requests {
    Requests::with(&[Verb::Create]).on("configmaps")
}

fn watches() -> Requests {
    Requests::with(&[Verb::Watch]).on("configmaps")
}

/// Returns a control plane that tests share while they run at the same time, and that ends with the
/// last of them: a plain static would never be dropped.
fn shared() -> Arc<ControlPlane> {
    static SHARED: Mutex<Weak<ControlPlane>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let control_plane = Arc::new(ControlPlane::start().unwrap());
        *shared = Arc::downgrade(&control_plane);
        control_plane
    })
}
