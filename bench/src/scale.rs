//! How far one operator goes: many apps, an operator that is updated or killed while images change, and many pods that fail at the same time.

mod times;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use model::reason::Reason;
use serde_json::{Value, json};
use testcluster::checkout::manifest;

use crate::cluster::Cluster;
use crate::contender::{Contender, Entry};
use crate::drift::{RATE, send_all};
use crate::format::{figure, grouped};
use crate::loader::load;
use crate::memory::crds;
use crate::program::Program;
use crate::request::{Key, Sent, image};
use crate::result::{Converge, Restart, Steady};
use crate::run::Stage;
use crate::section::Markers;
use crate::seen::Seen;
use crate::statistics::{Spread, number};
use times::Times;

/// The markers around the figures in a page.
pub const MARKERS: Markers = Markers {
    begin: "<!-- scale: written by `make bench-scale` -->\n",
    end: "<!-- end of scale -->\n",
};

/// How many images are changed while the operator is updated or killed: a minute, at the rate of the benchmark.
const CHANGES: usize = 1200;
/// When the operator is updated or killed, after the first change.
const DELAY: Duration = Duration::from_secs(15);
/// How many pods fail at the same time.
const PODS: usize = 5000;
/// How many images are changed while pods fail: ten seconds.
const CHANGES_BESIDE_PODS: usize = 200;
/// The generation that a Deployment controller has observed, at least as new as that of each Deployment.
const ANY_GENERATION: i64 = 1_000_000;
/// How long all statuses together may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The parameters of a measurement.
pub struct Bench<'a> {
    /// The operator.
    pub operator: PathBuf,
    /// How many apps there are.
    pub apps: usize,
    /// Reports progress.
    pub note: &'a mut dyn FnMut(&str),
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The date.
    pub date: String,
    /// How many apps there were.
    pub apps: usize,
    /// The creation of all apps.
    pub converge: Converge,
    /// The operator's CPU time for all apps, divided by their number, in milliseconds.
    pub cpu_ms_per_app: f64,
    /// The operator's memory at rest.
    pub settled_mib: f64,
    /// A steady minute.
    pub steady: Option<Steady>,
    /// A restart.
    pub restart: Restart,
    /// Changes of images, for each thing that happens to the operator in the meantime.
    pub changes: Vec<Changes>,
    /// Pods that fail at the same time.
    pub pods: FailingPods,
}

/// Changes of images at a constant rate.
#[derive(Clone, Debug)]
pub struct Changes {
    /// What happens to the operator in the meantime.
    pub disturbance: &'static str,
    /// From the answer to a change until the Deployment has the image, in milliseconds.
    pub times_ms: Spread,
    /// How many Deployments did not get their image.
    pub lost: usize,
    /// What 99 of 100 apps waited at most in the queue, in seconds.
    pub queued_s: Option<f64>,
    /// What 99 of 100 reconciles took at most, in seconds.
    pub reconciled_s: Option<f64>,
}

/// Pods that fail at the same time.
#[derive(Clone, Debug)]
pub struct FailingPods {
    /// How many there are, one for each app.
    pub count: usize,
    /// From the first until a watch has reported the last status that says why.
    pub until_reported_s: f64,
    /// From the first until the operator is at rest.
    pub until_rest_s: f64,
    /// The operator's CPU time.
    pub cpu_s: f64,
    /// Writes of statuses.
    pub statuses: usize,
    /// Other requests of the operator.
    pub others: usize,
    /// New images of other apps in the meantime, in milliseconds.
    pub times_ms: Spread,
}

impl Bench<'_> {
    /// Measures all cases with the same apps.
    ///
    /// # Errors
    /// When an app does not converge, or the operator exits.
    pub fn run(&mut self) -> Result<Figures> {
        let entry = Entry {
            contender: Contender::AppDeploy,
            program: Some(self.operator.clone()),
            crds: crds(),
        };
        let stage = Stage {
            cluster: Cluster::start(&entry)?,
            entry: &entry,
            keys: (0..self.apps).map(Key::of).collect(),
        };
        (self.note)("creates all");
        let mut program = stage.start()?;
        program.until_ready()?;
        let before = program.cpu()?;
        let converge = stage.converge(Some(&mut program))?;
        let cpu = program.cpu()?.saturating_sub(before);
        let steady = stage.steady(60, self.note)?;
        let settled_mib = program.memory()?.now_mib;
        (self.note)("starts again");
        program.stop()?;
        let (program, restart) = stage.restart()?;
        program.stop()?;

        // Where the Lease is.
        stage.cluster.apply(&manifest("manager/namespace")?)?;
        let mut leader = Leader::start(&entry, stage.cluster.kubeconfig(), &stage.cluster.log(), 0)?;
        leader.program.until_quiet()?;
        let mut changes = Vec::new();
        for (number, disturbance) in Disturbance::ALL.into_iter().enumerate() {
            (self.note)(&format!("changes images, {}", disturbance.words()));
            let (next, seen) = change(&stage, leader, disturbance, &image(10 + number))?;
            changes.push(seen);
            leader = next;
            leader.program.until_quiet()?;
        }
        (self.note)("pods fail");
        let pods = fail_pods(&stage, &mut leader.program)?;
        leader.program.stop()?;
        Ok(Figures {
            date: jiff::Timestamp::now().strftime("%F").to_string(),
            apps: self.apps,
            converge,
            cpu_ms_per_app: cpu.as_secs_f64() * 1000.0 / number(self.apps),
            settled_mib,
            steady,
            restart,
            changes,
            pods,
        })
    }
}

/// An operator that takes part in the election.
struct Leader {
    program: Program,
    /// Stands for its pod. A restarted container is in the same one.
    pod: usize,
}

impl Leader {
    /// Starts it, and waits until it is ready.
    fn start(entry: &Entry, kubeconfig: &Path, log: &Path, pod: usize) -> Result<Self> {
        let uid = pod.to_string();
        let mut program = Program::start_with(entry, kubeconfig, log, &["--leader-elect", "--pod-uid", &uid])?;
        program.until_ready()?;
        Ok(Self { program, pod })
    }
}

/// What happens to the operator while images change.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Nothing,
    RollingUpdate,
    Kill,
    KillWithFollower,
}

impl Disturbance {
    const ALL: [Self; 4] = [Self::Nothing, Self::RollingUpdate, Self::Kill, Self::KillWithFollower];

    const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing else happens",
            Self::RollingUpdate => "the operator is updated: a new one starts, then the old one is stopped",
            Self::Kill => "the container of the only operator is killed, and started again immediately",
            Self::KillWithFollower => "the leader of two is killed",
        }
    }

    /// Lets it happen. Returns the operator that leads after that.
    fn happen(self, mut leader: Leader, start: impl Fn(usize) -> Result<Leader>) -> Result<Leader> {
        match self {
            Self::Nothing => Ok(leader),
            Self::RollingUpdate => {
                let next = start(leader.pod + 1)?;
                leader.program.stop()?;
                Ok(next)
            }
            Self::Kill => {
                leader.program.kill()?;
                start(leader.pod)
            }
            Self::KillWithFollower => {
                let follower = start(leader.pod + 1)?;
                leader.program.kill()?;
                Ok(follower)
            }
        }
    }
}

fn change(stage: &Stage<'_>, leader: Leader, disturbance: Disturbance, image: &str) -> Result<(Leader, Changes)> {
    let changes = stage.changes(image, CHANGES)?;
    let (before, pid) = (Times::of(&leader.program)?, leader.program.pid());
    let (entry, kubeconfig) = (stage.entry, stage.cluster.kubeconfig());
    let log = stage.cluster.log();
    let start = move |pod| Leader::start(entry, kubeconfig, &log, pod);
    let (sent, leader) = thread::scope(|scope| {
        let happening = scope.spawn(move || {
            thread::sleep(DELAY);
            disturbance.happen(leader, start)
        });
        let sent = stage.block_on(send_all(&stage.cluster.people, &stage.cluster.observer, changes));
        let leader = happening
            .join()
            .unwrap_or_else(|_| Err(anyhow::anyhow!("the thread that restarts the operator has panicked")));
        (sent, leader)
    });
    let ((times_ms, lost), leader) = (sent?, leader?);
    let after = Times::of(&leader.program)?;
    let times = if leader.program.pid() == pid {
        after.since(&before)
    } else {
        after
    };
    let changes = Changes {
        disturbance: disturbance.words(),
        times_ms,
        lost,
        queued_s: times.queued.most(),
        reconciled_s: times.reconciled.most(),
    };
    Ok((leader, changes))
}

/// Creates a ready pod for each of many apps, and then lets all of them fail. The benchmark stands for the kubelet and for
/// the Deployment controller.
fn fail_pods(stage: &Stage<'_>, leader: &mut Program) -> Result<FailingPods> {
    let count = PODS.min(stage.keys.len() / 2);
    let (with_pods, others) = stage.keys.split_at(count);
    let requests = |request: fn(&Key) -> Result<Sent>| -> Result<Vec<(Key, Sent)>> {
        with_pods.iter().map(|key| Ok((key.clone(), request(key)?))).collect()
    };
    let send = |request| {
        stage
            .block_on(load(&stage.cluster.people, requests(request)?))
            .map(drop)
    };
    send(create_pod)?;
    send(|key| set_status::<Pod>(key, &ready()))?;
    send(|key| set_status::<Deployment>(key, &rollout(1)))?;
    leader.until_quiet()?;
    let (mark, cpu, begin) = (stage.cluster.mark()?, leader.cpu()?, Instant::now());
    let beside = Stage::change_images(others, &image(20), CHANGES_BESIDE_PODS)?;
    let reason = Reason::CrashLoop.as_str();
    let reported = stage.expect(with_pods, |_| move |seen: &Seen| seen.has_cause(reason));
    let of_pods = requests(|key| set_status::<Pod>(key, &failed()))?;
    let of_deployments = requests(|key| set_status::<Deployment>(key, &rollout(0)))?;
    let requests = of_pods
        .into_iter()
        .zip(of_deployments)
        .flat_map(|(pod, deployment)| [pod, deployment])
        .collect();
    let (failing, changing) = stage.block_on(async {
        tokio::join!(
            load(&stage.cluster.people, requests),
            send_all(&stage.cluster.people, &stage.cluster.observer, beside)
        )
    });
    failing?;
    let (times_ms, lost) = changing?;
    let reported = stage.block_on(stage.cluster.observer.wait_for_all(reported, TIMEOUT))?;
    let end = reported.values().max().context("there are no pods")?;
    let until_reported_s = end.saturating_duration_since(begin).as_secs_f64();
    ensure!(
        lost == 0,
        "{lost} Deployments did not get their image while pods failed"
    );
    leader.until_quiet()?;
    let until_rest_s = begin.elapsed().as_secs_f64();
    let (asked, _) = stage.cluster.since(mark)?;
    let asked = crate::cluster::tally(&asked);
    let of_statuses = asked.0.iter().filter(|(what, _)| what.contains("/status"));
    let statuses: usize = of_statuses.map(|(_, count)| count).sum();
    Ok(FailingPods {
        count,
        until_reported_s,
        until_rest_s,
        cpu_s: leader.cpu()?.saturating_sub(cpu).as_secs_f64(),
        statuses,
        others: asked.all() - statuses,
        times_ms,
    })
}

fn create_pod(key: &Key) -> Result<Sent> {
    let pod = json!({
        "metadata": {"name": key.name, "labels": {crd::label::APP: key.name}},
        "spec": {"containers": [{"name": "app", "image": image(1)}], "automountServiceAccountToken": false},
    });
    Ok(Request::new(Pod::url_path(&(), Some(&key.namespace)))
        .create(&PostParams::default(), pod.to_string().into_bytes())?)
}

fn set_status<K: Resource<DynamicType = ()>>(key: &Key, status: &Value) -> Result<Sent> {
    let patch = Patch::Merge(json!({"status": status}));
    Ok(Request::new(K::url_path(&(), Some(&key.namespace))).patch_subresource(
        "status",
        &key.name,
        &PatchParams::default(),
        &patch,
    )?)
}

fn ready() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{
        "name": "app", "image": image(1), "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]})
}

fn failed() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [{
        "name": "app", "image": image(1), "imageID": "", "ready": false, "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]})
}

/// The status of a Deployment with one pod.
fn rollout(ready: i32) -> Value {
    json!({"observedGeneration": ANY_GENERATION, "replicas": 1, "updatedReplicas": 1, "readyReplicas": ready,
        "availableReplicas": ready, "unavailableReplicas": 1 - ready})
}

/// Renders the figures as Markdown.
#[must_use]
pub fn results(figures: &Figures) -> String {
    let Figures {
        converge,
        restart,
        steady,
        pods,
        ..
    } = figures;
    let mut text = format!(
        "Measured on {} with the static program of the image, on a machine that also runs the API server, etcd and the benchmark.\n\n\
         | {} apps | |\n|---|---:|\n",
        figures.date,
        grouped(figures.apps),
    );
    let requests = steady.as_ref().map(|steady| number(steady.asked.all()));
    for (what, value) in [
        ("until all had converged, s", Some(converge.all_s)),
        ("operator, CPU ms for each app", Some(figures.cpu_ms_per_app)),
        (
            "API server and etcd, CPU s",
            Some(converge.apiserver_cpu_s + converge.etcd_cpu_s),
        ),
        ("operator, memory at rest, MiB", Some(figures.settled_mib)),
        ("requests in a steady minute", requests),
        ("restart: start to ready, ms", Some(restart.ready_ms)),
        ("restart: writes", Some(number(restart.asked.writes()))),
        ("restart: peak memory, MiB", Some(restart.peak_mib)),
        ("restart: a new app, ms", Some(restart.canary_ms)),
    ] {
        let _ = writeln!(text, "| {what} | {} |", value.map_or_else(|| "-".to_owned(), figure));
    }
    let _ = write!(
        text,
        "\n{} new images, {RATE} a second; the operator runs with `--leader-elect`:\n\n\
         | In the meantime | p50, ms | p99, ms | slowest, ms | lost | p99 in the queue, s | p99 of a reconcile, s |\n|---|---:|---:|---:|---:|---:|---:|\n",
        grouped(CHANGES)
    );
    let bound = |most: Option<f64>| most.map_or_else(|| "-".to_owned(), |most| format!("≤ {most}"));
    for changes in &figures.changes {
        let Spread { p50, p99, max, .. } = changes.times_ms;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            changes.disturbance,
            figure(p50),
            figure(p99),
            figure(max),
            changes.lost,
            bound(changes.queued_s),
            bound(changes.reconciled_s),
        );
    }
    let _ = write!(
        text,
        "\n| {} pods of as many apps fail at the same time | |\n|---|---:|\n",
        grouped(pods.count)
    );
    for (what, value) in [
        ("until the status of each app said why, s", pods.until_reported_s),
        ("until the operator was at rest, s", pods.until_rest_s),
        ("operator, CPU s", pods.cpu_s),
        ("writes of statuses", number(pods.statuses)),
        ("new image of another app in the meantime, p50, ms", pods.times_ms.p50),
        ("new image of another app in the meantime, p99, ms", pods.times_ms.p99),
    ] {
        let _ = writeln!(text, "| {what} | {} |", figure(value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section;

    #[test]
    fn page_has_markers_for_figures() {
        let page = std::fs::read_to_string(testcluster::checkout::root().join("docs/scale.md")).unwrap();
        assert!(section::replace(&page, MARKERS, "figures").is_some());
    }
}
