//! Two operators, of which the one that writes is killed while there is much to do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use testcluster::checkout::Shell;
use testcluster::process::Process;

use crate::world::{Space, World};

/// More apps than are made while one operator takes over from another, here.
const MOST: usize = 500;
/// How many there are before the kill, and how many more once another operator leads.
const BEFORE: usize = 12;
const AFTER: usize = 8;
/// How long API servers may take to hear that a webhook's pod is gone.
const REFUSED_FOR: Duration = Duration::from_secs(30);
const LEADER: &str = "kubectl get lease appdeploy-operator --namespace appdeploy-system \
                      --output jsonpath='{.spec.holderIdentity}'";
const KINDS: [&str; 3] = ["deployment", "service", "ingress"];

/// What became of the load.
#[derive(Default)]
struct Load {
    apps: AtomicUsize,
    refused: AtomicUsize,
    over: AtomicBool,
}

/// Its process hears of it, and gives the Lease back.
const DELETE: &str = r"kubectl delete pod $POD --namespace appdeploy-system --grace-period=0 --force";
/// Its process hears nothing; a new one starts in the same pod.
const KILL: &str = r"
uid=$(kubectl get pod $POD --namespace appdeploy-system --output jsonpath='{.metadata.uid}')
for process in $(pgrep appdeploy-opera); do
    if grep --quiet pod$uid /proc/$process/cgroup; then kill -KILL $process; killed=yes; fi
done
test $killed = yes
";

pub fn each_child_is_made_once_while_the_leader_is_deleted(world: &World, space: &Space) -> Result<()> {
    each_child_is_made_once(world, space, DELETE)
}

pub fn each_child_is_made_once_while_the_leader_is_killed(world: &World, space: &Space) -> Result<()> {
    each_child_is_made_once(world, space, KILL)
}

fn each_child_is_made_once(world: &World, space: &Space, kill: &str) -> Result<()> {
    let settled = "kubectl rollout status deployment/appdeploy-operator --namespace appdeploy-system --timeout=2m";
    world.shell.run(settled)?;
    let folder = space.kubeconfig.parent().unwrap_or(Path::new("."));
    let watches = KINDS.map(|kind| watch(&space.shell, kind, folder));
    let load = Load::default();
    let took = thread::scope(|scope| {
        let making = scope.spawn(|| make_and_change(&space.shell, &load));
        let took = end_the_leader(&world.shell, &space.shell, kill, &load, || making.is_finished());
        load.over.store(true, Ordering::Relaxed);
        making.join().unwrap_or_else(|_| bail!("the load panicked")).and(took)
    })?;
    let apps = load.apps.into_inner();
    // All children are there, and as the last change of each app wants them.
    space
        .shell
        .run("kubectl wait appdeploy --all --for=condition=Ready --timeout=60s")?;
    as_wanted(&space.shell, apps)?;
    for (kind, watch) in KINDS.iter().zip(watches) {
        let seen = std::fs::read_to_string(watch?.log()).context("failed to read what the watch saw")?;
        made_once(kind, &seen, apps)?;
    }
    world.shell.run(settled)?;
    space.note(&format!(
        "another leads after {:.1} s and has made a Deployment after {:.1} s; of {} requests for {apps} apps {} were \
         refused meanwhile; ",
        took.to_lead.as_secs_f64(),
        took.to_work.as_secs_f64(),
        2 * apps,
        load.refused.into_inner()
    ));
    Ok(())
}

/// How long after the kill it was until another operator
struct Took {
    /// had the Lease,
    to_lead: Duration,
    /// had made a child of an app that was not there before.
    to_work: Duration,
}

/// Creates an app, and changes one that is there, until it is told to stop.
fn make_and_change(shell: &Shell, load: &Load) -> Result<()> {
    for number in 0..MOST {
        if load.over.load(Ordering::Relaxed) {
            return Ok(());
        }
        // No pods: their start would be the load, and they are not the operator's.
        let app = format!(
            "kubectl apply --filename - <<'END'\n\
             apiVersion: appdeploy.dev/v1alpha1\nkind: AppDeploy\nmetadata: {{ name: app-{number} }}\n\
             spec: {{ image: 'nginx:1.29', port: 80, replicas: 0, env: [{{ name: ROUND, value: '1' }}] }}\nEND\n"
        );
        stored(shell, &app, load)?;
        load.apps.store(number + 1, Ordering::Relaxed);
        let round = r#"[{"op":"replace","path":"/spec/env/0/value","value":"2"}]"#;
        let change = format!("kubectl patch appdeploy app-{} --type json -p '{round}'", number / 2);
        stored(shell, &change, load)?;
    }
    bail!("there were {MOST} apps before another operator led")
}

/// Runs a command, again if it is refused because no webhook answers.
fn stored(shell: &Shell, command: &str, load: &Load) -> Result<()> {
    let first = Instant::now();
    loop {
        match shell.run(command) {
            Ok(_) => return Ok(()),
            Err(error) => {
                let by_webhook = error.to_string().contains("failed calling webhook");
                ensure!(by_webhook && first.elapsed() < REFUSED_FOR, error);
                load.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Ends the one that leads, and returns when another has taken over and there was some more to do.
fn end_the_leader(
    outside: &Shell,
    shell: &Shell,
    kill: &str,
    load: &Load,
    given_up: impl Fn() -> bool,
) -> Result<Took> {
    let made = || load.apps.load(Ordering::Relaxed);
    until(|| Ok(given_up() || made() >= BEFORE))?;
    let leader = outside.run(LEADER)?;
    let (pod, _) = leader.split_once('_').context("the Lease names no pod")?;
    let killed = Instant::now();
    outside.run(&format!("POD={pod}\n{kill}"))?;
    // The one after the one that is being made.
    let next = made() + 1;
    until(|| {
        let now = outside.run(LEADER)?;
        Ok(given_up() || (!now.is_empty() && now != leader))
    })?;
    let to_lead = killed.elapsed();
    shell.run(&format!(
        "kubectl wait deployment/app-{next} --for=create --timeout=60s"
    ))?;
    let to_work = killed.elapsed();
    let enough = made() + AFTER;
    until(|| Ok(given_up() || made() >= enough))?;
    Ok(Took { to_lead, to_work })
}

fn until(mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        ensure!(
            start.elapsed() < Duration::from_secs(120),
            "nobody leads, or nothing is stored"
        );
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Writes down whatever becomes of the objects of a kind.
fn watch(shell: &Shell, kind: &str, folder: &Path) -> Result<Process> {
    let line = r#"{.type}{" "}{.object.metadata.name}{" "}{.object.metadata.uid}{"\n"}"#;
    let command = shell.command(&format!(
        "exec kubectl get {kind} --watch --output-watch-events --output jsonpath='{line}'"
    ));
    Process::spawn(&command, &folder.join(kind)).with_context(|| format!("failed to watch each {kind}"))
}

fn made_once(kind: &str, seen: &str, apps: usize) -> Result<()> {
    let mut uids: BTreeMap<&str, &str> = BTreeMap::new();
    for line in seen.lines().filter(|line| line.starts_with(char::is_uppercase)) {
        let words: Vec<&str> = line.split(' ').collect();
        let [event, name, uid] = words[..] else {
            bail!("the watch of each {kind} said {line}");
        };
        ensure!(event != "DELETED", "{kind} {name} was deleted");
        let first = uids.entry(name).or_insert(uid);
        ensure!(*first == uid, "{kind} {name} was made twice");
    }
    ensure!(uids.len() == apps, "{apps} apps got {} of kind {kind}", uids.len());
    Ok(())
}

/// Checks that each Deployment has the last change of its app.
fn as_wanted(shell: &Shell, apps: usize) -> Result<()> {
    let text = shell.run("kubectl get appdeploy,deployment --output json")?;
    let objects: Value = serde_json::from_str(&text).context("kubectl printed no JSON")?;
    let envs = |kind: &str, at: &str| -> BTreeMap<String, Value> {
        let all = objects["items"].as_array().into_iter().flatten();
        all.filter(|object| object["kind"] == kind)
            .map(|object| {
                (
                    object["metadata"]["name"].to_string(),
                    object.pointer(at).cloned().unwrap_or_default(),
                )
            })
            .collect()
    };
    let wanted = envs("AppDeploy", "/spec/env");
    let found = envs("Deployment", "/spec/template/spec/containers/0/env");
    ensure!(wanted.len() == apps, "of {apps} apps there are {}", wanted.len());
    ensure!(
        found == wanted,
        "the apps want {wanted:?}, their Deployments have {found:?}"
    );
    Ok(())
}
