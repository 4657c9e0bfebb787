//! Programs that change what is ours, again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::children::{APP, namespace};
use crate::harness::{DEPLOYMENT, QUIET, SERVICE, eventually, ready, text, web};

/// How often the other one writes.
const PERIOD: Duration = Duration::from_millis(50);

/// B9, F14: without `ChildWrites::take_repair` the operator would write as fast as the other client, indefinitely.
#[test]
fn writes_that_are_always_reverted_are_limited_and_reported() {
    let shop = namespace("undone");
    shop.settled_app("shop", web());
    let before = shop.get(SERVICE, "shop");
    let label = "/metadata/labels/appdeploy.dev~1app";
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let theirs = Patch::Apply(json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "shop", "labels": {"appdeploy.dev/app": "theirs"}}}));
            let api = shop.api(SERVICE);
            let params = PatchParams::apply("rival").force();
            while !over.load(Ordering::Relaxed) {
                shop.cluster.block_on(api.patch("shop", &params, &theirs)).unwrap();
                thread::sleep(PERIOD);
            }
        });
        eventually("it is reported", || {
            shop.events_about("shop").contains(&"Overruled".to_owned())
        });
        let (mark, started) = (shop.mark(), Instant::now());
        thread::sleep(2 * QUIET);
        let asked = shop.asked_since(mark);
        let seconds = usize::try_from(started.elapsed().as_secs()).unwrap();
        assert!(asked.count() <= seconds / 2 + 2, "{:?} in {seconds} s", asked.tally());
        assert!(asked.count() > 0, "it does not give up");
        over.store(true, Ordering::Relaxed);
    });
    let after = shop.until(SERVICE, "shop", "the label is as before", |it| {
        it.pointer(label) == before.pointer(label)
    });
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(shop.events_about("shop"), ["Overruled"], "once");
    assert_eq!(ready(&shop.get(APP, "shop")), ("False", "Progressing"));
}

/// A person who restarts an app again and again undoes no write of the operator.
#[test]
fn many_restarts_in_a_row_are_not_reported_as_overruled() {
    const RESTARTS: usize = 45;
    let shop = namespace("restarts");
    shop.settled_app("shop", web());
    for number in 0..RESTARTS {
        let restarted = format!("2026-01-01T00:00:{number:02}Z");
        let annotations = json!({"metadata": {"annotations": {(crd::annotation::RESTARTED_AT): restarted}}});
        shop.patch(APP, "shop", Patch::Merge(annotations));
        shop.until(DEPLOYMENT, "shop", "the restart is in the template", |it| {
            it.to_string().contains(&restarted)
        });
    }
    shop.until(APP, "shop", "the last restart is in the status", |it| {
        text(it, "/status/restartedAt") == format!("2026-01-01T00:00:{:02}Z", RESTARTS - 1)
    });
    assert_eq!(shop.events_about("shop"), [""; 0]);
}

/// Has the API server change the Deployments of a namespace on their way.
pub fn policy(name: &str, patch_type: &str, field: &str, expression: &str) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"reinvocationPolicy": "IfNeeded",
                "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]},
                "mutations": [{"patchType": patch_type, field: {"expression": expression}}]}},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "matchResources": {"namespaceSelector":
                {"matchLabels": {"kubernetes.io/metadata.name": name}}}}}]})
    .to_string()
}

/// E5: a mesh that puts a sidecar, a label and an annotation into each Deployment that is written.
#[test]
fn fields_that_a_policy_adds_cause_no_write() {
    let shop = namespace("mesh");
    let expression = r#"Object{
        metadata: Object.metadata{labels: {"mesh": "on"}, annotations: {"mesh.example.com/injected": "true"}},
        spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
            containers: [Object.spec.template.spec.containers{name: "mesh", image: "mesh:1"}]}}}}"#;
    let mesh = policy("mesh", "ApplyConfiguration", "applyConfiguration", expression);
    shop.cluster.control_plane.apply(&mesh).unwrap();
    eventually("the policy is in force", || {
        let probe = json!({"metadata": {"name": "probe"}, "spec": {"selector": {"matchLabels": {"app": "probe"}},
            "template": {"metadata": {"labels": {"app": "probe"}}, "spec": {"containers": [{"name": "app", "image": "a"}]}}}});
        let made = shop.create(DEPLOYMENT, probe);
        shop.delete(DEPLOYMENT, "probe");
        made["metadata"]["labels"]["mesh"] == "on"
    });
    shop.settled_app("shop", web());
    shop.set("shop", json!({"image": "nginx:1.28"}));
    let images = |deployment: &Value| -> Vec<String> {
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
        let mut images: Vec<_> = containers
            .into_iter()
            .flatten()
            .map(|it| text(it, "/image").to_owned())
            .collect();
        images.sort();
        images
    };
    shop.until(DEPLOYMENT, "shop", "it has both containers", |it| {
        images(it) == ["mesh:1", "nginx:1.28"]
    });
    shop.until_reported("shop");
    thread::sleep(QUIET);
    let mark = shop.mark();
    thread::sleep(QUIET);
    assert_eq!(shop.asked_since(mark).tally(), std::collections::BTreeMap::new());
}

/// E5: a policy that changes a field of the operator, such as one that takes all images from a mirror. The writes of the two are
/// limited.
#[test]
fn field_that_a_policy_overrides_is_not_written_in_a_loop() {
    let shop = namespace("mirror");
    let expression = r#"[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "mirror.example.com/nginx"}]"#;
    let mirror = policy("mirror", "JSONPatch", "jsonPatch", expression);
    shop.cluster.control_plane.apply(&mirror).unwrap();
    eventually("the policy is in force", || {
        let probe = json!({"metadata": {"name": "probe"}, "spec": {"selector": {"matchLabels": {"app": "probe"}},
            "template": {"metadata": {"labels": {"app": "probe"}}, "spec": {"containers": [{"name": "app", "image": "a"}]}}}});
        let made = shop.create(DEPLOYMENT, probe);
        shop.delete(DEPLOYMENT, "probe");
        text(&made, "/spec/template/spec/containers/0/image").starts_with("mirror.")
    });
    shop.settled_app("shop", web());
    thread::sleep(QUIET);
    let mark = shop.mark();
    thread::sleep(QUIET);
    assert_eq!(shop.asked_since(mark).tally(), std::collections::BTreeMap::new());
    // Whatever wakes the operator costs one write: the five changes, and the status that it delays to once a second.
    for ready in 1..=5 {
        shop.patch_status(DEPLOYMENT, "shop", json!({"replicas": 5, "readyReplicas": ready}));
    }
    thread::sleep(QUIET);
    let asked = shop.asked_since(mark);
    let statuses = asked.clone().on("appdeploys").writes().count();
    let writes = asked.clone().on("deployments").count();
    assert!(writes <= 6 + statuses, "{:?}", asked.tally());
}
