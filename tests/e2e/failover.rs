//! A leader that is deleted or killed under load.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use testcluster::checkout::Shell;
use testcluster::process::Process;

use crate::environment::{Environment, TestContext};

/// The maximum number of apps: more than are created during a takeover.
const MAX_APPS: usize = 500;
/// The number of apps before the leader ends, and after another one has taken over.
const BEFORE: usize = 12;
const AFTER: usize = 8;
/// How long API servers may call the webhook of the deleted pod.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);
const LEADER: &str = "kubectl get lease appdeploy-operator --namespace appdeploy-system \
                      --output jsonpath='{.spec.holderIdentity}'";
const RENEWED: &str = "kubectl get lease appdeploy-operator --namespace appdeploy-system \
                       --output jsonpath='{.spec.renewTime}'";
/// The time in the format of `renewTime`, in which later times are greater.
const NOW: &str = "date --utc +%Y-%m-%dT%H:%M:%S.%6NZ";
const KINDS: [&str; 3] = ["deployment", "service", "ingress"];

/// The progress of the load.
#[derive(Default)]
struct Load {
    apps: AtomicUsize,
    rejected: AtomicUsize,
    is_over: AtomicBool,
}

/// How the leader ends.
struct End {
    script: &'static str,
    /// Whether the next process may have the same name.
    keeps_name: bool,
}

/// The process receives SIGTERM, and releases the Lease.
const DELETE: End = End {
    script: "kubectl delete pod $POD --namespace appdeploy-system --grace-period=0 --force",
    keeps_name: false,
};
/// The process can't release the Lease. A new one starts in the same pod, and continues the Lease.
const KILL: End = End {
    script: r"
uid=$(kubectl get pod $POD --namespace appdeploy-system --output jsonpath='{.metadata.uid}')
for process in $(pgrep appdeploy-opera); do
    if grep --quiet pod$uid /proc/$process/cgroup; then kill -KILL $process; killed=yes; fi
done
test $killed = yes
",
    keeps_name: true,
};

pub fn children_are_created_once_while_the_leader_is_deleted(
    environment: &Environment,
    context: &TestContext,
) -> Result<()> {
    children_are_created_once(environment, context, &DELETE)
}

pub fn children_are_created_once_while_the_leader_is_killed(
    environment: &Environment,
    context: &TestContext,
) -> Result<()> {
    children_are_created_once(environment, context, &KILL)
}

fn children_are_created_once(environment: &Environment, context: &TestContext, end: &End) -> Result<()> {
    let settled = "kubectl rollout status deployment/appdeploy-operator --namespace appdeploy-system --timeout=2m";
    environment.shell.run(settled)?;
    let folder = context.kubeconfig.parent().unwrap_or(Path::new("."));
    let watches = KINDS.map(|kind| watch(&context.shell, kind, folder));
    let load = Load::default();
    let takeover = thread::scope(|scope| {
        let creation = scope.spawn(|| create_and_change(&context.shell, &load));
        let takeover = end_leader(&environment.shell, &context.shell, end, &load, || {
            creation.is_finished()
        });
        load.is_over.store(true, Ordering::Relaxed);
        creation
            .join()
            .unwrap_or_else(|_| bail!("the load panicked"))
            .and(takeover)
    })?;
    let apps = load.apps.into_inner();
    // All children exist, with the last change of their app.
    context
        .shell
        .run("kubectl wait appdeploy --all --for=condition=Ready --timeout=60s")?;
    have_last_changes(&context.shell, apps)?;
    for (kind, watch) in KINDS.iter().zip(watches) {
        let seen = std::fs::read_to_string(watch?.log()).context("failed to read the output of the watch")?;
        created_once(kind, &seen, apps)?;
    }
    environment.shell.run(settled)?;
    context.note(&format!(
        "new leader after {:.1} s, its first Deployment after {:.1} s; {} requests for {apps} apps, {} rejected; ",
        takeover.lease.as_secs_f64(),
        takeover.child.as_secs_f64(),
        2 * apps,
        load.rejected.into_inner()
    ));
    Ok(())
}

/// The times from the end of the leader.
struct Takeover {
    /// Until another process had the Lease.
    lease: Duration,
    /// Until another process had created a child of a new app.
    child: Duration,
}

/// Creates apps and changes existing ones, until the load is over.
fn create_and_change(shell: &Shell, load: &Load) -> Result<()> {
    for number in 0..MAX_APPS {
        if load.is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Without pods, whose start would slow down the node.
        let app = format!(
            "kubectl apply --filename - <<'END'\n\
             apiVersion: appdeploy.dev/v1alpha1\nkind: AppDeploy\nmetadata: {{ name: app-{number} }}\n\
             spec: {{ image: 'nginx:1.29', port: 80, replicas: 0, env: [{{ name: ROUND, value: '1' }}] }}\nEND\n"
        );
        store(shell, &app, load)?;
        load.apps.store(number + 1, Ordering::Relaxed);
        let round = r#"[{"op":"replace","path":"/spec/env/0/value","value":"2"}]"#;
        let change = format!("kubectl patch appdeploy app-{} --type json -p '{round}'", number / 2);
        store(shell, &change, load)?;
    }
    bail!("no other process was the leader after {MAX_APPS} apps")
}

/// Errors after which a request is repeated: the webhook does not answer, or a process answers whose pod was deleted with `--force`,
/// and whose token the API server no longer accepts.
const TEMPORARY: [&str; 2] = [
    "failed calling webhook",
    "could not be reviewed, try again: Unauthorized",
];

/// Runs a command, and repeats it after temporary errors.
fn store(shell: &Shell, command: &str, load: &Load) -> Result<()> {
    let first = Instant::now();
    loop {
        match shell.run(command) {
            Ok(_) => return Ok(()),
            Err(error) => {
                let text = error.to_string();
                let is_temporary = TEMPORARY.iter().any(|error| text.contains(error));
                ensure!(is_temporary && first.elapsed() < WEBHOOK_TIMEOUT, error);
                load.rejected.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Ends the leader, and returns after another process has taken over and more apps were created.
fn end_leader(outside: &Shell, shell: &Shell, end: &End, load: &Load, is_over: impl Fn() -> bool) -> Result<Takeover> {
    let created = || load.apps.load(Ordering::Relaxed);
    until(|| Ok(is_over() || created() >= BEFORE))?;
    let leader = outside.run(LEADER)?;
    let (pod, _) = leader.split_once('_').context("the Lease has no holder")?;
    let killed = Instant::now();
    outside.run(&format!("POD={pod}\n{}", end.script))?;
    let ended = outside.run(NOW)?;
    // The first app that is created after the current one.
    let next = created() + 1;
    until(|| {
        let now = outside.run(LEADER)?;
        let continues = end.keeps_name && outside.run(RENEWED)?.trim() > ended.trim();
        Ok(is_over() || (!now.is_empty() && now != leader) || continues)
    })?;
    let lease = killed.elapsed();
    shell.run(&format!(
        "kubectl wait deployment/app-{next} --for=create --timeout=60s"
    ))?;
    let child = killed.elapsed();
    let enough = created() + AFTER;
    until(|| Ok(is_over() || created() >= enough))?;
    Ok(Takeover { lease, child })
}

fn until(mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        ensure!(
            start.elapsed() < Duration::from_secs(120),
            "no leader, or no app was created, within 120 s"
        );
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Records the events of all objects of a kind.
fn watch(shell: &Shell, kind: &str, folder: &Path) -> Result<Process> {
    let line = r#"{.type}{" "}{.object.metadata.name}{" "}{.object.metadata.uid}{"\n"}"#;
    let command = shell.command(&format!(
        "exec kubectl get {kind} --watch --output-watch-events --output jsonpath='{line}'"
    ));
    Process::spawn(&command, &folder.join(kind)).with_context(|| format!("failed to watch each {kind}"))
}

fn created_once(kind: &str, seen: &str, apps: usize) -> Result<()> {
    let mut uids: BTreeMap<&str, &str> = BTreeMap::new();
    for line in seen.lines().filter(|line| line.starts_with(char::is_uppercase)) {
        let words: Vec<&str> = line.split(' ').collect();
        let [event, name, uid] = words[..] else {
            bail!("unexpected line of the watch of {kind}: {line}");
        };
        ensure!(event != "DELETED", "{kind} {name} was deleted");
        let first = uids.entry(name).or_insert(uid);
        ensure!(*first == uid, "{kind} {name} was created twice");
    }
    ensure!(
        uids.len() == apps,
        "{apps} apps have {} objects of kind {kind}",
        uids.len()
    );
    Ok(())
}

/// Checks that each Deployment has the last change of its app.
fn have_last_changes(shell: &Shell, apps: usize) -> Result<()> {
    let text = shell.run("kubectl get appdeploy,deployment --output json")?;
    let objects: Value = serde_json::from_str(&text).context("invalid JSON of kubectl")?;
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
    ensure!(wanted.len() == apps, "expected {apps} apps, not {}", wanted.len());
    ensure!(found == wanted, "the apps have {wanted:?}, their Deployments {found:?}");
    Ok(())
}
