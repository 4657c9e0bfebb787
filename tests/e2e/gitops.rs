//! Ejecting and adopting apps while requests are sent to their page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use testcluster::http;

use crate::environment::{Environment, TestContext};
use crate::story::{INGRESS, has};

/// Sends requests to a page, one after the other.
struct PageLoad {
    is_over: Arc<AtomicBool>,
    results: JoinHandle<(usize, Vec<String>)>,
}

impl PageLoad {
    fn start(host: &str) -> Result<Self> {
        http::page(INGRESS, host, Duration::from_secs(30))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (host, stop) = (host.to_owned(), Arc::clone(&is_over));
        let results = thread::spawn(move || {
            let (mut answered, mut dropped) = (0, Vec::new());
            while !stop.load(Ordering::Relaxed) {
                match http::page(INGRESS, &host, Duration::ZERO) {
                    Ok(_) => answered += 1,
                    Err(error) => dropped.push(format!("{error:#}")),
                }
                thread::sleep(Duration::from_millis(5));
            }
            (answered, dropped)
        });
        Ok(Self { is_over, results })
    }

    /// Stops, and returns an error unless all requests were answered.
    fn stop(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        let (answered, dropped) = self
            .results
            .join()
            .ok()
            .context("the thread that sends requests panicked")?;
        ensure!(
            dropped.is_empty() && answered > 100,
            "{} of {} requests were dropped: {:?}",
            dropped.len(),
            answered + dropped.len(),
            dropped.first()
        );
        Ok(())
    }
}

const NAMES: &str = "kubectl get pods --selector appdeploy.dev/app=shop --output name | sort";

pub fn app_is_ejected_and_adopted_with_the_same_pods(_: &Environment, context: &TestContext) -> Result<()> {
    let shell = &context.shell;
    shell.run("kubectl appdeploy create shop --image nginx --port 80 --replicas 2 --wait")?;
    let before = shell.run(NAMES)?;
    let load = PageLoad::start(&format!("shop.{}", context.namespace))?;
    has(&shell.run("kubectl appdeploy eject shop --yes")?, &["shop ejected"])?;
    ensure!(shell.run(NAMES)? == before, "other pods after the eject");
    // A new app of that name reports a conflict, and changes nothing.
    shell.run(
        "kubectl appdeploy create shop --image nginx:1.28 --port 80 && \
         kubectl wait appdeploy/shop --for=jsonpath='{.status.cause.reason}'=NameConflict --timeout=30s && \
         kubectl appdeploy delete shop",
    )?;
    ensure!(shell.run(NAMES)? == before, "other pods after the conflict");
    let adopted = shell.run("kubectl appdeploy adopt shop --yes 2>&1")?;
    has(&adopted, &["are kept", "shop is ready", "shop adopted"])?;
    ensure!(shell.run(NAMES)? == before, "other pods after the adoption");
    shell.run("kubectl appdeploy diff shop")?;
    load.stop()
}

pub fn third_party_deployment_is_adopted_without_dropped_requests(
    _: &Environment,
    context: &TestContext,
) -> Result<()> {
    let shell = &context.shell;
    shell.run(
        "kubectl create deployment shop --image nginx --replicas 2 --port 80 && \
         kubectl expose deployment shop --port 8080 --target-port 80 && \
         kubectl create ingress shop --rule 'moved.example.com/*=shop:8080' && \
         kubectl rollout status deployment shop --timeout=2m",
    )?;
    let address = "kubectl get service shop --output jsonpath='{.metadata.uid} {.spec.clusterIP}'";
    let before = shell.run(address)?;
    let load = PageLoad::start("moved.example.com")?;
    let refused = shell.run("kubectl appdeploy adopt shop 2>&1 || true")?;
    has(&refused, &["are replaced", "nothing was changed", "adopt shop --yes"])?;
    // After an interruption, the same command continues.
    shell.run("kubectl appdeploy adopt shop --yes --timeout 1s || true")?;
    has(
        &shell.run("kubectl appdeploy adopt shop --yes 2>&1")?,
        &["shop is ready", "shop adopted"],
    )?;
    ensure!(shell.run(address)? == before, "the Service was replaced");
    let left = shell.run("kubectl get pods,replicasets --selector app=shop --output name")?;
    ensure!(left.trim().is_empty(), "these third-party objects are left: {left}");
    let ports = shell.run("kubectl get service shop --output jsonpath='{.spec.ports[*].port}'")?;
    ensure!(ports == "80 8080", "the Service has the ports {ports}");
    shell.run("kubectl appdeploy diff shop")?;
    has(&shell.run("kubectl appdeploy adopt shop")?, &["shop unchanged"])?;
    load.stop()
}
