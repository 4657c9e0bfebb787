//! Measures how long a PodSet takes to create and delete 100 pods, compared with a ReplicaSet with the same pods on the same control
//! plane: `make bench`.
//!
//! The two take turns, and in each round the other one begins. The result is the median of all rounds, measured by a watch of the
//! pods. The nodes are fake, so a pod is ready as soon as it has one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "../tests/harness/harness.rs"]
mod harness;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use model::podset::{Creation, SetPod, ValidPodSet};
use serde_json::{Value, json};
use testcluster::ControlPlane;
use tokio::time::timeout;

use harness::{Cluster, Kind, Namespace, PATIENCE, PODSET, REPLICA_SET};

const PODS: usize = 100;
const ROUNDS: usize = 7;
const NAME: &str = "web";

/// What is measured, in the order of a round.
const MEASURED: [&str; 6] = [
    "created, 100 pods there",
    "created, 100 pods ready",
    "scaled to 0, 100 pods terminating",
    "scaled to 0, 100 pods deleted",
    "scaled to 100, 100 pods there",
    "scaled to 100, 100 pods ready",
];

fn main() {
    // `cargo test --all-targets` runs benchmarks, too, and without this word.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let cluster = Arc::new(Cluster::start(ControlPlane::builder().fake_nodes(4).without_audit()).with_operator(&[]));
    let mut podset = Contender::new(&cluster, PODSET, json!({}));
    let template = json!({"metadata": {"labels": {"set": NAME}}, "spec": pod_spec()});
    let spec = json!({"selector": {"matchLabels": {"set": NAME}}, "template": template});
    let mut replica_set = Contender::new(&cluster, REPLICA_SET, spec);
    for round in 0..ROUNDS {
        let turns = if round % 2 == 0 {
            [&mut podset, &mut replica_set]
        } else {
            [&mut replica_set, &mut podset]
        };
        turns.into_iter().for_each(Contender::round);
    }

    println!("Medians of {ROUNDS} rounds, in brackets the fastest and the slowest, in ms\n");
    println!("{:34}{:>22}{:>22}{:>8}", "", "PodSet", "ReplicaSet", "ratio");
    for (row, what) in MEASURED.iter().enumerate() {
        let (ours, theirs) = (podset.figure(row), replica_set.figure(row));
        let ratio = ours.median().as_secs_f64() / theirs.median().as_secs_f64();
        println!("{what:34}{:>22}{:>22}{ratio:>8.2}", ours.text(), theirs.text());
    }
}

/// Returns what a PodSet makes of the template that it has by default.
fn pod_spec() -> Value {
    let set: crd::PodSet = serde_json::from_value(json!({
        "apiVersion": PODSET.api_version(), "kind": PODSET.name(), "metadata": {"name": NAME}, "spec": {},
    }))
    .unwrap();
    let creation = Creation {
        slot: 0,
        replaces: None,
    };
    model::podset::pod(&set, &ValidPodSet::of(&set).unwrap(), &creation)["spec"].take()
}

/// A kind of set, and how long it took.
struct Contender {
    kind: Kind,
    space: Namespace,
    spec: Value,
    rounds: Vec<[Duration; MEASURED.len()]>,
}

impl Contender {
    /// Makes a namespace for sets of this kind and spec.
    fn new(cluster: &Arc<Cluster>, kind: Kind, spec: Value) -> Self {
        Self {
            kind,
            space: cluster.namespace(kind.plural()),
            spec,
            rounds: Vec::new(),
        }
    }

    /// Brings a new set up, down, up again, and away.
    fn round(&mut self) {
        let api = self.space.api(self.kind);
        let pods: Api<Pod> = Api::namespaced(self.space.cluster.client.clone(), &self.space.name);
        let round = async {
            let mut seen = Seen::of(pods).await;
            let started = Instant::now();
            api.create(&PostParams::default(), &self.set()).await.unwrap();
            let created = seen.until_up(started).await;
            let down = seen.until_down(scale(&api, 0).await).await;
            let up = seen.until_up(scale(&api, PODS).await).await;
            seen.until_down(scale(&api, 0).await).await;
            [created.0, created.1, down.0, down.1, up.0, up.1]
        };
        // A scheduler that is starved may end, and nothing is ready any more.
        let times = self.space.cluster.block_on(async { timeout(PATIENCE, round).await });
        self.rounds.push(times.unwrap());
        self.space.delete(self.kind, NAME);
        self.space.until_gone(self.kind, NAME);
    }

    fn set(&self) -> DynamicObject {
        let mut spec = self.spec.clone();
        spec["replicas"] = json!(PODS);
        DynamicObject::new(NAME, &self.kind.resource()).data(json!({"spec": spec}))
    }

    fn figure(&self, row: usize) -> Figure {
        let mut times: Vec<Duration> = self.rounds.iter().map(|round| round[row]).collect();
        times.sort();
        Figure(times)
    }
}

/// Asks for so many pods, and returns when.
async fn scale(api: &Api<DynamicObject>, replicas: usize) -> Instant {
    let started = Instant::now();
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
    started
}

type Pods = HashMap<String, SetPod>;

/// The pods of a namespace, from a watch.
struct Seen {
    events: BoxStream<'static, watcher::Result<Event<Pod>>>,
    pods: Pods,
}

impl Seen {
    /// Watches, and returns when the watch has begun.
    async fn of(pods: Api<Pod>) -> Self {
        let mut seen = Self {
            events: watcher(pods, watcher::Config::default()).boxed(),
            pods: Pods::new(),
        };
        while !matches!(seen.events.next().await.unwrap().unwrap(), Event::InitDone) {}
        seen
    }

    /// Waits until all pods are there and ready, and returns how long each took.
    async fn until_up(&mut self, started: Instant) -> (Duration, Duration) {
        let there = self.until(started, |pods| pods.len() == PODS).await;
        let all_ready = |pods: &Pods| pods.len() == PODS && pods.values().all(|pod| pod.ready_since.is_some());
        (there, self.until(started, all_ready).await)
    }

    /// Waits until all pods are terminating, and then deleted. Returns how long each took.
    async fn until_down(&mut self, started: Instant) -> (Duration, Duration) {
        let terminating = self.until(started, |pods| pods.values().all(|pod| pod.deleting)).await;
        (terminating, self.until(started, Pods::is_empty).await)
    }

    async fn until(&mut self, started: Instant, wanted: impl Fn(&Pods) -> bool) -> Duration {
        while !wanted(&self.pods) {
            match self.events.next().await.unwrap().unwrap() {
                Event::Apply(pod) => drop(self.pods.insert(pod.name_any(), SetPod::read(&pod))),
                Event::Delete(pod) => drop(self.pods.remove(&pod.name_any())),
                Event::Init | Event::InitApply(_) | Event::InitDone => {}
            }
        }
        started.elapsed()
    }
}

/// How long one thing took in all rounds, sorted.
struct Figure(Vec<Duration>);

impl Figure {
    fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    fn text(&self) -> String {
        let ms = |at: usize| self.0[at].as_millis();
        format!("{} [{}, {}]", self.median().as_millis(), ms(0), ms(self.0.len() - 1))
    }
}
