//! A set of pods on a real node.

use anyhow::{Result, ensure};

use crate::story::has;
use crate::world::{Space, World};

const SORTED: &str = "kubectl get pods --selector appdeploy.dev/podset=workers --output name | sort";

/// Row by row what the first operator tutorial of many people does: three pods, one deleted by hand, five, one, none.
pub fn pods_are_kept_scaled_and_deleted(_: &World, space: &Space) -> Result<()> {
    let shell = &space.shell;
    shell.run("kubectl appdeploy podset create workers --replicas 3 --wait")?;
    let uid = "kubectl get pod workers-1 --output jsonpath='{.metadata.uid}'";
    let before = shell.run(uid)?;
    shell.run("kubectl delete pod workers-1 && kubectl wait pod/workers-1 --for=create --timeout=60s")?;
    ensure!(shell.run(uid)? != before, "it is the same pod");
    shell.run("kubectl appdeploy podset scale workers --replicas 5 --wait")?;
    names(
        space,
        &["workers-0", "workers-1", "workers-2", "workers-3", "workers-4"],
    )?;
    shell.run("kubectl scale podset workers --replicas 1")?;
    shell.run("kubectl wait podset/workers --for=jsonpath='{.status.replicas}'=1 --timeout=60s")?;
    let left = shell.run("kubectl get podset workers --output jsonpath='{.status.podNames[*]}'")?;
    ensure!(left.split(' ').count() == 1, "the status still names {left}");
    shell.run("kubectl appdeploy podset delete workers")?;
    let left = shell.run("kubectl get podset,pod --output name")?;
    ensure!(left.trim().is_empty(), "this is left: {left}");
    Ok(())
}

/// What a ReplicaSet can't do: the containers are new, and the pods are the same.
pub fn an_image_is_changed_in_place(_: &World, space: &Space) -> Result<()> {
    let shell = &space.shell;
    shell.run("kubectl appdeploy podset create web --image nginx:1.28 --port 80 --replicas 2 --wait")?;
    let pods = "kubectl get pods --selector appdeploy.dev/podset=web --sort-by .metadata.name --output jsonpath=";
    let identity =
        format!("{pods}'{{range .items[*]}}{{.metadata.uid}} {{.spec.nodeName}} {{.status.podIP}}\n{{end}}'");
    let containers = format!("{pods}'{{.items[*].status.containerStatuses[*].containerID}}'");
    let images = format!("{pods}'{{.items[*].spec.containers[*].image}}'");
    let (pods_before, containers_before) = (shell.run(&identity)?, shell.run(&containers)?);
    shell.run(
        r#"kubectl patch podset web --type merge -p '{"spec":{"template":{"image":"nginx:1.29"}}}' &&
        kubectl wait podset/web --for=jsonpath='{.status.updatedReplicas}'=2 --timeout=2m &&
        kubectl wait podset/web --for=condition=Ready --timeout=2m"#,
    )?;
    has(&shell.run(&images)?, &["nginx:1.29 nginx:1.29"])?;
    let pods_after = shell.run(&identity)?;
    ensure!(
        pods_after == pods_before,
        "before:\n{pods_before}\nafter:\n{pods_after}"
    );
    let containers_after = shell.run(&containers)?;
    for container in containers_before.split(' ') {
        ensure!(!containers_after.contains(container), "{container} still runs");
    }
    shell.run("kubectl appdeploy podset delete web").map(drop)
}

fn names(space: &Space, wanted: &[&str]) -> Result<()> {
    let pods = space.shell.run(SORTED)?;
    let names: Vec<&str> = pods.lines().map(|line| line.trim_start_matches("pod/")).collect();
    ensure!(names == wanted, "there are {names:?}");
    let told = space
        .shell
        .run("kubectl get podset workers --output jsonpath='{.status.podNames[*]}'")?;
    ensure!(told.split(' ').eq(wanted.iter().copied()), "the status names {told}");
    Ok(())
}
