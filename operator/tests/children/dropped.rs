//! Fields that the API server does not store, as one that is too old or has a feature gate switched off.
//!
//! A policy that removes a field has the same result, in a namespace of its own: the write succeeds, and the answer lacks the
//! field.

use std::collections::BTreeMap;

use kube::api::Patch;
use serde_json::{Value, json};

use crate::children::fight::policy;
use crate::children::{APP, namespace};
use crate::harness::{DEPLOYMENT, condition, eventually, text};

const LIFECYCLE: &str = "/spec/template/spec/containers/0/lifecycle";
const SENTENCE: &str = "the API server has not stored spec.template.spec.containers[app].lifecycle.preStop.sleep.seconds of \
                        Deployment shop: it is too old, a feature gate is off, or a policy removes the field; update the cluster, or \
                        remove the field from the spec";

#[test]
fn field_that_the_api_server_drops_is_reported_once_and_not_written_again() {
    let shop = namespace("dropped");
    let expression = r#"object.spec.template.spec.containers.all(c, !has(c.lifecycle)) ? []
        : [JSONPatch{op: "remove", path: "/spec/template/spec/containers/0/lifecycle"}]"#;
    let dropping = policy("dropped", "JSONPatch", "jsonPatch", expression);
    shop.cluster.control_plane.apply(&dropping).unwrap();
    let sleep = json!({"preStop": {"sleep": {"seconds": 1}}});
    eventually("the policy is in force", || {
        let probe = json!({"metadata": {"name": "probe"}, "spec": {"selector": {"matchLabels": {"app": "probe"}},
            "template": {"metadata": {"labels": {"app": "probe"}},
                "spec": {"containers": [{"name": "app", "image": "a", "lifecycle": sleep}]}}}});
        let created = shop.create(DEPLOYMENT, probe);
        shop.delete(DEPLOYMENT, "probe");
        created.pointer(LIFECYCLE).is_none()
    });

    let mark = shop.mark();
    shop.app("shop", json!({"image": "nginx:1", "preStopSleepSeconds": 5}));
    let app = shop.until(APP, "shop", "the status reports it", |app| {
        condition(app, "FieldsDropped").is_some_and(|dropped| dropped["status"] == "True")
    });
    assert_eq!(text(condition(&app, "FieldsDropped").unwrap(), "/message"), SENTENCE);
    shop.settle();
    let created = [
        ("create deployments", 1),
        ("create events", 1),
        ("patch appdeploys/status", 1),
    ];
    assert_eq!(shop.asked_since(mark).tally(), counts(created));

    // Whatever causes a reconcile writes nothing.
    let mark = shop.mark();
    shop.patch(APP, "shop", Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})));
    shop.patch(
        DEPLOYMENT,
        "shop",
        Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})),
    );
    shop.settle();
    assert_eq!(shop.asked_since(mark).tally(), counts([]));

    // Other fields are repaired and changed as usual.
    let image = |deployment: &Value| text(deployment, "/spec/template/spec/containers/0/image").to_owned();
    let theirs = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "theirs"}]}}}});
    shop.patch(DEPLOYMENT, "shop", Patch::Strategic(theirs));
    shop.until(DEPLOYMENT, "shop", "the image is restored", |shop| {
        image(shop) == "nginx:1"
    });
    let mark = shop.mark();
    shop.set("shop", json!({"image": "nginx:2"}));
    shop.until_reported("shop");
    shop.settle();
    let changed = [("patch deployments", 1), ("patch appdeploys/status", 1)];
    assert_eq!(shop.asked_since(mark).tally(), counts(changed));
    assert_eq!(image(&shop.get(DEPLOYMENT, "shop")), "nginx:2");
    assert_eq!(shop.events_about("shop"), ["FieldsDropped"], "once");

    // Without the field, nothing is dropped.
    shop.set("shop", json!({"preStopSleepSeconds": null}));
    shop.until(APP, "shop", "the condition is removed", |app| {
        condition(app, "FieldsDropped").is_none()
    });
}

fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.map(|(what, count)| (what.to_owned(), count)).into()
}
