//! The operator against an API server and a network that behave as they do on a bad day.
//!
//! A proxy stands before the real API server and does what a test scripts. Each test names the pitfall that it
//! guards, and the remedy without which it fails.

mod podset;
mod queue;
mod requests;
mod watches;

use fault_proxy::Proxy;
use fault_proxy::{Action, Answer, Record, Requests, Rule, Verb};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{Cluster, Kind, Namespace, OPERATOR, Operator, PATIENCE, Shared};

/// A namespace, and an operator for it alone that sees the API server through a proxy.
struct Stage {
    // Dropped in this order: the operator while the proxy runs.
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
        let proxy = Proxy::before(&cluster.control_plane, OPERATOR, &[]).unwrap();
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

    /// Breaks the watch of a kind, as [`Self::expire_position_of`] does.
    fn expire_position(&self, kind: Kind, answer: Answer, in_between: impl FnOnce()) {
        self.expire_position_of(|verb| Requests::with(&[verb]).on(kind.plural()), answer, in_between);
    }

    /// Breaks a watch, and lets no new one begin before `in_between` is done. Then each is answered so, until the operator lists again.
    fn expire_position_of(&self, requests: impl Fn(Verb) -> Requests, answer: Answer, in_between: impl FnOnce()) {
        let watches = requests(Verb::Watch);
        let deaf = self.proxy.add(Rule::new(watches.clone(), Action::Disconnect));
        assert_eq!(self.proxy.cut_watches(&watches), 1);
        in_between();
        let since = self.asked();
        let lost = self.proxy.add(Rule::new(watches, Action::Answer(answer)));
        self.proxy.remove(deaf);
        self.until_asked(since, &requests(Verb::List), 1);
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

fn lists(kind: Kind) -> Requests {
    Requests::with(&[Verb::List]).on(kind.plural())
}

fn creates(kind: Kind) -> Requests {
    Requests::with(&[Verb::Create]).on(kind.plural())
}

fn patches(plural: &str) -> Requests {
    Requests::with(&[Verb::Patch]).on(plural)
}

/// Two ways in which a request is done without an answer that says so.
fn done_without_success() -> [(&'static str, Action); 2] {
    let timeout = Answer::refusal(504, "Timeout", "request did not complete within the allotted timeout");
    [
        ("timeout", Action::ForwardThenAnswer(timeout)),
        ("cut", Action::ForwardThenDisconnect),
    ]
}

/// The Status with which the API server says that it has forgotten a place in its stream.
fn expired() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired",
        "message": "too old resource version", "code": 410})
}
