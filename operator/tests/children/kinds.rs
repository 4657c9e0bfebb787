//! Kinds of children that only this test has: each is one definition and an entry in a table, and goes through plan, watch,
//! apply and prune like the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Parser as _;
use kube::api::Patch;
use model::Valid;
use model::children::{CHILDREN, ChildKind, DEPLOYMENT, INGRESS, Prune, SERVICE};
use model::desired::{finish, meta};
use operator::settings::Settings;
use operator::stores::Stores;
use operator::telemetry::LogLevel;
use operator::{client, run};
use serde_json::{Value, json};
use testcluster::ControlPlane;
use tokio::runtime::Runtime;

use crate::harness::{APP, CONFIG_MAP, Cluster, Namespace, SERVICE_ACCOUNT, condition, text, uid};

/// One ConfigMap for each variable of an app, with its own name. It has `data` instead of a `spec`.
static VARIABLES: ChildKind = ChildKind {
    digest: &["data"],
    own_names: true,
    ..ChildKind::new(["", "v1", "ConfigMap", "configmaps"], variables)
};

fn variables(app: &Valid<'_>) -> Vec<Value> {
    let named = |name: &str| {
        let mut meta = meta(app);
        meta.name = Some(format!("{}-{}", app.name, name.to_lowercase()));
        meta
    };
    let variables = app.pod.container.env.iter().map(|variable| {
        let object = json!({"metadata": named(&variable.name), "data": {"value": variable.value}});
        finish(&VARIABLES, &object)
    });
    variables.collect()
}

/// A ServiceAccount for an app with variables: nothing but metadata, and kept when it is no longer wanted.
static ACCOUNT: ChildKind = ChildKind {
    digest: &[],
    prune: Prune::Keep,
    ..ChildKind::new(["", "v1", "ServiceAccount", "serviceaccounts"], account)
};

fn account(app: &Valid<'_>) -> Vec<Value> {
    let object = json!({"metadata": meta(app)});
    let wanted = (!app.pod.container.env.is_empty()).then(|| finish(&ACCOUNT, &object));
    wanted.into_iter().collect()
}

static KINDS: &[&ChildKind] = &[&VARIABLES, &ACCOUNT, &DEPLOYMENT, &SERVICE, &INGRESS];

/// An operator for apps with these kinds of children, in this process.
struct Operator(Option<Runtime>);

impl Operator {
    fn start(cluster: &Cluster) -> Self {
        let runtime = Runtime::new().unwrap();
        let kubeconfig = cluster.control_plane.kubeconfig();
        let bind = ["--bind=127.0.0.1:0", "--debug-bind=127.0.0.1:0"];
        let settings = Settings::parse_from(["appdeploy-operator"].into_iter().chain(bind));
        runtime.spawn(async move {
            let client = client::connect(Some(&kubeconfig)).await.unwrap();
            let stores = Stores::with_children(KINDS);
            run::run_with(stores, run::controllers, settings, client, LogLevel::fixed()).await
        });
        Self(Some(runtime))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn until_value(shop: &Namespace, name: &str, value: &str) -> Value {
    shop.until(CONFIG_MAP, name, "it has the value", |object| {
        object["data"]["value"] == value
    })
}

fn env(variables: &[(&str, &str)]) -> Value {
    let one = |(name, value): &(&str, &str)| json!({"name": name, "value": value});
    json!({"image": "nginx", "env": variables.iter().map(one).collect::<Vec<_>>()})
}

#[test]
fn new_kinds_are_created_repaired_and_pruned() {
    assert!(KINDS.iter().any(|kind| !CHILDREN.contains(kind)));
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let shop = cluster.namespace("shop");
    let _operator = Operator::start(&cluster);

    let app = shop.settled_app("web", env(&[("A", "1"), ("B", "2")]));
    let (a, b) = (until_value(&shop, "web-a", "1"), until_value(&shop, "web-b", "2"));
    let account = shop.until_there(SERVICE_ACCOUNT, "web");
    for child in [&a, &b, &account] {
        assert_eq!(text(child, "/metadata/ownerReferences/0/uid"), uid(&app));
    }

    // Several children of one kind are repaired each for itself.
    let spoilt = json!({"data": {"value": "spoilt"}});
    shop.patch(CONFIG_MAP, "web-a", Patch::Merge(spoilt));
    until_value(&shop, "web-a", "1");
    shop.delete(CONFIG_MAP, "web-b");
    shop.until_back(CONFIG_MAP, &b);
    shop.set(
        "web",
        json!({"env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]}),
    );
    until_value(&shop, "web-a", "3");

    // A steady app costs no write, although a ServiceAccount has no field but its metadata.
    shop.settle();
    let mark = shop.mark();
    shop.settle();
    assert_eq!(shop.asked_since(mark).tally(), BTreeMap::new());

    // What is no longer wanted is deleted, or kept.
    shop.set("web", json!({"env": [{"name": "A", "value": "3"}]}));
    shop.until_gone(CONFIG_MAP, "web-b");
    shop.set("web", json!({"env": []}));
    shop.until_gone(CONFIG_MAP, "web-a");
    assert_eq!(uid(&shop.get(SERVICE_ACCOUNT, "web")), uid(&account));

    // A third-party object keeps the name of a child.
    shop.create(
        CONFIG_MAP,
        json!({"metadata": {"name": "web-c"}, "data": {"value": "theirs"}}),
    );
    shop.set("web", json!({"env": [{"name": "C", "value": "4"}]}));
    let is_reported = |app: &Value| condition(app, "Ready").is_some_and(|ready| ready["reason"] == "NameConflict");
    let reported = shop.until(APP, "web", "the conflict is reported", is_reported);
    assert!(
        text(&reported, "/status/cause/message").contains("ConfigMap web-c"),
        "{reported}"
    );
    assert_eq!(shop.get(CONFIG_MAP, "web-c")["data"]["value"], "theirs");
}
