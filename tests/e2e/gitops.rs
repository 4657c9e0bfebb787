//! Coming and going, while somebody asks for the page all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use testcluster::http;

use crate::story::{INGRESS, has};
use crate::world::{Space, World};

/// A visitor who asks for a page again and again.
struct Visitor {
    leaves: Arc<AtomicBool>,
    seen: JoinHandle<(usize, Vec<String>)>,
}

impl Visitor {
    fn comes(host: &str) -> Result<Self> {
        http::page(INGRESS, host, Duration::from_secs(30))?;
        let leaves = Arc::new(AtomicBool::new(false));
        let (host, is_over) = (host.to_owned(), Arc::clone(&leaves));
        let seen = thread::spawn(move || {
            let (mut answered, mut dropped) = (0, Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                match http::page(INGRESS, &host, Duration::ZERO) {
                    Ok(_) => answered += 1,
                    Err(error) => dropped.push(format!("{error:#}")),
                }
                thread::sleep(Duration::from_millis(5));
            }
            (answered, dropped)
        });
        Ok(Self { leaves, seen })
    }

    /// Fails unless every request was answered, and there were some.
    fn leaves(self) -> Result<()> {
        self.leaves.store(true, Ordering::Relaxed);
        let (answered, dropped) = self.seen.join().ok().context("the visitor broke down")?;
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

pub fn an_app_leaves_and_comes_back_with_the_same_pods(_: &World, space: &Space) -> Result<()> {
    let shell = &space.shell;
    shell.run("kubectl appdeploy create shop --image nginx --port 80 --replicas 2 --wait")?;
    let before = shell.run(NAMES)?;
    let visitor = Visitor::comes(&format!("shop.{}", space.namespace))?;
    has(&shell.run("kubectl appdeploy eject shop --yes")?, &["shop ejected"])?;
    ensure!(shell.run(NAMES)? == before, "the pods are others after the eject");
    // Whoever takes the name now is told, and changes nothing.
    shell.run(
        "kubectl appdeploy create shop --image nginx:1.28 --port 80 && \
         kubectl wait appdeploy/shop --for=jsonpath='{.status.cause.reason}'=NameConflict --timeout=30s && \
         kubectl appdeploy delete shop",
    )?;
    ensure!(shell.run(NAMES)? == before, "the pods are others after the conflict");
    let adopted = shell.run("kubectl appdeploy adopt shop --yes 2>&1")?;
    has(&adopted, &["are kept", "shop is ready", "shop adopted"])?;
    ensure!(shell.run(NAMES)? == before, "the pods are others after the return");
    shell.run("kubectl appdeploy diff shop")?;
    visitor.leaves()
}

pub fn what_others_have_made_becomes_an_app(_: &World, space: &Space) -> Result<()> {
    let shell = &space.shell;
    shell.run(
        "kubectl create deployment shop --image nginx --replicas 2 --port 80 && \
         kubectl expose deployment shop --port 8080 --target-port 80 && \
         kubectl create ingress shop --rule 'shop.example.com/*=shop:8080' && \
         kubectl rollout status deployment shop --timeout=2m",
    )?;
    let address = "kubectl get service shop --output jsonpath='{.metadata.uid} {.spec.clusterIP}'";
    let before = shell.run(address)?;
    let visitor = Visitor::comes("shop.example.com")?;
    let refused = shell.run("kubectl appdeploy adopt shop 2>&1 || true")?;
    has(&refused, &["are replaced", "nothing was changed", "adopt shop --yes"])?;
    // Interrupted in the middle, the same command goes on.
    shell.run("kubectl appdeploy adopt shop --yes --timeout 1s || true")?;
    has(
        &shell.run("kubectl appdeploy adopt shop --yes 2>&1")?,
        &["shop is ready", "shop adopted"],
    )?;
    ensure!(shell.run(address)? == before, "the Service is another");
    let left = shell.run("kubectl get pods,replicasets --selector app=shop --output name")?;
    ensure!(left.trim().is_empty(), "this is left of before: {left}");
    let ports = shell.run("kubectl get service shop --output jsonpath='{.spec.ports[*].port}'")?;
    ensure!(ports == "80 8080", "the Service offers {ports}");
    shell.run("kubectl appdeploy diff shop")?;
    has(&shell.run("kubectl appdeploy adopt shop")?, &["shop unchanged"])?;
    visitor.leaves()
}
