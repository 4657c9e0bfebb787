//! Whatever an app was before, its children are those of what it is.

use kube::api::Patch;
use serde_json::{Value, json};

use crate::children::{CHILDREN, namespace};
use crate::harness::{APP, Namespace, is_long, is_observed, web};

const SEED: u64 = 20_260_801;

/// G9: a chain of specs ends where an app that was made with the last one begins.
#[test]
fn children_follow_the_spec_after_any_history() {
    let mut draw = fastrand::Rng::with_seed(SEED);
    let mut newer = fastrand::Rng::with_seed(SEED + 1);
    let chain = namespace("chain");
    chain.settled_app("shop", web());
    for step in 0..if is_long() { 400 } else { 15 } {
        let spec = spec(&mut draw, &mut newer);
        let changed: Patch<()> = Patch::Json(
            serde_json::from_value(json!([{"op": "replace", "path": "/spec", "value": in_namespace(&spec, "chain")}]))
                .unwrap(),
        );
        let changed = chain.patch(APP, "shop", changed);
        chain.until(APP, "shop", "the spec is seen", |app| {
            is_observed(app) && app["metadata"]["generation"] == changed["metadata"]["generation"]
        });
        // What goes in steps, such as a Deployment that is read while others are written, is found in the next too.
        if step % 5 == 4 {
            let name = format!("twin-{step}");
            let twin = namespace(&name);
            twin.settled_app("shop", in_namespace(&spec, &name));
            for kind in CHILDREN {
                let wanted = wish(&twin.get(kind, "shop"), &twin);
                let is = wish(&chain.get(kind, "shop"), &chain);
                assert_eq!(is, wanted, "{kind:?} after step {step} of seed {SEED}: {spec}");
            }
        }
    }
}

/// What is wanted of an object, wherever it is.
fn wish(object: &Value, of: &Namespace) -> Value {
    let mut wish = json!([
        object["metadata"]["labels"],
        object["metadata"]["annotations"],
        object["spec"]
    ]);
    if let Some(spec) = wish[2].as_object_mut() {
        for given in ["clusterIP", "clusterIPs"] {
            spec.remove(given);
        }
    }
    // The hash is of an object with its namespace in it.
    if let Some(annotations) = wish[1].as_object_mut() {
        annotations.remove("appdeploy.dev/desired-hash");
    }
    serde_json::from_str(&wish.to_string().replace(&of.name, "NS")).unwrap()
}

fn in_namespace(spec: &Value, name: &str) -> Value {
    serde_json::from_str(&spec.to_string().replace("$NS", name)).unwrap()
}

/// Draws a spec that the API server takes.
fn spec(draw: &mut fastrand::Rng, newer: &mut fastrand::Rng) -> Value {
    let image = ["nginx:1.27", "nginx:1.28", "httpd"][draw.usize(..3)];
    let mut spec = json!({"image": image, "replicas": draw.u8(0..4)});
    let mut maybe = |spec: &mut Value, field: &str, values: &[Value]| {
        if draw.bool() {
            spec[field] = values[draw.usize(..values.len())].clone();
        }
    };
    maybe(&mut spec, "command", &[json!(["/run"]), json!(["/run", "it"])]);
    maybe(&mut spec, "args", &[json!(["--quiet"]), json!(["--loud", "--port=1"])]);
    let secret = json!({"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
    let (a, b) = (json!({"name": "A", "value": "1"}), json!({"name": "B", "value": "2"}));
    let lists = [
        json!([a]),
        json!([b, a]),
        json!([a, secret]),
        json!([{"name": "KEY", "value": "plain"}]),
    ];
    maybe(&mut spec, "env", &lists);
    let resources = [
        json!({"requests": {"cpu": "100m"}}),
        json!({"requests": {"cpu": "0.5", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}),
    ];
    maybe(&mut spec, "resources", &resources);
    maybe(&mut spec, "securityProfile", &[json!("Restricted"), json!("Baseline")]);
    maybe(&mut spec, "imagePullPolicy", &[json!("Always"), json!("IfNotPresent")]);
    maybe(&mut spec, "port", &[json!(80), json!(8080)]);
    if spec.get("port").is_some() {
        maybe(&mut spec, "healthCheck", &[json!({}), json!({"path": "/healthz"})]);
        maybe(&mut spec, "expose", &[json!("Cluster"), json!("Public")]);
        if spec["expose"] != "Cluster" {
            maybe(
                &mut spec,
                "host",
                &[json!("a.$NS.example.com"), json!("b.$NS.example.com")],
            );
            maybe(&mut spec, "path", &[json!("/"), json!("/api")]);
            maybe(
                &mut spec,
                "tls",
                &[json!({"secretName": "tls"}), json!({"secretName": "other"})],
            );
        }
    }
    draw_newer(&mut spec, newer);
    spec
}

/// Draws fields that were added later, from numbers of their own: the others stay as they were.
fn draw_newer(spec: &mut Value, draw: &mut fastrand::Rng) {
    let mut maybe = |spec: &mut Value, field: &str, values: &[Value]| {
        if draw.bool() {
            spec[field] = values[draw.usize(..values.len())].clone();
        }
    };
    if spec.get("env").is_none() {
        let field = json!({"name": "KEY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}});
        maybe(spec, "env", &[json!([field])]);
    }
    let secret = json!({"prefix": "S_", "secretRef": {"name": "s", "optional": true}});
    let map = json!({"configMapRef": {"name": "m"}});
    let objects = [json!([secret]), json!([map, secret]), json!([map])];
    maybe(spec, "envFrom", &objects);
    let rollouts = [
        json!({"type": "Recreate"}),
        json!({"type": "RollingUpdate"}),
        json!({"maxSurge": 1, "maxUnavailable": 0}),
        json!({"maxUnavailable": "50%", "progressDeadlineSeconds": 60}),
    ];
    maybe(spec, "rollout", &rollouts);
    maybe(spec, "terminationGracePeriodSeconds", &[json!(20), json!(60)]);
    maybe(spec, "preStopSleepSeconds", &[json!(5), json!(10)]);
    if spec.get("healthCheck").is_none() {
        let probes = [
            json!({"readiness": {"httpGet": {"port": 8080, "path": "/ready"}, "periodSeconds": 5}}),
            json!({"readiness": {"grpc": {"port": 8080}}, "liveness": {"exec": {"command": ["a"]}}}),
            json!({"startup": {"tcpSocket": {"port": 80}, "failureThreshold": 9}}),
        ];
        maybe(spec, "probes", &probes);
    }
    if spec.get("port").is_some() {
        let dns = json!({"name": "dns", "port": 53, "protocol": "UDP"});
        let admin = json!({"name": "admin", "port": 53, "appProtocol": "grpc"});
        let ports = [
            json!([dns]),
            json!([admin, dns]),
            json!([{"name": "dns", "port": 81}, admin]),
        ];
        maybe(spec, "ports", &ports);
    }
}
