//! Memory of the operator's process under attack. `make bench-memory` measures the same cases at full size.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, Operator, Webhooks, condition, is_long, ready, text, web};
use crate::webhook::client::Caller;

/// The most resident memory in MiB: half of the limit that the Deployment sets.
const MOST: f64 = 128.0;

fn assert_small(operator: &Operator, what: &str) {
    let peak = operator.peak_mib();
    assert!(peak < MOST, "{what}: at most {peak} MiB were resident");
    assert!(operator.is_running());
}

/// Returns a review whose object has millions of small values, of the largest size that the port takes.
fn dense_review() -> String {
    let head = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"appdeploy.dev","version":"v1alpha1","kind":"AppDeploy"},"resource":{"group":"appdeploy.dev","version":"v1alpha1","resource":"appdeploys"},"name":"shop","namespace":"shop","operation":"CREATE","userInfo":{"username":"u"},"object":{"apiVersion":"appdeploy.dev/v1alpha1","kind":"AppDeploy","metadata":{"name":"shop"},"spec":{"image":"nginx","args":[0"#;
    let tail = "]}}}}";
    let room = (8 << 20) - head.len() - tail.len();
    [head, &",0".repeat(room / 2), tail].concat()
}

#[test]
fn large_reviews_are_refused_in_bounded_memory() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let webhooks = Webhooks::install(&cluster);
    let operator = webhooks.operator(&cluster, &[]);
    let template = "go-template={{(index .webhooks 0).clientConfig.caBundle | base64decode}}";
    let read = ["get", "validatingwebhookconfiguration", "appdeploy", "-o", template];
    let bundle = cluster.control_plane.kubectl(&read).unwrap();
    let caller = Caller::new(webhooks.bind, "appdeploy-system", &bundle);
    let body = dense_review();
    for path in ["/validate", "/mutate"] {
        let mut answered = 0;
        for _ in 0..if is_long() { 4 } else { 2 } {
            let answers = cluster.block_on(join_all((0..2).map(|_| caller.post(path, &body))));
            for answer in answers {
                let (status, answer) = answer.unwrap();
                if status == 408 {
                    // On a busy machine 8 MiB arrive too late. It took the memory all the same.
                    continue;
                }
                assert_eq!(status, 200, "{answer}");
                answered += 1;
                let answer: Value = serde_json::from_str(&answer).unwrap();
                if path == "/validate" {
                    assert_eq!(answer["response"]["allowed"], false);
                    let message = text(&answer, "/response/status/message");
                    assert!(message.contains("at most 256 KiB"), "{message}");
                }
            }
        }
        assert_ne!(answered, 0, "{path} answered none of the requests");
    }
    assert_small(&operator, "dense reviews");
}

#[test]
fn unfinished_requests_on_the_probe_port_are_ended_and_do_not_block_others() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let operator = cluster.operator(&[]);
    let begun = [b"GET /healthz HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 400 << 10]].concat();
    let mut held = Vec::new();
    for _ in 0..700 {
        let mut stream = TcpStream::connect_timeout(&operator.bind, Duration::from_secs(5)).unwrap();
        stream.set_nonblocking(true).unwrap();
        let _ = stream.write(&begun);
        held.push(stream);
    }
    assert_eq!(operator.get("/healthz"), (200, "ok\n".into()));
    assert_eq!(operator.get("/metrics").0, 200);
    for stream in &held {
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut end = [0; 512];
        loop {
            match std::io::Read::read(&mut &*stream, &mut end) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    let kind = error.kind();
                    assert!(kind != std::io::ErrorKind::WouldBlock, "a connection is still open");
                    break;
                }
            }
        }
    }
    assert_small(&operator, "700 connections");
}

#[test]
fn oversized_specs_that_are_stored_do_not_exhaust_memory_and_are_reported() {
    let cluster = Arc::new(Cluster::without_crd(ControlPlane::builder()));
    cluster.apply_crd(APP, &loose_crd());
    let shop = cluster.namespace("large");
    let env: Vec<Value> = (0..512)
        .map(|n| json!({"name": format!("V{n}"), "value": "x".repeat(2000)}))
        .collect();
    for number in 0..60 {
        let spec = json!({"image": "nginx:1", "replicas": 0, "expose": "Cluster", "env": env});
        shop.app(&format!("large-{number}"), spec);
    }
    cluster.install_crd();
    let operator = cluster.operator(&[]);
    let app = shop.until(APP, "large-7", "its status says why it is not served", |app| {
        ready(app).0 == "False"
    });
    assert_eq!(ready(&app).1, "InvalidSpec", "{}", app["status"]);
    let message = text(&app, "/status/cause/message");
    assert!(
        message.contains("spec") && message.contains("at most 256 KiB"),
        "{message}"
    );
    assert!(text(&app, "/status/cause/next").contains("edit"), "{}", app["status"]);
    assert!(condition(&app, "Stalled").is_some());
    // They can be scaled, and another app is served next to them.
    let large = ["scale", "appdeploy/large-7", "-n", "large", "--replicas=2"];
    cluster.control_plane.kubectl(&large).unwrap();
    shop.app("small", web());
    shop.until_reported("small");
    assert_small(&operator, "60 specs of a MiB");
    operator.terminate();
    let operator = cluster.operator(&[]);
    shop.set("small", json!({"replicas": 2}));
    shop.until_reported("small");
    assert_small(&operator, "a restart with 60 specs of a MiB");
    // A spec that became small enough is served.
    shop.set("large-7", json!({"env": null, "replicas": 1}));
    shop.until_reported("large-7");
    shop.until_there(crate::harness::DEPLOYMENT, "large-7");
}

/// Returns a CRD that takes any spec.
fn loose_crd() -> String {
    let mut crd = serde_json::to_value(crd::AppDeploy::crd()).unwrap();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    schema.as_object_mut().unwrap().remove("x-kubernetes-validations");
    crd.to_string()
}
