//! An API server that is slow, or that cannot be reached for a while.

use std::io::{BufRead as _, BufReader};
use std::iter;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fault_proxy::Proxy;
use fault_proxy::{Action, Record, Requests, Rule, Verb};
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::{Plugin, Run};
use crate::way::family;

const PATIENCE: Duration = Duration::from_secs(60);

fn behind_a_proxy() -> (PooledControlPlane, Proxy, Plugin) {
    // Installed by the plugin: a test here installs it again.
    let cluster = ControlPlane::pooled().unwrap();
    let admin = Plugin::admin(&cluster);
    admin.run("install --wait=false --webhooks=false").ok();
    admin.run("create shop --image=nginx --port=80").ok();
    let proxy = Proxy::before(&cluster, "person", &["system:masters"]).unwrap();
    let plugin = Plugin::of(proxy.kubeconfig());
    (cluster, proxy, plugin)
}

/// An admission webhook may take 30 s, and the API server stores the object after that.
#[test]
fn write_is_waited_for_longer_than_a_read() {
    let (_cluster, proxy, plugin) = behind_a_proxy();
    let slow = Rule::new(Requests::writes(), Action::Delay(Duration::from_secs(12)));
    proxy.add(slow);
    plugin.run("create web --image=nginx").ok();
}

#[test]
fn write_without_an_answer_may_have_been_stored() {
    let (_cluster, proxy, plugin) = behind_a_proxy();
    for (action, sentence) in [
        (Action::ForwardThenHang, "did not answer within 2s\n"),
        (Action::ForwardThenDisconnect, "cannot reach the cluster at "),
    ] {
        let rule = proxy.add(Rule::new(Requests::writes(), action));
        let said = plugin.run("restart shop --request-timeout=2s").fails(1);
        proxy.remove(rule);
        assert!(
            said.contains(sentence)
                && said.contains("  why:  the change was sent, and may have been stored anyway\n")
                && said.contains("  next: kubectl appdeploy status"),
            "{said}"
        );
    }
    let rule = proxy.add(Rule::new(Requests::with(&[Verb::Get, Verb::List]), Action::Hang));
    let said = plugin.run("status --request-timeout=1s").fails(1);
    proxy.remove(rule);
    assert!(!said.contains("stored anyway"), "{said}");
}

#[test]
fn lost_connection_is_reported_while_a_command_watches() {
    let (cluster, proxy, plugin) = behind_a_proxy();
    family(&cluster, 1);
    cluster
        .kubectl(&["create", "deployment", "web", "--image=nginx", "--port=80"])
        .unwrap();
    for (line, resource) in [
        ("status -w", "appdeploys"),
        ("status shop --until=ready", "appdeploys"),
        ("restart shop --wait --timeout=60s", "appdeploys"),
        ("logs shop -f", "pods"),
        ("events shop -w", "events"),
        ("port-forward shop :80", "pods"),
        ("delete shop --cascade=orphan --timeout=60s", "appdeploys"),
        ("install --webhooks=false --timeout=60s", "deployments"),
        ("adopt web --yes --timeout=60s", "appdeploys"),
    ] {
        if line.starts_with("delete") {
            let hold = r#"{"metadata": {"finalizers": ["example.com/hold"]}}"#;
            cluster
                .kubectl(&["patch", "appdeploy/shop", "--type=merge", "-p", hold])
                .unwrap();
        }
        let watches = || Requests::with(&[Verb::List, Verb::Watch]).on(resource);
        let opened = |records: &[Record]| {
            let watches = records
                .iter()
                .filter(|one| one.request.verb == Verb::Watch && one.request.resource == resource);
            watches.filter(|one| one.told == Some(200)).count()
        };
        let before = opened(&proxy.records());
        let mut child = plugin.start(line);
        let begun = proxy.wait_for(PATIENCE, |records| opened(records) > before);
        if begun.is_err() {
            child.kill().unwrap();
            panic!("{line}: {:?}", Run::of(child));
        }
        let rule = proxy.add(Rule::new(watches(), Action::Disconnect));
        proxy.cut_watches(&watches());
        let (sender, said) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let reader = thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let says = |text: &str| {
            let until = Instant::now() + PATIENCE;
            let next = || said.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
            iter::from_fn(next).any(|line| line.contains(text))
        };
        let is_lost = says("connection to the cluster is lost");
        proxy.remove(rule);
        // It continues when the cluster is reachable again.
        let is_back = is_lost && says("connected again");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(said);
        let _ = reader.join();
        assert!(is_lost && is_back, "{line}: {is_lost}");
    }
}

/// Without any output yet, the command fails.
#[test]
fn watch_that_cannot_begin_is_an_error() {
    let (_cluster, proxy, plugin) = behind_a_proxy();
    let watches = Requests::with(&[Verb::List, Verb::Watch]).on("appdeploys");
    proxy.add(Rule::new(watches, Action::Disconnect));
    for line in ["status -w", "status --until=ready"] {
        let mut child = plugin.start(line);
        let end = Instant::now() + PATIENCE;
        let ended = loop {
            if child.try_wait().unwrap().is_some() || Instant::now() > end {
                break child.try_wait().unwrap().is_some();
            }
            thread::sleep(Duration::from_millis(50));
        };
        if !ended {
            child.kill().unwrap();
        }
        let run = Run::of(child);
        assert!(
            ended && run.code == 1 && run.err.starts_with("error: cannot reach the cluster at "),
            "{line}: {run:?}"
        );
    }
}
