//! Init containers and sidecars, as a real API server stores them.

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, DEPLOYMENT, Namespace, POD, Shared, text};

/// An operator without webhooks that accepts all fields.
fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED
        .get(|| Cluster::start(ControlPlane::builder()).with_operator(&["--allow-unchecked-fields"]))
        .namespace(name)
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "busybox:1"})
}

fn containers(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| container(name)).collect()
}

fn every_field() -> Value {
    let mut migrate = container("migrate");
    migrate["command"] = json!(["sh", "-c", "date > /out/date"]);
    migrate["env"] = json!([{"name": "A", "value": "1"}, {"name": "EMPTY"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    migrate["resources"] = json!({"limits": {"cpu": "0.5", "memory": "64Mi"}});
    migrate["mounts"] = json!([{"name": "work", "mountPath": "/out"}]);
    let mut proxy = container("proxy");
    proxy["envFrom"] = json!([{"configMapRef": {"name": "proxy", "optional": true}}]);
    proxy["imagePullPolicy"] = json!("Always");
    proxy["probes"] = json!({"startup": {"tcpSocket": {"port": 15000}, "initialDelaySeconds": 0},
        "readiness": {"httpGet": {"port": 15000}}, "liveness": {"grpc": {"port": 15000}}});
    proxy["mounts"] =
        json!([{"name": "work", "mountPath": "/in", "readOnly": true}, {"name": "keys", "mountPath": "/keys"}]);
    json!({"image": "nginx:1", "initContainers": [migrate], "sidecars": [proxy], "volumes": [
        {"name": "work", "mountPath": "/work", "emptyDir": {}}, {"name": "keys", "secret": {"secretName": "keys"}}]})
}

/// Returns the init containers of a Deployment, those that keep running with a `+`.
fn inits(deployment: &Value) -> Vec<String> {
    let all = deployment.pointer("/spec/template/spec/initContainers");
    let all = all.and_then(Value::as_array).into_iter().flatten();
    all.map(|one| {
        let mark = if one["restartPolicy"] == "Always" { "+" } else { "" };
        format!("{}{mark}", text(one, "/name"))
    })
    .collect()
}

/// Waits until the Deployment has these init containers, and checks that the operator then writes nothing more.
fn settles_with(space: &Namespace, expected: &[&str]) {
    let before = space.until(DEPLOYMENT, "shop", &format!("it has {expected:?}"), |deployment| {
        inits(deployment) == expected
    });
    space.patch(
        APP,
        "shop",
        Patch::Merge(json!({"metadata": {"labels": {"at": text(&before, "/metadata/resourceVersion")}}})),
    );
    space.settle();
    let after = space.get(DEPLOYMENT, "shop");
    assert_eq!(inits(&after), expected);
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
}

#[test]
fn steady_app_with_containers_costs_no_write() {
    let shop = namespace("containers-steady");
    shop.settled_app("shop", every_field());
    settles_with(&shop, &["proxy+", "migrate"]);
    let pod = &shop.get(DEPLOYMENT, "shop")["spec"]["template"]["spec"];
    let mounts = |container: &Value| container["volumeMounts"].clone();
    assert_eq!(
        mounts(&pod["containers"][0]),
        json!([{"name": "work", "mountPath": "/work"}])
    );
    assert_eq!(
        mounts(&pod["initContainers"][1]),
        json!([{"name": "work", "mountPath": "/out"}])
    );
    assert_eq!(
        pod["initContainers"][0]["securityContext"],
        json!({"allowPrivilegeEscalation": false})
    );
}

#[test]
fn containers_get_the_order_of_the_spec() {
    let shop = namespace("containers-order");
    shop.settled_app(
        "shop",
        json!({"image": "nginx:1", "initContainers": containers(&["a", "b"])}),
    );
    settles_with(&shop, &["a", "b"]);
    shop.set("shop", json!({"initContainers": containers(&["c", "b", "a"])}));
    settles_with(&shop, &["c", "b", "a"]);
    // Another manager adds a container between them, and changes their order.
    let mut mixed = shop.get(DEPLOYMENT, "shop")["spec"]["template"]["spec"]["initContainers"].clone();
    let list = mixed.as_array_mut().unwrap();
    list.reverse();
    list.insert(1, container("added"));
    let patch = json!([{"op": "replace", "path": "/spec/template/spec/initContainers", "value": mixed}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    shop.patch(DEPLOYMENT, "shop", patch);
    shop.until(DEPLOYMENT, "shop", "they have their order", |deployment| {
        let names = inits(deployment);
        let ours: Vec<_> = names.iter().filter(|name| *name != "added").collect();
        names.len() == 4 && ours == ["c", "b", "a"]
    });
    // The first becomes a sidecar, and another one ends.
    shop.set(
        "shop",
        json!({"initContainers": containers(&["b"]), "sidecars": containers(&["a"])}),
    );
    shop.until(DEPLOYMENT, "shop", "it has the sidecar", |deployment| {
        let names = inits(deployment);
        names.iter().filter(|name| *name != "added").eq(["a+", "b"])
    });
    shop.set(
        "shop",
        json!({"initContainers": containers(&["b", "a"]), "sidecars": null}),
    );
    shop.until(DEPLOYMENT, "shop", "it has no sidecar", |deployment| {
        let names = inits(deployment);
        names.iter().filter(|name| *name != "added").eq(["b", "a"])
    });
    shop.set("shop", json!({"initContainers": null}));
    shop.until(DEPLOYMENT, "shop", "it has only the added one", |deployment| {
        inits(deployment) == ["added"]
    });
}

#[test]
fn changed_sidecar_replaces_the_pods_of_a_set() {
    let shop = namespace("containers-set");
    let with = |image: &str| {
        let mut template = every_field();
        template["image"] = json!(image);
        template
    };
    shop.podset("set", json!({"template": with("nginx:1")}));
    let first = shop.until_there(POD, "set-0");
    let names: Vec<&str> = ["/0/name", "/1/name"]
        .map(|name| text(&first["spec"]["initContainers"], name))
        .into();
    assert_eq!(names, ["proxy", "migrate"]);
    let mut changed = with("nginx:1");
    changed["sidecars"][0]["image"] = json!("busybox:2");
    shop.set_podset("set", json!({"template": changed}));
    shop.until(POD, "set-0", "it is replaced", |pod| {
        pod["spec"]["initContainers"][0]["image"] == "busybox:2" && pod["metadata"]["uid"] != first["metadata"]["uid"]
    });
}

/// The status of a pod as the kubelet reports it.
#[test]
fn failing_container_is_named_with_its_last_words() {
    let shop = namespace("containers-fail");
    shop.podset("set", json!({"template": every_field()}));
    shop.until_there(POD, "set-0");
    let status = |name: &str, ready: bool, state: Value, last: Value| {
        json!({"name": name, "image": "busybox:1", "imageID": "",
        "ready": ready, "started": ready, "restartCount": 2, "state": state, "lastState": last})
    };
    let failed = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no database\n"}});
    let waits = |reason: &str| json!({"waiting": {"reason": reason}});
    shop.patch_status(
        POD,
        "set-0",
        json!({"phase": "Pending",
            "initContainerStatuses": [
                status("proxy", true, json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), json!({})),
                status("migrate", false, waits("CrashLoopBackOff"), failed)],
            "containerStatuses": [status("app", false, waits("PodInitializing"), json!({}))]}),
    );
    let set = shop.until_podset("set", "the cause is reported", |set| {
        text(set, "/status/cause/reason") == "CrashLoop"
    });
    assert_eq!(
        text(&set, "/status/cause/message"),
        "init container migrate fails, with exit code 3; its last words: \"no database\""
    );
    assert_eq!(
        text(&set, "/status/cause/next"),
        format!("kubectl appdeploy podset logs set -n {} -c migrate", shop.name)
    );
}
