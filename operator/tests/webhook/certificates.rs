//! The Secret and the configurations, as operators keep them on a real API server.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use operator::webhook::certificate::{Lifetimes, SECRET, key};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::webhook::client::Caller;
use crate::webhook::stage::{Instance, Stage, USER, eventually};

const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MUTATING: &str = "MutatingWebhookConfiguration";

fn configuration(kind: &str, webhooks: &[&str]) -> String {
    let webhook = |name: &&str| {
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "clientConfig": {"service": {"name": "appdeploy-webhook", "namespace": "default"}},
            "rules": [{"apiGroups": ["none.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}],
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "appdeploy"},
        "webhooks": webhooks.iter().map(webhook).collect::<Value>(),
    })
    .to_string()
}

/// Whether what an operator shows is trusted by those who go by the Secret.
async fn is_trusted(stage: &Stage, namespace: &str, instance: &Instance) -> bool {
    let bundle = stage.text(namespace, key::AUTHORITIES).await;
    !bundle.is_empty()
        && Caller::new(instance.address, namespace, &bundle)
            .post("/", "")
            .await
            .is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_share_one_secret() {
    let stage = Stage::start().await;
    stage.namespace("shared").await;
    let [first, second] = [(); 2].map(|()| stage.instance("shared", Lifetimes::default()));
    for instance in [&first, &second] {
        eventually("each is trusted", async || is_trusted(&stage, "shared", instance).await).await;
    }
    let secret = stage.secrets("shared").get(SECRET).await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    assert_eq!(secret.data.unwrap().len(), 4);
    assert!(first.served.expires_at().is_some());
    assert_eq!(first.served.expires_at(), second.served.expires_at());

    let requests = || stage.control_plane.audit().all().unwrap().by_user(USER);
    let done = requests().writes().that(|request| request.code < 300);
    assert_eq!(done.count(), 1, "one was faster: {:?}", done.tally());
    let refused = requests().that(|request| request.code == 403);
    assert_eq!(refused.count(), 0, "{:?}", refused.tally());

    broken_is_repaired(&stage, &first, &second).await;
}

/// Of one of each kind; all others are tests of the decision.
async fn broken_is_repaired(stage: &Stage, first: &Instance, second: &Instance) {
    let secrets = stage.secrets("shared");
    let bundle = stage.text("shared", key::AUTHORITIES).await;
    let patch = async |data: Value| {
        let patch = Patch::Merge(json!({"stringData": data}));
        secrets.patch(SECRET, &PatchParams::default(), &patch).await.unwrap();
    };
    let mended = async |what: &str, is: &dyn Fn(&str) -> bool| {
        for instance in [first, second] {
            eventually(what, async || {
                is(&stage.text("shared", key::AUTHORITIES).await) && is_trusted(stage, "shared", instance).await
            })
            .await;
        }
    };
    patch(json!({key::CERTIFICATE: "no certificate"})).await;
    eventually("there is a certificate", async || {
        stage.text("shared", key::CERTIFICATE).await.contains("BEGIN")
    })
    .await;
    mended("a certificate is made", &|now| now == bundle).await;
    patch(json!({key::AUTHORITIES: "", key::CERTIFICATE_KEY: "?"})).await;
    mended("all is made", &|now| !now.is_empty() && now != bundle).await;
    let bundle = stage.text("shared", key::AUTHORITIES).await;
    secrets.delete(SECRET, &DeleteParams::default()).await.unwrap();
    mended("all is recreated", &|now| !now.is_empty() && now != bundle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_are_written_to_the_configurations() {
    let stage = Stage::start().await;
    stage.namespace("system").await;
    let instance = stage.instance("system", Lifetimes::default());
    eventually("it serves without any configuration", async || {
        is_trusted(&stage, "system", &instance).await
    })
    .await;
    let bundle = stage.text("system", key::AUTHORITIES).await;
    stage
        .apply(&configuration(VALIDATING, &["a.test.dev", "b.test.dev"]))
        .await;
    stage.apply(&configuration(MUTATING, &["c.test.dev"])).await;
    let published = async || {
        stage.bundles(VALIDATING).await == [bundle.clone(), bundle.clone()]
            && stage.bundles(MUTATING).await == [bundle.clone()]
    };
    eventually("both have the authority", published).await;

    let patch = Patch::Json::<()>(
        serde_json::from_value(json!([{"op": "replace", "path": "/webhooks/1/clientConfig/caBundle", "value": ""}]))
            .unwrap(),
    );
    let configurations = stage.configurations(VALIDATING);
    configurations
        .patch("appdeploy", &PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("the reset one is repaired", published).await;

    configurations
        .delete("appdeploy", &DeleteParams::default())
        .await
        .unwrap();
    stage
        .apply(&configuration(VALIDATING, &["b.test.dev", "d.test.dev"]))
        .await;
    eventually("the recreated one has the authority", published).await;

    let mark = stage.control_plane.audit().mark().unwrap();
    sleep(Duration::from_secs(5)).await;
    let requests = stage.control_plane.audit().since(mark).unwrap();
    let asked = requests.by_user(USER);
    assert_eq!(
        asked.count(),
        0,
        "what is as it is to be costs nothing: {:?}",
        asked.tally()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_served_when_rights_are_granted_later() {
    let stage = Stage::without_rights().await;
    stage.namespace("system").await;
    stage.apply(&configuration(MUTATING, &["a.test.dev"])).await;
    let instance = stage.instance("system", Lifetimes::default());
    let denied = async |resource: &str| {
        let requests = stage.control_plane.audit().all().unwrap();
        let denied = requests
            .by_user(USER)
            .that(|request| request.code == 403 && request.resource == resource);
        denied.count() > 1
    };
    for resource in [
        "secrets",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    ] {
        eventually("it asks again", async || denied(resource).await).await;
    }
    assert_eq!(instance.served.expires_at(), None);
    stage.grant().await;
    eventually("it serves", async || is_trusted(&stage, "system", &instance).await).await;
    let bundle = stage.text("system", key::AUTHORITIES).await;
    eventually("the authority is written", async || {
        stage.bundles(MUTATING).await == [bundle.clone()]
    })
    .await;
}
