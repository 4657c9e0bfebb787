//! Restarts of pods after a change of a ConfigMap, and what they cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, CONFIG_MAP, Cluster, DEPLOYMENT, Namespace, POD, PODSET, Shared, condition, is_long, is_observed, ready, text,
    uid,
};

const HASH: &str = "/spec/template/metadata/annotations/appdeploy.dev~1config-hash";

/// A cluster with an operator that watches ConfigMaps.
fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED
        .get(|| Cluster::start(ControlPlane::builder()).with_operator(&["--watch-configmaps"]))
        .namespace(name)
}

fn using(map: &str) -> Value {
    json!({"image": "nginx:1", "onConfigChange": "Restart", "envFrom": [{"configMapRef": {"name": map}}]})
}

fn config_map(space: &Namespace, name: &str, data: Value) {
    space.create(CONFIG_MAP, json!({"metadata": {"name": name}, "data": data}));
}

fn change(space: &Namespace, name: &str, fields: Value) {
    space.patch(CONFIG_MAP, name, Patch::Merge(fields));
}

fn hash(deployment: &Value) -> &str {
    text(deployment, HASH)
}

/// Waits until the status notes the current version of a ConfigMap.
fn until_noted(space: &Namespace, app: &str, map: &str) -> Value {
    let current = space.get(CONFIG_MAP, map);
    let version = &current["metadata"]["resourceVersion"];
    space.until(APP, app, "the status notes the ConfigMap", |app| {
        let noted = app["status"]["configMaps"].as_array().into_iter().flatten();
        is_observed(app)
            && noted
                .clone()
                .any(|noted| noted["name"] == map && noted["resourceVersion"] == *version)
    })
}

/// Waits until the operator has handled all events of ConfigMaps before this call: they arrive in order.
fn settle(space: &Namespace, watching: &Namespace) {
    let name = format!("watching-{}", space.name);
    if space.cluster.operator.is_some() && watching.get(APP, &name).is_null() {
        config_map(watching, &name, json!({"n": "0"}));
        watching.app(&name, using(&name));
    } else {
        let now = watching.get(CONFIG_MAP, &name);
        change(
            watching,
            &name,
            json!({"data": {"n": now["metadata"]["resourceVersion"]}}),
        );
    }
    until_noted(watching, &name, &name);
    space.settle();
}

fn tally(space: &Namespace, mark: testcluster::audit::Mark) -> BTreeMap<String, usize> {
    space.asked_since(mark).tally()
}

fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.map(|(what, count)| (what.to_owned(), count)).into()
}

#[test]
fn change_of_a_config_map_costs_one_read_and_the_writes_of_a_new_image() {
    let (shop, other) = (namespace("config-shop"), namespace("config-other"));
    config_map(&shop, "shop", json!({"mode": "live"}));
    let mark = shop.mark();
    shop.app("shop", using("shop"));
    until_noted(&shop, "shop", "shop");
    settle(&shop, &other);
    let created = counts([
        ("create deployments", 1),
        ("get configmaps", 1),
        ("patch appdeploys/status", 1),
    ]);
    assert_eq!(tally(&shop, mark), created);
    let before = shop.get(DEPLOYMENT, "shop");
    assert_eq!(hash(&before), "", "the pods start with this content");

    let mark = shop.mark();
    config_map(&shop, "unrelated", json!({"mode": "live"}));
    change(&shop, "unrelated", json!({"data": {"mode": "test"}}));
    shop.delete(CONFIG_MAP, "unrelated");
    settle(&shop, &other);
    assert_eq!(tally(&shop, mark), counts([]));

    let mark = shop.mark();
    change(&shop, "shop", json!({"metadata": {"labels": {"a": "b"}}}));
    until_noted(&shop, "shop", "shop");
    settle(&shop, &other);
    assert_eq!(
        tally(&shop, mark),
        counts([("get configmaps", 1), ("patch appdeploys/status", 1)])
    );
    assert_eq!(
        shop.get(DEPLOYMENT, "shop")["metadata"]["generation"],
        before["metadata"]["generation"]
    );

    let mark = shop.mark();
    change(&shop, "shop", json!({"data": {"mode": "test"}}));
    let after = shop.until(DEPLOYMENT, "shop", "the pods are replaced", |after| {
        !hash(after).is_empty()
    });
    until_noted(&shop, "shop", "shop");
    settle(&shop, &other);
    let changed = counts([
        ("get configmaps", 1),
        ("patch appdeploys/status", 1),
        ("patch deployments", 1),
    ]);
    assert_eq!(tally(&shop, mark), changed);

    // A deleted one restarts nothing, and neither does the same content under a new version.
    let mark = shop.mark();
    shop.delete(CONFIG_MAP, "shop");
    settle(&shop, &other);
    assert_eq!(tally(&shop, mark), counts([]));
    config_map(&shop, "shop", json!({"mode": "test"}));
    until_noted(&shop, "shop", "shop");
    assert_eq!(hash(&shop.get(DEPLOYMENT, "shop")), hash(&after));

    // Without the setting, the pods stay as they are.
    shop.set("shop", json!({"onConfigChange": null}));
    let app = shop.until_reported("shop");
    assert_eq!(app["status"].get("configMaps"), None);
    assert_eq!(hash(&shop.get(DEPLOYMENT, "shop")), hash(&after));
}

#[test]
fn restart_of_the_operator_reads_only_what_has_changed() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let shop = cluster.namespace("shop");
    let operator = cluster.operator(&["--watch-configmaps"]);
    for name in ["a", "b"] {
        config_map(&shop, name, json!({"mode": "live"}));
        let mut spec = using(name);
        spec["volumes"] = json!([{"name": "c", "mountPath": "/c", "configMap": {"name": "maybe", "optional": true}}]);
        shop.app(name, spec);
        until_noted(&shop, name, name);
    }
    shop.settle();
    operator.terminate();

    let mark = shop.mark();
    let operator = cluster.operator(&["--watch-configmaps"]);
    shop.settle();
    assert_eq!(tally(&shop, mark), counts([]));
    operator.terminate();

    change(&shop, "a", json!({"data": {"mode": "test"}}));
    let mark = shop.mark();
    let _operator = cluster.operator(&["--watch-configmaps"]);
    shop.until(DEPLOYMENT, "a", "the pods are replaced", |a| !hash(a).is_empty());
    until_noted(&shop, "a", "a");
    shop.settle();
    let changed = counts([
        ("get configmaps", 1),
        ("patch appdeploys/status", 1),
        ("patch deployments", 1),
    ]);
    assert_eq!(tally(&shop, mark), changed);
    assert_eq!(hash(&shop.get(DEPLOYMENT, "b")), "");
    config_map(&shop, "maybe", json!({"mode": "live"}));
    shop.until(DEPLOYMENT, "b", "an optional one that is created counts", |b| {
        !hash(b).is_empty()
    });
}

#[test]
fn pods_of_a_set_are_replaced_after_a_change_of_a_config_map() {
    let shop = namespace("config-podset");
    config_map(&shop, "shop", json!({"mode": "live"}));
    let set = shop.podset_of("shop", json!({"replicas": 1, "template": using("shop")}), &["shop-0"]);
    assert_eq!(set["status"]["configMaps"][0]["name"], "shop");
    assert_eq!(set["status"].get("configHash"), None);
    let before = shop.get(POD, "shop-0");
    change(&shop, "shop", json!({"data": {"mode": "test"}}));
    shop.until(POD, "shop-0", "it is replaced", |pod| {
        !pod.is_null() && uid(pod) != uid(&before)
    });
    shop.until(PODSET, "shop", "the status has the hash", |set| {
        set["status"]["configHash"].is_string()
    });
    // The hash of the template does not include the setting.
    let after = shop.get(POD, "shop-0");
    shop.set_podset("shop", json!({"template": {"onConfigChange": "Ignore"}}));
    shop.until_podset("shop", "nothing is noted", |set| {
        set["status"].get("configMaps").is_none()
    });
    shop.settle_podsets();
    assert_eq!(uid(&shop.get(POD, "shop-0")), uid(&after));
}

#[test]
fn operator_that_does_not_watch_config_maps_refuses_the_setting() {
    static SHARED: Shared<Cluster> = Shared::new();
    let cluster = SHARED.get(|| Cluster::start(ControlPlane::builder()).with_operator(&[]));
    let shop = cluster.namespace("unwatched");
    shop.app("shop", using("shop"));
    let app = shop.until(APP, "shop", "it is refused", |app| ready(app).1 == "InvalidSpec");
    let message = text(&app, "/status/cause/message");
    let sentence = "spec.onConfigChange: the operator does not watch ConfigMaps: remove the field, or run the operator with \
                    --watch-configmaps (kubectl appdeploy install --watch-configmaps)";
    assert!(message.contains(sentence), "{message}");
    assert!(condition(&app, "Stalled").is_some());
    shop.podset("set", json!({"template": using("shop")}));
    let set = shop.until(PODSET, "set", "it is refused", |set| ready(set).1 == "InvalidSpec");
    assert!(
        text(&set, "/status/cause/message").contains("spec.template.onConfigChange"),
        "{set}"
    );
}

/// Most ConfigMaps of a cluster belong to other applications. The number is in docs/operations.md.
#[test]
fn config_maps_of_others_take_little_memory() {
    const MOST_BYTES_EACH: f64 = 4096.0;
    let count = if is_long() { 10_000 } else { 1_000 };
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let others = cluster.namespace("others");
    let value = "x".repeat(4096);
    let maps: Vec<Value> = (0..count)
        .map(|n| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("foreign-configuration-{n}"),
                "namespace": others.name}, "data": {"settings": value}})
        })
        .collect();
    for some in maps.chunks(500) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": some}).to_string();
        cluster
            .control_plane
            .kubectl_as(&cluster.control_plane.kubeconfig())
            .run_with_input(&["create", "-f", "-"], &list)
            .unwrap();
    }
    let resident = |flags: &[&str]| {
        let operator = cluster.operator(flags);
        others.settle();
        (operator.resident_mib(), operator.peak_mib())
    };
    let (without, with) = (resident(&[]), resident(&["--watch-configmaps"]));
    let each = (with.0 - without.0).max(0.0) * f64::from(1 << 20) / f64::from(count);
    println!(
        "{count} ConfigMaps: {:.1} MiB resident instead of {:.1}, at most {:.1} instead of {:.1}; {each:.0} bytes for each",
        with.0, without.0, with.1, without.1
    );
    assert!(each < MOST_BYTES_EACH, "{each} bytes for each ConfigMap");
}
