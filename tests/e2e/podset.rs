//! Pod sets on a real node.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};

use crate::environment::{Environment, TestContext};
use crate::load::{Load, Outcome};
use crate::story::has;

const SORTED: &str = "kubectl get pods --selector appdeploy.dev/podset=workers --output name | sort";

/// As in many tutorials for operators: three pods, one is deleted by hand, then five, one and none.
pub fn pods_are_replaced_scaled_and_deleted(_: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    shell.run("kubectl appdeploy podset create workers --replicas 3 --wait")?;
    let uid = "kubectl get pod workers-1 --output jsonpath='{.metadata.uid}'";
    let before = shell.run(uid)?;
    shell.run("kubectl delete pod workers-1 && kubectl wait pod/workers-1 --for=create --timeout=60s")?;
    ensure!(shell.run(uid)? != before, "the pod was not replaced");
    shell.run("kubectl appdeploy podset scale workers --replicas 5 --wait")?;
    names(
        context,
        &["workers-0", "workers-1", "workers-2", "workers-3", "workers-4"],
    )?;
    shell.run("kubectl scale podset workers --replicas 1")?;
    shell.run("kubectl wait podset/workers --for=jsonpath='{.status.replicas}'=1 --timeout=60s")?;
    let left = shell.run("kubectl get podset workers --output jsonpath='{.status.podNames[*]}'")?;
    ensure!(left.split(' ').count() == 1, "the status still names {left}");
    shell.run("kubectl appdeploy podset delete workers")?;
    let left = shell.run("kubectl get podset,pod --output name")?;
    ensure!(left.trim().is_empty(), "these objects are left: {left}");
    Ok(())
}

/// Unlike with a ReplicaSet, the containers are new and the pods are the same.
pub fn image_is_changed_in_place(_: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
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

/// Serves pages in the image of nginx, and exits after a second in an image without it. There is no port, so there is no
/// probe.
const SERVER: &str =
    r#"["sh","-c","if [ -x /usr/sbin/nginx ]; then exec nginx -g 'daemon off;'; fi; sleep 1; exit 1"]"#;

/// The images have the same content and other names, and kubelets restart the containers.
pub fn image_is_pinned_by_digest_under_load(environment: &Environment, context: &TestContext) -> Result<()> {
    serve(context)?;
    let id = context
        .shell
        .run("kubectl get pod web-0 --output jsonpath='{.status.containerStatuses[0].imageID}'")?;
    let (_, digest) = id.split_once('@').with_context(|| format!("{id} has no digest"))?;
    let outcome = change(environment, context, &[&format!("nginx@{digest}")])?;
    report(context, "digest pin", outcome)
}

pub fn image_is_respelled_under_load(environment: &Environment, context: &TestContext) -> Result<()> {
    serve(context)?;
    let outcome = change(environment, context, &["docker.io/library/nginx:1.28"])?;
    report(context, "respelled image", outcome)
}

pub fn image_is_changed_and_changed_back_under_load(environment: &Environment, context: &TestContext) -> Result<()> {
    serve(context)?;
    let outcome = change(environment, context, &["nginx:1.29", "nginx:1.28"])?;
    report(context, "v1, v2, v1", outcome)
}

/// Without a readiness probe, these containers are ready for a second, and a busy kubelet may report their exit a second later.
pub fn image_that_exits_stays_in_one_pod_under_load(environment: &Environment, context: &TestContext) -> Result<()> {
    let addresses = serve(context)?;
    let load = Load::start(&environment.node()?, addresses.service, addresses.pods);
    set_image(context, "busybox:1.37")?;
    let shell = &context.shell;
    shell.run("kubectl wait podset/web --for=jsonpath='{.status.cause.reason}'=CrashLoop --timeout=1m")?;
    // Longer than two restarts of the container.
    shell.run("sleep 20")?;
    let images = shell.run(&format!("{PODS}'{{.items[*].spec.containers[0].image}}'"))?;
    let tried = images.split(' ').filter(|image| *image == "busybox:1.37").count();
    ensure!(tried == 1, "more than one pod has the image: {images}");
    set_image(context, "nginx:1.28")?;
    settle(context, "nginx:1.28")?;
    report(context, "image that exits", load.stop()?)
}

const PODS: &str = "kubectl get pods --selector appdeploy.dev/podset=web --sort-by .metadata.name --output jsonpath=";

/// The addresses of requests.
struct Addresses {
    service: SocketAddr,
    pods: Vec<SocketAddr>,
}

/// Creates a set of three pods with a Service.
fn serve(context: &TestContext) -> Result<Addresses> {
    let shell = &context.shell;
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
    addresses(context)
}

fn addresses(context: &TestContext) -> Result<Addresses> {
    let shell = &context.shell;
    let address = |ip: &str| -> Result<SocketAddr> { format!("{ip}:80").parse().with_context(|| format!("{ip:?}")) };
    let pods = shell.run(&format!("{PODS}'{{.items[*].status.podIP}}'"))?;
    Ok(Addresses {
        service: address(&shell.run("kubectl get service web --output jsonpath='{.spec.clusterIP}'")?)?,
        pods: pods.split_whitespace().map(address).collect::<Result<_>>()?,
    })
}

/// Sets the images one after the other while requests are sent, and waits until all pods run the last one.
fn change(environment: &Environment, context: &TestContext, images: &[&str]) -> Result<Outcome> {
    let Addresses { service, pods } = addresses(context)?;
    let load = Load::start(&environment.node()?, service, pods);
    for image in images {
        set_image(context, image)?;
    }
    settle(context, images.last().context("no image")?)?;
    load.stop()
}

fn set_image(context: &TestContext, image: &str) -> Result<()> {
    let patch = format!(r#"{{"spec":{{"template":{{"image":"{image}"}}}}}}"#);
    context
        .shell
        .run(&format!("kubectl patch podset web --type merge -p '{patch}'"))
        .map(drop)
}

fn settle(context: &TestContext, image: &str) -> Result<()> {
    let shell = &context.shell;
    shell.run(
        r"generation=$(kubectl get podset web --output jsonpath='{.metadata.generation}') &&
        kubectl wait podset/web --for=jsonpath='{.status.observedGeneration}'=$generation --timeout=1m &&
        kubectl wait podset/web --for=jsonpath='{.status.updatedReplicas}'=3 --timeout=3m &&
        kubectl wait podset/web --for=condition=Ready --timeout=2m",
    )?;
    let images = shell.run(&format!("{PODS}'{{.items[*].spec.containers[0].image}}'"))?;
    ensure!(
        images.split(' ').all(|other| other == image),
        "pods still have the images {images}"
    );
    // Containers that were reported ready keep running.
    let containers = format!("{PODS}'{{.items[*].status.containerStatuses[0].containerID}}'");
    let before = shell.run(&containers)?;
    let after = shell.run(&format!("sleep 5; {containers}"))?;
    ensure!(before == after, "containers have restarted after all were ready");
    Ok(())
}

/// Notes the outcome, and returns an error if more than one pod was unavailable at a time.
fn report(context: &TestContext, what: &str, outcome: Outcome) -> Result<()> {
    let Outcome {
        requests,
        dropped,
        most_down,
    } = outcome;
    context.note(&format!(
        "{what}: {dropped} of {requests} requests dropped, {most_down} pods down at a time; "
    ));
    ensure!(requests > 100, "there were only {requests} requests");
    ensure!(most_down <= 1, "{most_down} pods were down at a time");
    Ok(())
}

fn names(context: &TestContext, wanted: &[&str]) -> Result<()> {
    let pods = context.shell.run(SORTED)?;
    let names: Vec<&str> = pods.lines().map(|line| line.trim_start_matches("pod/")).collect();
    ensure!(names == wanted, "unexpected pods {names:?}");
    let status = context
        .shell
        .run("kubectl get podset workers --output jsonpath='{.status.podNames[*]}'")?;
    ensure!(
        status.split(' ').eq(wanted.iter().copied()),
        "the status names {status}"
    );
    Ok(())
}
