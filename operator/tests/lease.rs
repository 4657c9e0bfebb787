//! Of several operators one writes, and another takes over when it is gone, frozen or cut off.

#![expect(clippy::unwrap_used, reason = "clippy takes what tests share for code")]

#[path = "harness/harness.rs"]
mod harness;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::Patch;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::audit::Mark;

use harness::{Cluster, LEASE, Namespace, OPERATOR, Operator, config, text, web};

const LEASE_NAME: &str = "appdeploy-operator";
const SECONDS: u64 = 3;

/// Two operators with names of their own in the audit log.
struct Pair {
    cluster: Arc<Cluster>,
    space: Namespace,
    system: Namespace,
}

impl Pair {
    fn new() -> Self {
        let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
        Self {
            space: cluster.namespace("shop"),
            system: Namespace::new(cluster.clone(), crd::OPERATOR_NAMESPACE),
            cluster,
        }
    }

    /// Starts an operator as a user whom the audit log can tell from others.
    fn operator(&self, user: &str) -> Operator {
        let kubeconfig = self
            .cluster
            .control_plane
            .kubeconfig_for(user, &["system:masters"])
            .unwrap();
        let lease = format!("{SECONDS}s");
        let flags = ["--leader-elect", "--leader-elect-lease-duration", &lease];
        let operator = Operator::spawn(self.cluster.control_plane.folder(), &kubeconfig, &flags);
        operator.until_ready();
        operator
    }

    /// Waits until the Lease is as wanted, and returns it.
    fn until_lease(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.system.until(LEASE, LEASE_NAME, what, wanted)
    }

    /// Starts two, of which the first leads.
    fn both(&self) -> (Operator, Operator, Value) {
        let first = self.operator("first");
        let lease = self.until_lease("somebody leads", |lease| !holder(lease).is_empty());
        let second = self.operator("second");
        (first, second, lease)
    }

    fn writes(&self, user: &str, since: Mark) -> usize {
        let requests = self.cluster.control_plane.audit().since(since).unwrap();
        requests.by_user(user).writes().without("leases").count()
    }
}

fn holder(lease: &Value) -> &str {
    text(lease, "/spec/holderIdentity")
}

#[test]
fn one_writes_and_the_other_is_warm() {
    let pair = Pair::new();
    let (first, second, lease) = pair.both();
    let mark = pair.space.mark();
    pair.space.settled_app("shop", web());
    assert_eq!(pair.writes("second", mark), 0);
    assert!(pair.writes("first", mark) >= 4);
    let (status, metrics) = second.get("/metrics");
    assert_eq!(status, 200);
    assert!(
        metrics.contains("appdeploy_cached_objects{resource=\"appdeploys\"} 1"),
        "it has seen the app:\n{metrics}"
    );
    let leads = |metrics: &str, is: u8| {
        metrics.contains(&format!(
            "leader_election_master_status{{name=\"appdeploy-operator\"}} {is}"
        ))
    };
    assert!(leads(&metrics, 0), "{metrics}");
    assert!(leads(&first.get("/metrics").1, 1));
    assert_eq!(holder(&pair.system.get(LEASE, LEASE_NAME)), holder(&lease));
}

/// C1.
#[test]
fn another_takes_over_when_the_leader_is_killed() {
    let pair = Pair::new();
    let (first, _second, lease) = pair.both();
    pair.space.settled_app("before", web());
    first.kill();
    let killed = Instant::now();
    pair.space.settled_app("after", web());
    let taken = pair.until_lease("another one leads", |now| {
        !holder(now).is_empty() && holder(now) != holder(&lease)
    });
    // The time of the Lease, the wait between two looks, and as much for a busy machine.
    assert!(
        killed.elapsed() < Duration::from_secs(4 * SECONDS),
        "{:?}",
        killed.elapsed()
    );
    assert_eq!(taken["spec"]["leaseTransitions"], 1);
}

#[test]
fn a_leader_that_is_told_to_end_gives_the_lease_back() {
    let pair = Pair::new();
    let (first, _second, lease) = pair.both();
    let (status, _) = first.terminate();
    assert!(status.success());
    assert!(first.log().contains("gave the Lease back"), "{}", first.log_tail(20));
    pair.until_lease("another one leads", |now| {
        !holder(now).is_empty() && holder(now) != holder(&lease)
    });
    pair.space.settled_app("after", web());
}

/// C2. It wakes up with work in its hands: what was changed while it was frozen is in the buffers of its connections.
#[test]
fn a_frozen_leader_that_wakes_up_writes_nothing() {
    let pair = Pair::new();
    let (first, _second, lease) = pair.both();
    pair.space.settled_app("shop", web());
    first.signal(Signal::SIGSTOP);
    pair.until_lease("another one leads", |now| {
        !holder(now).is_empty() && holder(now) != holder(&lease)
    });
    let mark = pair.space.mark();
    for name in ["a", "b", "c"] {
        pair.space.settled_app(name, web());
    }
    pair.space.set("shop", json!({"image": "nginx:1.28"}));
    pair.space.until_told("shop");
    first.signal(Signal::SIGCONT);
    let status = first.until_ended();
    assert!(!status.success(), "it ends, to start as a follower");
    assert!(first.log().contains("another operator leads"), "{}", first.log_tail(20));
    assert_eq!(pair.writes("first", mark), 0);
}

/// C3.
#[test]
fn a_lease_that_is_deleted_is_made_anew() {
    let pair = Pair::new();
    let (_first, _second, lease) = pair.both();
    pair.system.delete(LEASE, LEASE_NAME);
    pair.until_lease("somebody leads", |now| {
        text(now, "/metadata/uid") != text(&lease, "/metadata/uid") && !holder(now).is_empty()
    });
    pair.space.settled_app("after", web());
}

/// C3. Whoever is named there would write: the one that led stands down at once.
#[test]
fn a_leader_stands_down_when_the_lease_names_another() {
    let pair = Pair::new();
    let (first, _second, _) = pair.both();
    pair.system.patch(
        LEASE,
        LEASE_NAME,
        Patch::Merge(json!({"spec": {"holderIdentity": "a person"}})),
    );
    let status = first.until_ended();
    assert!(!status.success());
    pair.until_lease("the other one leads", |now| {
        !holder(now).is_empty() && holder(now) != "a person"
    });
    pair.space.settled_app("after", web());
}

/// C4.
#[test]
fn a_leader_that_cannot_renew_stops_before_another_begins() {
    let pair = Pair::new();
    let (first, second, _) = pair.both();
    pair.space.settled_app("shop", web());
    pair.cluster.control_plane.pause_apiserver().unwrap();
    // Both: nobody can be sure to lead.
    let status = first.until_ended();
    assert!(!status.success());
    pair.cluster.control_plane.resume_apiserver().unwrap();
    assert!(second.is_running());
    pair.space.settled_app("after", web());
}

/// The rights of config/rbac are enough, and the namespace of the operator is where the Lease is.
#[test]
fn the_operators_own_rights_suffice() {
    let cluster = Cluster::start(ControlPlane::builder());
    for file in ["leader_election_role", "leader_election_role_binding"] {
        cluster
            .control_plane
            .apply(&config(&format!("rbac/{file}.yaml")))
            .unwrap();
    }
    let cluster = Arc::new(cluster);
    let _operator = cluster.operator(&["--leader-elect"]);
    let system = Namespace::new(cluster.clone(), crd::OPERATOR_NAMESPACE);
    system.until_there(LEASE, LEASE_NAME);
    cluster.namespace("shop").settled_app("shop", web());
    let requests = cluster.control_plane.audit().all().unwrap();
    let denied = requests.by_user(OPERATOR).that(|request| request.code == 403);
    assert_eq!(denied.tally(), std::collections::BTreeMap::new());
}
