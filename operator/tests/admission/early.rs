//! An operator that has just started answers reviews before it has listed everything. It must not allow what it can't judge yet.

use std::sync::Arc;

use fault_proxy::{Action, Proxy, Requests, Rule, Verb};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, INGRESS, Kind, OPERATOR, Webhooks, eventually, web};

fn on(host: &str) -> Value {
    let mut spec = web();
    spec["host"] = json!(host);
    spec
}

/// Remedy: `Stores::blocking_claim` knows whether apps and Ingresses were listed.
#[test]
fn host_is_not_given_away_before_all_hosts_are_known() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let webhooks = Webhooks::install(&cluster);
    let [here, there] = ["early-here", "early-there"].map(|name| cluster.namespace(name));
    let operator = webhooks.operator(&cluster, &[]);
    here.settled_app("shop", on("shop.example.com"));
    operator.terminate();

    let refusal = |name: &str| {
        let app = json!({"metadata": {"name": name}, "spec": on("shop.example.com")});
        there.try_create(APP, app).unwrap_err().to_string()
    };
    let lists = |kind: Kind| Requests::with(&[Verb::List]).on(kind.plural());
    let bind = webhooks.bind.to_string();
    for (name, unlisted) in [
        ("all", &[APP, INGRESS][..]),
        ("apps", &[APP]),
        ("ingresses", &[INGRESS]),
    ] {
        let proxy = Proxy::before(&cluster.control_plane, OPERATOR, &[]).unwrap();
        let stall = |kind: &Kind| proxy.add(Rule::new(lists(*kind), Action::StallAnswer));
        let stalled: Vec<_> = unlisted.iter().map(stall).collect();
        let operator = cluster.spawn_operator_behind(&proxy, &["--webhooks", "--webhook-bind", &bind]);
        eventually("the operator answers, and does not know all hosts", || {
            refusal(name).contains("does not know all hosts yet; try again")
        });
        there.app(name, json!({"image": "nginx:1"}));
        for rule in stalled {
            proxy.remove(rule);
        }
        operator.until_ready();
        assert!(refusal("late").contains("is used by an AppDeploy of another namespace"));
        operator.terminate();
    }
}
