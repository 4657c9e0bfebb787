//! What a person does with the pods of an app: look into one, talk to one, and go on through a rollout.

use anyhow::{Result, ensure};

use crate::story::has;
use crate::world::{Space, World};

/// Asks for the page over and over while all pods are replaced.
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

pub fn pods_are_reached(_: &World, space: &Space) -> Result<()> {
    let shell = &space.shell;
    shell.run("kubectl appdeploy create reach --image nginx --port 80 --wait --timeout 3m")?;

    // What it writes is passed on, apart, and so is how it ends.
    let said = shell.run("kubectl appdeploy exec reach -- sh -c 'echo out; echo err >&2' 2> /dev/null")?;
    ensure!(said.trim() == "out", "{said:?}");
    let code = shell.run("kubectl appdeploy exec reach -- sh -c 'exit 42' || echo $?")?;
    ensure!(code.trim() == "42", "{code:?}");
    let typed = shell.run("printf 'one two\nthree' | kubectl appdeploy exec reach -i -- wc -w")?;
    ensure!(typed.trim() == "3", "{typed:?}");
    let much = shell.run("head -c 300000 /dev/zero | kubectl appdeploy exec reach -i -- cat | wc -c")?;
    ensure!(much.trim() == "300000", "{much:?}");
    let nothing = shell.run("kubectl appdeploy exec reach -- no-such-command 2>&1 || echo code $?")?;
    has(&nothing, &["error: the command could not be run", "code 1"])?;
    let nobody = shell.run("kubectl appdeploy exec reach --pod nope -- true 2>&1 || echo code $?")?;
    has(
        &nobody,
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
