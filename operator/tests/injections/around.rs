//! What is done to the operator, and to what it needs.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use fault_proxy::{Action, Answer, Record, Requests, Rule, Verb};
use serde_json::json;

use crate::harness::{APP, DEPLOYMENT, LEASE, Namespace, PATIENCE, SERVICE, config, eventually, text, uid};
use crate::injections::stage::{Stage, image, time, until_right};

const SYSTEM: &str = crd::OPERATOR_NAMESPACE;

/// Changes the image of the app, as soon as the API server gets an answer about it, and waits until it has arrived.
fn takes_a_change(stage: &Stage, space: &Namespace) {
    eventually("the change is taken", || {
        stage.keep_running();
        let patch = r#"{"spec": {"image": "nginx:1.28"}}"#;
        let arguments = [
            "-n",
            &space.name,
            "patch",
            "appdeploy",
            "shop",
            "--type=merge",
            "-p",
            patch,
        ];
        space.cluster.control_plane.kubectl(&arguments).is_ok()
    });
    eventually("the change has arrived", || {
        stage.keep_running();
        image(&space.get(DEPLOYMENT, "shop")) == "nginx:1.28"
    });
    until_right(space, |it| image(it) == "nginx:1.28");
}

pub fn requests_fail(stage: &Stage) -> Duration {
    let space = stage.shop();
    let failure = Answer::refusal(500, "InternalError", "etcdserver: request timed out");
    let rule = Rule::new(Requests::all(), Action::Answer(failure)).by_chance(50, 1);
    stage.proxy.add(rule);
    stage.proxy.cut_watches(&Requests::with(&[Verb::Watch]));
    let before = space.get(SERVICE, "shop");
    space.delete(SERVICE, "shop");
    thread::sleep(Duration::from_secs(5));
    stage.proxy.clear();
    time(|| {
        stage.keep_running();
        space.until_back(SERVICE, &before);
        takes_a_change(stage, &space);
    })
}

/// The operator ends, for it can't renew its Lease, and is run again as a kubelet does.
pub fn network_is_cut(stage: &Stage) -> Duration {
    let space = stage.shop();
    stage.proxy.add(Rule::new(Requests::all(), Action::Hang));
    stage.proxy.cut_watches(&Requests::with(&[Verb::Watch]));
    let before = space.get(SERVICE, "shop");
    space.delete(SERVICE, "shop");
    for _ in 0..10 {
        thread::sleep(Duration::from_secs(1));
        stage.keep_running();
    }
    stage.proxy.clear();
    time(|| {
        eventually("the Service is back", || {
            stage.keep_running();
            let now = space.get(SERVICE, "shop");
            !now.is_null() && uid(&now) != uid(&before)
        });
        takes_a_change(stage, &space);
    })
}

pub fn operator_is_killed(stage: &Stage) -> Duration {
    let space = stage.shop();
    space.set("shop", json!({"image": "nginx:1.28", "replicas": 3}));
    stage.kill();
    space.kubectl(&["delete", "pods", "--all", "--wait=false"]);
    time(|| {
        until_right(&space, |it| {
            image(it) == "nginx:1.28" && it["status"]["readyReplicas"] == 3
        });
    })
}

pub fn lease_is_deleted(stage: &Stage) -> Duration {
    let space = stage.shop();
    let system = Namespace::new(stage.cluster.clone(), SYSTEM);
    let before = system.get(LEASE, "appdeploy-operator");
    system.delete(LEASE, "appdeploy-operator");
    time(|| {
        eventually("a replica leads", || {
            stage.keep_running();
            let now = system.get(LEASE, "appdeploy-operator");
            uid(&now) != uid(&before) && !text(&now, "/spec/holderIdentity").is_empty()
        });
        takes_a_change(stage, &space);
    })
}

pub fn rights_are_revoked(stage: &Stage) -> Duration {
    let space = stage.shop();
    let control_plane = &stage.cluster.control_plane;
    control_plane
        .kubectl(&["delete", "clusterrolebinding", "appdeploy-operator"])
        .unwrap();
    stage.proxy.cut_watches(&Requests::with(&[Verb::Watch]));
    let before = space.get(SERVICE, "shop");
    space.delete(SERVICE, "shop");
    let since = stage.proxy.records().len();
    let denied = |records: &[Record]| records[since..].iter().any(|record| record.told == Some(403));
    stage.proxy.wait_for(PATIENCE, denied).unwrap();
    control_plane.apply(&config("rbac/operator_role_binding.yaml")).unwrap();
    time(|| {
        space.until_back(SERVICE, &before);
        takes_a_change(stage, &space);
    })
}

pub fn certificate_is_deleted(stage: &Stage) -> Duration {
    let space = stage.shop();
    let secret = [
        "-n",
        SYSTEM,
        "get",
        "secret",
        "appdeploy-webhook-certificate",
        "-o",
        "name",
    ];
    let delete = ["-n", SYSTEM, "delete", "secret", "appdeploy-webhook-certificate"];
    stage.cluster.control_plane.kubectl(&delete).unwrap();
    time(|| {
        eventually("there is another certificate", || {
            stage.cluster.control_plane.kubectl(&secret).is_ok()
        });
        takes_a_change(stage, &space);
    })
}

pub fn webhook_is_not_trusted(stage: &Stage) -> Duration {
    let space = stage.shop();
    let empty = r#"[{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]"#;
    for kind in ["validating", "mutating"] {
        let kind = format!("{kind}webhookconfiguration");
        let patch = ["patch", &kind, "appdeploy", "--type=json", "-p", empty];
        stage.cluster.control_plane.kubectl(&patch).unwrap();
    }
    time(|| takes_a_change(stage, &space))
}

pub fn webhook_hangs(stage: &Stage) -> Duration {
    let space = stage.shop();
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let webhook = json!({"name": "slow.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "timeoutSeconds": 1, "clientConfig": {"url": url},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}},
        "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}]});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"}, "webhooks": [webhook]});
    let control_plane = &stage.cluster.control_plane;
    control_plane.apply(&configuration.to_string()).unwrap();
    eventually("it is asked", || {
        let label = [
            "-n",
            &space.name,
            "label",
            "deployment",
            "shop",
            "probe=1",
            "--overwrite",
        ];
        control_plane.kubectl(&label).is_err()
    });
    space.set("shop", json!({"image": "nginx:1.28"}));
    space.until(APP, "shop", "its status reports it", |app| {
        app["status"]["cause"].to_string().contains("slow.example.com")
    });
    control_plane
        .kubectl(&["delete", "validatingwebhookconfiguration", "slow"])
        .unwrap();
    time(|| until_right(&space, |it| image(it) == "nginx:1.28"))
}
