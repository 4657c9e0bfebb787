//! Certificates of another program, such as cert-manager: the operator needs no rights for them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use operator::webhook::certificate::life::Action;
use operator::webhook::certificate::material::{Data, Material};
use operator::webhook::certificate::{Lifetimes, key, names};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, OPERATOR, Webhooks, eventually};

/// Creates a certificate, writes it to the folder of the volume, and returns its authority as in a configuration.
fn issue(folder: &Path) -> Value {
    let names = names(crd::OPERATOR_NAMESPACE);
    let nothing = Material::read(&Data::new(), &names);
    let data = nothing
        .act(Action::Create, &Lifetimes::default(), &names, Timestamp::now())
        .unwrap();
    for key in [key::CERTIFICATE_KEY, key::CERTIFICATE] {
        std::fs::write(folder.join(key), &data[key].0).unwrap();
    }
    serde_json::to_value(&data[key::AUTHORITIES]).unwrap()
}

fn trust(cluster: &Cluster, bundle: &Value) {
    for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        let patch = json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]);
        let arguments = ["patch", kind, "appdeploy", "--type=json", "-p", &patch.to_string()];
        cluster.control_plane.kubectl(&arguments).unwrap();
    }
}

#[test]
fn provided_certificate_is_served_and_reloaded_without_rights() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let webhooks = Webhooks::install(&cluster);
    for kind in ["role", "rolebinding"] {
        let of_the_cluster = format!("cluster{kind}");
        let gone = ["delete", kind, "appdeploy-webhook", "-n", "appdeploy-system"];
        cluster.control_plane.kubectl(&gone).unwrap();
        let gone = ["delete", &of_the_cluster, "appdeploy-webhook"];
        cluster.control_plane.kubectl(&gone).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    // Before there is one, it waits.
    let mark = cluster.control_plane.audit().mark().unwrap();
    let bind = webhooks.bind.to_string();
    let flags = ["--webhooks", "--webhook-bind", &bind, "--webhook-cert-dir", place];
    let operator = cluster.spawn_operator(&flags);
    let waits = "webhooks: there is no certificate yet; the log says why\n";
    operator.until("/readyz", "it lacks a certificate alone", |_, body| body == waits);
    trust(&cluster, &issue(folder.path()));
    operator.until_ready();
    let space = cluster.namespace("given");
    let number = AtomicUsize::new(0);
    let is_answered = || {
        eventually("the API server is answered", || {
            let name = format!("app-{}", number.fetch_add(1, Ordering::Relaxed));
            let app = json!({"metadata": {"name": name}, "spec": {"image": "nginx:1"}});
            space.try_create(APP, app).is_ok()
        });
    };
    is_answered();
    // It is replaced, by one of another authority.
    trust(&cluster, &issue(folder.path()));
    is_answered();
    let asked = cluster.control_plane.audit().since(mark).unwrap().by_user(OPERATOR);
    let about = [
        "secrets",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    ];
    let needless = asked.that(|request| about.contains(&request.resource.as_str()));
    assert_eq!(needless.count(), 0, "{:?}", needless.tally());
}
