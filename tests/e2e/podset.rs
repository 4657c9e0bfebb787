//! A set of pods on a real node.

mod load;

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};

use crate::story::has;
use crate::world::{Space, World};
use load::{Load, Outcome};

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

/// Serves pages from the image of nginx, and exits after two seconds in an image without it. No port is named, so no probe
/// asks whether it works.
const SERVER: &str =
    r#"["sh","-c","if [ -x /usr/sbin/nginx ]; then exec nginx -g 'daemon off;'; fi; sleep 2; exit 1"]"#;

/// The images contain the same, so only their names differ; kubelets restart the containers all the same.
pub fn image_is_pinned_by_digest_under_load(world: &World, space: &Space) -> Result<()> {
    serve(space)?;
    let id = space
        .shell
        .run("kubectl get pod web-0 --output jsonpath='{.status.containerStatuses[0].imageID}'")?;
    let (_, digest) = id.split_once('@').with_context(|| format!("{id} has no digest"))?;
    let outcome = change(world, space, &[&format!("nginx@{digest}")])?;
    report(space, "digest pin", outcome)
}

pub fn image_is_respelled_under_load(world: &World, space: &Space) -> Result<()> {
    serve(space)?;
    let outcome = change(world, space, &["docker.io/library/nginx:1.28"])?;
    report(space, "respelled image", outcome)
}

pub fn image_is_changed_and_changed_back_under_load(world: &World, space: &Space) -> Result<()> {
    serve(space)?;
    let outcome = change(world, space, &["nginx:1.29", "nginx:1.28"])?;
    report(space, "v1, v2, v1", outcome)
}

/// Without a readiness probe each of these containers is ready for two seconds.
pub fn image_that_exits_stays_in_one_pod_under_load(world: &World, space: &Space) -> Result<()> {
    let addresses = serve(space)?;
    let load = Load::start(&world.node()?, addresses.service, addresses.pods);
    set_image(space, "busybox:1.37")?;
    let shell = &space.shell;
    shell.run("kubectl wait podset/web --for=jsonpath='{.status.cause.reason}'=CrashLoop --timeout=1m")?;
    // Long enough for more than one restart of the container.
    shell.run("sleep 20")?;
    let images = shell.run(&format!("{PODS}'{{.items[*].spec.containers[0].image}}'"))?;
    let tried = images.split(' ').filter(|image| *image == "busybox:1.37").count();
    ensure!(tried == 1, "it has spread: {images}");
    set_image(space, "nginx:1.28")?;
    settle(space, "nginx:1.28")?;
    report(space, "image that exits", load.stop()?)
}

const PODS: &str = "kubectl get pods --selector appdeploy.dev/podset=web --sort-by .metadata.name --output jsonpath=";

/// Where requests go.
struct Addresses {
    service: SocketAddr,
    pods: Vec<SocketAddr>,
}

/// Creates a set of three pods behind a Service.
fn serve(space: &Space) -> Result<Addresses> {
    let shell = &space.shell;
    shell.run(&format!(
        r#"kubectl apply -f - <<'END'
apiVersion: appdeploy.dev/v1alpha1
kind: PodSet
metadata: {{name: web}}
spec: {{replicas: 3, maxUnavailable: 1, template: {{image: "nginx:1.28", command: {SERVER}}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{appdeploy.dev/podset: web}}, ports: [{{port: 80}}]}}
END
kubectl wait podset/web --for=condition=Ready --timeout=2m"#
    ))?;
    addresses(space)
}

fn addresses(space: &Space) -> Result<Addresses> {
    let shell = &space.shell;
    let address = |ip: &str| -> Result<SocketAddr> { format!("{ip}:80").parse().with_context(|| format!("{ip:?}")) };
    let pods = shell.run(&format!("{PODS}'{{.items[*].status.podIP}}'"))?;
    Ok(Addresses {
        service: address(&shell.run("kubectl get service web --output jsonpath='{.spec.clusterIP}'")?)?,
        pods: pods.split_whitespace().map(address).collect::<Result<_>>()?,
    })
}

/// Changes the image while requests are sent, in quick succession if to several, and waits until all pods run the last one.
fn change(world: &World, space: &Space, images: &[&str]) -> Result<Outcome> {
    let Addresses { service, pods } = addresses(space)?;
    let load = Load::start(&world.node()?, service, pods);
    for image in images {
        set_image(space, image)?;
    }
    settle(space, images.last().context("no image")?)?;
    load.stop()
}

fn set_image(space: &Space, image: &str) -> Result<()> {
    let patch = format!(r#"{{"spec":{{"template":{{"image":"{image}"}}}}}}"#);
    space
        .shell
        .run(&format!("kubectl patch podset web --type merge -p '{patch}'"))
        .map(drop)
}

fn settle(space: &Space, image: &str) -> Result<()> {
    let shell = &space.shell;
    shell.run(
        r"generation=$(kubectl get podset web --output jsonpath='{.metadata.generation}') &&
        kubectl wait podset/web --for=jsonpath='{.status.observedGeneration}'=$generation --timeout=1m &&
        kubectl wait podset/web --for=jsonpath='{.status.updatedReplicas}'=3 --timeout=3m &&
        kubectl wait podset/web --for=condition=Ready --timeout=2m",
    )?;
    let images = shell.run(&format!("{PODS}'{{.items[*].spec.containers[0].image}}'"))?;
    ensure!(
        images.split(' ').all(|other| other == image),
        "they are to run {images}"
    );
    // As ready as it was said: what runs a moment later is what ran before.
    let containers = format!("{PODS}'{{.items[*].status.containerStatuses[0].containerID}}'");
    let before = shell.run(&containers)?;
    let after = shell.run(&format!("sleep 5; {containers}"))?;
    ensure!(before == after, "containers have restarted after all were ready");
    Ok(())
}

/// Notes what came of the requests, and fails if more pods were down at a time than may be.
fn report(space: &Space, what: &str, outcome: Outcome) -> Result<()> {
    let Outcome {
        requests,
        dropped,
        most_down,
    } = outcome;
    space.note(&format!(
        "{what}: {dropped} of {requests} requests dropped, {most_down} pods down at a time; "
    ));
    ensure!(requests > 100, "there were only {requests} requests");
    ensure!(most_down <= 1, "{most_down} pods were down at a time");
    Ok(())
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
