//! Logs of the pods of apps and pod sets.

use anyhow::{Result, ensure};

use testcluster::checkout::Shell;

use crate::environment::{Environment, TestContext};
use crate::story::has;

/// An app whose pods print their name repeatedly.
const TALKER: &str = r"
kubectl apply --filename - <<'END'
apiVersion: appdeploy.dev/v1alpha1
kind: AppDeploy
metadata:
  name: talker
spec:
  image: busybox
  command: [sh, -c, 'trap exit TERM; n=0; while :; do echo line $n of $HOSTNAME; n=$((n + 1)); sleep 0.2 & wait; done']
END
kubectl wait appdeploy/talker --for=condition=Ready --timeout=90s
";

/// A pod set whose container prints a line and exits.
const CRASHER: &str = r"
kubectl appdeploy podset create crasher --replicas 1 --image busybox --command -- sh -c 'echo last words; exit 3'
kubectl wait pod/crasher-0 --for=create --timeout=60s
kubectl wait pod/crasher-0 --for=jsonpath='{.status.containerStatuses[0].restartCount}'=1 --timeout=90s
";

/// The status may still name a container that the kubelet has removed after a later one exited.
const PREVIOUS: &str =
    "for i in $(seq 120); do kubectl appdeploy podset logs crasher --previous && exit; sleep 0.5; done; exit 1";

pub fn logs_of_all_pods_are_printed(_: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    shell.run(TALKER)?;
    // The lines of a single pod have no prefix, and all of them are printed.
    let one = shell.run("kubectl appdeploy logs talker")?;
    ensure!(one.starts_with("line 0 of talker-"), "{one}");
    ensure!(shell.run("kubectl appdeploy logs talker --tail 2")?.lines().count() == 2);
    let timed = shell.run("kubectl appdeploy logs talker --tail 1 --timestamps")?;
    ensure!(timed.contains("Z line "), "{timed}");

    // `--follow` includes new pods from their first line on.
    let followed = shell.run(
        "file=$(mktemp)
        kubectl appdeploy logs talker --follow --tail 1 > $file &
        follower=$!
        trap 'kill $follower' EXIT
        kubectl appdeploy scale talker --replicas 2 --wait > /dev/null
        until grep --quiet ' | line 0 of ' $file; do kill -0 $follower; sleep 0.2; done
        trap - EXIT
        kill $follower
        cat $file && rm $file",
    )?;
    let mut pods: Vec<&str> = followed
        .lines()
        .filter_map(|line| Some(line.split_once(" | ")?.0))
        .collect();
    pods.sort_unstable();
    pods.dedup();
    ensure!(pods.len() == 2, "expected two pods, not {pods:?}:\n{followed}");
    for line in followed.lines() {
        let (pod, words) = line.split_once(" | ").unwrap_or_default();
        ensure!(
            !pod.is_empty() && words.ends_with(pod),
            "the line of another pod: {line}"
        );
    }
    let both = shell.run("kubectl appdeploy logs talker")?;
    ensure!(both.lines().count() == 20, "expected ten lines of each pod:\n{both}");

    several_apps(shell)?;
    shell.run(CRASHER)?;
    has(&shell.run(PREVIOUS)?, &["last words"])
}

/// Lines of several apps have the pod as prefix. Only matching lines are printed.
fn several_apps(shell: &Shell) -> Result<()> {
    shell.run(
        "kubectl appdeploy create other -l team=x --image busybox --command \\
           -- sh -c 'echo hello; echo bye; exec sleep 1000'
        kubectl wait appdeploy/other --for=condition=Ready --timeout=90s",
    )?;
    let both = shell.run("kubectl appdeploy logs talker other --tail 2")?;
    ensure!(
        both.lines().count() == 6,
        "expected two lines of each of three pods:\n{both}"
    );
    has(&both, &["talker-", "other-", " | bye"])?;
    let labelled = shell.run("kubectl appdeploy logs -l team=x")?;
    ensure!(labelled == "hello\nbye\n", "{labelled}");
    let matching = shell.run("kubectl appdeploy logs --all --tail=-1 --include='^(hello|bye)$' --exclude=bye")?;
    ensure!(
        matching.lines().count() == 1 && matching.ends_with(" | hello\n"),
        "{matching}"
    );
    let followed = shell.run("timeout 5 kubectl appdeploy logs talker other -f --include='^bye' || true")?;
    ensure!(followed.ends_with(" | bye\n"), "{followed}");
    let many = shell.run("! kubectl appdeploy logs --all -f --max-log-requests=1 2>&1")?;
    has(&many, &["3 logs are selected, and at most 1 are followed"])
}
