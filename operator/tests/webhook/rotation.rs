//! Certificates and authorities are replaced while webhooks are called, and no call fails.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use operator::webhook::certificate::{Lifetimes, key};
use serde_json::json;
use tokio::sync::watch as channel;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::harness::is_long;
use crate::webhook::client::{Caller, PATIENCE};
use crate::webhook::stage::{Stage, eventually};

const KIND: &str = "ValidatingWebhookConfiguration";
const NAMESPACE: &str = "system";

/// An authority is replaced each sixteen seconds, a certificate each eight or when there is a new authority.
const TERMS: Lifetimes = Lifetimes {
    authority: Duration::from_secs(24),
    certificate: Duration::from_secs(12),
    overlap: Duration::from_secs(3),
    skew: Duration::from_secs(1),
};

/// Calls of a webhook per second, and objects that are created per second. Few, so that a busy machine keeps up.
const CALLS: u32 = 20;
const CREATES: u32 = 5;

/// A webhook that is asked about ConfigMaps of one namespace, and without which there are none. API servers look for a
/// Service of this type under its external name, by the name that the certificate has.
fn manifest(port: u16) -> String {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "appdeploy-webhook", "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": KIND, "metadata": {"name": "appdeploy"},
        "webhooks": [{
            "name": "a.test.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {
                "name": "appdeploy-webhook", "namespace": NAMESPACE, "port": port, "path": "/admit",
            }},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        }],
    });
    format!("{service}\n---\n{configuration}\n")
}

#[derive(Default)]
struct Tally {
    done: AtomicUsize,
    failures: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Tally {
    fn count<T, E: std::fmt::Display>(&self, result: Result<T, E>) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = result {
            self.failures.lock().unwrap().push(error.to_string());
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

fn ticks(a_second: u32) -> tokio::time::Interval {
    let mut ticks = interval(Duration::from_secs(1) / a_second);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_webhook_call_fails_while_certificates_and_cas_are_replaced() {
    let stage = Stage::start().await;
    stage.namespace(NAMESPACE).await;
    let instances = [stage.instance(NAMESPACE, TERMS), stage.instance(NAMESPACE, TERMS)];
    stage.apply(&manifest(instances[0].address.port())).await;
    let bundle_of = async |stage: &Stage| stage.bundles(KIND).await.remove(0);
    eventually("the configurations have an authority", async || {
        !bundle_of(&stage).await.is_empty()
    })
    .await;
    let (sender, bundle) = channel::channel(bundle_of(&stage).await);

    let (strict, server) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
    let calling = tokio::spawn({
        let (strict, addresses) = (strict.clone(), instances.each_ref().map(|instance| instance.address));
        async move {
            let mut ticks = ticks(CALLS);
            let mut calls = tokio::task::JoinSet::new();
            for number in 0.. {
                ticks.tick().await;
                if strict.is_over() {
                    break;
                }
                let caller = Caller::new(addresses[number % 2], NAMESPACE, &bundle.borrow().clone());
                let strict = strict.clone();
                calls.spawn(async move { strict.count(caller.post("/", "").await) });
            }
            calls.join_all().await;
        }
    });
    let creating = tokio::spawn({
        let (server, maps) = (
            server.clone(),
            Api::<ConfigMap>::namespaced(stage.admin.clone(), NAMESPACE),
        );
        async move {
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let map: ConfigMap = serde_json::from_value(json!({"metadata": {"generateName": "x-"}})).unwrap();
            let mut ticks = ticks(CREATES);
            while !server.is_over() {
                ticks.tick().await;
                server.count(maps.create(&params, &map).await);
            }
        }
    });

    // Two rotations in `make test-long`, one in `make test`.
    let rotations = if is_long() { 2 } else { 1 };
    // By the configuration: what API servers go by, and when.
    let begun = Instant::now();
    let (mut bundles, mut certificates) = (vec![bundle_of(&stage).await], BTreeSet::new());
    while bundles.len() < 1 + 2 * rotations {
        assert!(
            begun.elapsed() < 2 * PATIENCE,
            "authorities are not replaced: {bundles:?}"
        );
        let now = bundle_of(&stage).await;
        sender.send_replace(now.clone());
        if bundles.last() != Some(&now) {
            bundles.push(now);
        }
        certificates.insert(stage.text(NAMESPACE, key::CERTIFICATE).await);
        sleep(Duration::from_millis(100)).await;
    }
    for tally in [&strict, &server] {
        tally.over.store(true, Ordering::Relaxed);
    }
    calling.await.unwrap();
    creating.await.unwrap();
    let count = |tally: &Tally| tally.done.load(Ordering::Relaxed);
    let (calls, creates) = (count(&strict), count(&server));
    eprintln!(
        "{calls} calls and {creates} creates in {:?}, with {} certificates",
        begun.elapsed(),
        certificates.len()
    );
    assert!(
        instances[0].asked.load(Ordering::Relaxed) >= creates,
        "each was asked about"
    );
    let sizes: Vec<usize> = bundles.iter().map(|bundle| bundle.matches("BEGIN").count()).collect();
    assert_eq!(
        sizes,
        [1, 2, 1, 2, 1][..sizes.len()],
        "each authority is trusted together with the one before it"
    );
    assert!(
        bundles[1].ends_with(&bundles[0]) && bundles[1].starts_with(&bundles[2]),
        "the newest first"
    );
    for tally in [strict, server] {
        assert_eq!(*tally.failures.lock().unwrap(), [""; 0]);
    }
    // In each state of the configurations there were calls.
    let expected = usize::try_from(CALLS).unwrap() / 2 * usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!(calls > expected, "{calls} calls, expected {expected}");
    assert!(certificates.len() >= 2 * rotations, "{}", certificates.len());
}
