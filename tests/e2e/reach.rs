//! `exec` and `port-forward`, also during a rollout, and `events`.

use anyhow::{Result, ensure};

use crate::environment::{Environment, TestContext};
use crate::story::has;

/// Requests the page before and after all pods are replaced, through the same forwarded port.
const ROLLOUT: &str = r"
log=$(mktemp)
kubectl appdeploy port-forward reach :80 > $log &
forward=$!
until grep -q Forwarding $log; do sleep 0.1; done
port=$(sed 's/.*127.0.0.1:\([0-9]*\) .*/\1/' $log)
page=$(curl --silent --show-error --fail http://127.0.0.1:$port/) || exit 1
before=$(kubectl get pods -l appdeploy.dev/app=reach -o name)
kubectl rollout restart deployment/reach > /dev/null
kubectl wait $before --for=delete --timeout=120s > /dev/null
page=$(curl --silent --show-error --fail http://127.0.0.1:$port/) || exit 1
kill $forward
rm $log
echo $page
";

pub fn exec_and_port_forward_reach_pods(_: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    shell.run("kubectl appdeploy create reach --image nginx --port 80 --wait --timeout 3m")?;

    // Standard output, standard error and the exit code are passed on.
    let out = shell.run("kubectl appdeploy exec reach -- sh -c 'echo out; echo err >&2' 2> /dev/null")?;
    ensure!(out.trim() == "out", "{out:?}");
    let code = shell.run("kubectl appdeploy exec reach -- sh -c 'exit 42' || echo $?")?;
    ensure!(code.trim() == "42", "{code:?}");
    let counted = shell.run("printf 'one two\nthree' | kubectl appdeploy exec reach -i -- wc -w")?;
    ensure!(counted.trim() == "3", "{counted:?}");
    let size = shell.run("head -c 300000 /dev/zero | kubectl appdeploy exec reach -i -- cat | wc -c")?;
    ensure!(size.trim() == "300000", "{size:?}");
    let not_found = shell.run("kubectl appdeploy exec reach -- no-such-command 2>&1 || echo code $?")?;
    has(&not_found, &["error: the command could not be run", "code 1"])?;
    let other_pod = shell.run("kubectl appdeploy exec reach --pod nope -- true 2>&1 || echo code $?")?;
    has(
        &other_pod,
        &["error: nope is not a pod of reach", "why:  it has reach-", "code 1"],
    )?;

    has(&shell.run(ROLLOUT)?, &["Welcome to nginx"])?;

    let events = shell.run("kubectl appdeploy events reach")?;
    has(
        &events,
        &["Deployment/reach", "ReplicaSet/reach-", "Pod/reach-", "Pulled"],
    )?;
    let container = shell.run("kubectl appdeploy logs reach --all-containers --prefix")?;
    has(&container, &["/app | "])
}
