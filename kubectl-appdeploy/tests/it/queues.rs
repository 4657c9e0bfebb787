//! Queues outside the cluster: the objects that the plugin makes for them, and how it deletes them. No operator runs here.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::Plugin;

pub const CREATE: &str = "queue create orders --region=us-east-1 --endpoint=http://sqs.example:9324 --credentials=sqs";
const OPERATOR: &str = "--as=system:serviceaccount:appdeploy-system:appdeploy-operator";

/// Returns what exists of queues and their grants, by name.
fn stored(cluster: &ControlPlane) -> String {
    let all = ["get", "appqueues,roles,rolebindings", "-n", "default", "-o", "name"];
    cluster.kubectl(&all).unwrap()
}

/// Returns the plugin as a user with these rights in a namespace.
pub fn user(cluster: &ControlPlane, name: &str, rules: &Value, namespace: &str) -> Plugin {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": name, "namespace": namespace}, "rules": rules});
    cluster.apply(&role.to_string()).unwrap();
    let (role, user) = (format!("--role={name}"), format!("--user={name}"));
    cluster
        .kubectl(&["create", "rolebinding", name, &role, &user, "-n", namespace])
        .unwrap();
    let first = &rules[0];
    let resource = format!(
        "{}.{}",
        first["resources"][0].as_str().unwrap(),
        first["apiGroups"][0].as_str().unwrap()
    );
    await_right(cluster, &resource, &["-n", namespace, &format!("--as={name}")]);
    Plugin::of(&cluster.kubeconfig_for(name, &[]).unwrap())
}

/// Waits until a right to get objects counts. API servers read rights with a watch.
pub fn await_right(cluster: &ControlPlane, resource: &str, flags: &[&str]) {
    let started = Instant::now();
    while cluster
        .kubectl(&[&["auth", "can-i", "get", resource], flags].concat())
        .is_err()
    {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "no right to get {resource}: {flags:?}"
        );
    }
}

#[test]
fn queue_is_created_with_a_role_for_its_secret() {
    let (cluster, plugin) = Plugin::installed();
    let titles = "role.rbac.authorization.k8s.io/appdeploy-queue-sqs created\n\
        rolebinding.rbac.authorization.k8s.io/appdeploy-queue-sqs created\nappqueue.appdeploy.dev/orders created\n";
    for (mode, suffix) in [("client", " (dry run)"), ("server", " (server dry run)")] {
        let said = plugin.run(&format!("{CREATE} --dry-run={mode}")).ok();
        assert_eq!(said, titles.replace(" created", &format!(" created{suffix}")));
        let printed = plugin.run(&format!("{CREATE} --dry-run={mode} -o json")).ok();
        let printed: Value = serde_json::from_str(&printed).unwrap();
        let kinds = [0, 1, 2].map(|index| printed["items"][index]["kind"].clone());
        assert_eq!(kinds, ["Role", "RoleBinding", "AppQueue"]);
        assert_eq!(stored(&cluster), "");
    }
    assert_eq!(plugin.run(CREATE).ok(), titles);
    let flags = ["-n", "default", OPERATOR];
    await_right(&cluster, "secrets/sqs", &flags);
    let other = ["auth", "can-i", "get", "secrets/other", "-n", "default", OPERATOR];
    assert!(cluster.kubectl(&other).is_err());

    // A Secret is shared, and what exists is not written again.
    let second = plugin
        .run("queue create mails --region=us-east-1 --credentials=sqs")
        .ok();
    assert_eq!(
        second,
        titles
            .replace("appdeploy-queue-sqs created", "appdeploy-queue-sqs unchanged")
            .replace("orders", "mails")
    );
    let before = stored(&cluster);
    let said = plugin.run(&CREATE.replace("=sqs", "=another")).fails(1);
    assert!(said.contains("(AlreadyExists)"), "{said}");
    assert!(
        said.contains("  next: kubectl appdeploy queue status orders\n  next: kubectl edit appqueue orders\n"),
        "{said}"
    );
    assert_eq!(stored(&cluster), before);

    let without = plugin.run("queue create plain --region=us-east-1");
    assert!(
        without
            .err
            .contains("the queue will not be created: without --credentials"),
        "{without:?}"
    );
    assert_eq!(without.ok(), "appqueue.appdeploy.dev/plain created\n");
    let said = plugin.run("queue create plain --grant-only").fails(1);
    assert!(
        said.contains("has no credentials of its own: nothing was changed"),
        "{said}"
    );
    let said = plugin.run("queue create missing --grant-only").fails(1);
    assert!(said.contains("\"missing\" not found"), "{said}");

    cluster
        .kubectl(&["delete", "role,rolebinding", "appdeploy-queue-sqs", "-n", "default"])
        .unwrap();
    assert_eq!(
        plugin.run("queue create orders --grant-only").ok(),
        titles.replace("appqueue.appdeploy.dev/orders created\n", "")
    );
    await_right(&cluster, "secrets/sqs", &flags);
}

#[test]
fn invalid_queue_is_refused_before_anything_is_sent() {
    let (cluster, plugin) = Plugin::installed();
    let before = cluster.audit().mark().unwrap();
    for (line, why) in [
        ("queue create orders", "missing --region"),
        ("queue create Orders --region=us-east-1", "metadata.name: "),
        (
            "queue create orders --region=us-east-1 --endpoint=sqs",
            "spec.sqs.endpoint: ",
        ),
        (
            "queue create orders --region=us-east-1 --visibility-timeout=13h",
            "spec.sqs.visibilityTimeoutSeconds: ",
        ),
        (
            "queue create orders --region=us-east-1 --type=topic",
            "must be Standard or FIFO",
        ),
        (
            "queue create orders --region=us-east-1 --dead-letter=x",
            "--max-receive-count",
        ),
        ("queue delete", "no queue selected"),
        ("queue delete app/orders", "app/orders is not a queue"),
    ] {
        let said = plugin.run(line).fails(2);
        assert!(said.contains(why), "{line}: {said}");
    }
    let sent = cluster.audit().since(before).unwrap();
    let sent = sent.by_user_agent_prefix("kubectl-appdeploy/");
    assert_eq!(sent.count(), 0, "{:?}", sent.tally());
}

/// No user can grant a right that the user does not have, and a failure leaves no object behind.
#[test]
fn grant_needs_the_rights_of_the_user() {
    let (cluster, _) = Plugin::installed();
    cluster.kubectl(&["create", "namespace", "team"]).unwrap();
    let queues = json!({"apiGroups": ["appdeploy.dev"], "resources": ["appqueues"], "verbs": ["*"]});
    let roles = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
        "verbs": ["get", "create", "patch"]});
    let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
    let line = "queue create orders --region=us-east-1 --credentials=sqs -n team";
    let found = |what: &str| cluster.kubectl(&["get", what, "-n", "team", "-o", "name"]).unwrap();

    let jane = user(&cluster, "jane", &json!([queues, roles]), "team");
    let said = jane.run(line).fails(1);
    assert!(
        said.contains("appdeploy-queue-sqs") && said.contains("(Forbidden)"),
        "{said}"
    );
    let joe = user(&cluster, "joe", &json!([roles, secrets]), "team");
    let said = joe.run(line).fails(1);
    assert!(
        said.contains("kubectl auth can-i create appqueues.appdeploy.dev -n team"),
        "{said}"
    );
    assert_eq!(found("appqueues"), "");
    assert!(!found("roles,rolebindings").contains("appdeploy-queue"));

    // Without the right to bind any role, a RoleBinding can be validated only after its Role exists.
    let ann = user(&cluster, "ann", &json!([queues, roles, secrets]), "team");
    assert_eq!(ann.run(line).ok().lines().count(), 3);
    assert!(found("roles,rolebindings").matches("appdeploy-queue-sqs").count() == 2);
}

/// Creates an AppQueue with the operator's finalizer.
fn managed(cluster: &ControlPlane, plugin: &Plugin, name: &str) {
    plugin
        .run(&format!("queue create {name} --region=us-east-1 --credentials=sqs"))
        .ok();
    let finalizer = json!({"metadata": {"finalizers": ["appdeploy.dev/queue"]}}).to_string();
    cluster
        .kubectl(&["patch", "appqueue", name, "--type=merge", "-p", &finalizer])
        .unwrap();
}

fn with_garbage_collector() -> (PooledControlPlane, Plugin) {
    Plugin::installed_in(ControlPlane::builder().controller_manager(&["garbagecollector"]))
}

#[test]
fn queue_that_the_operator_does_not_release_is_deleted_with_orphan() {
    let (cluster, plugin) = with_garbage_collector();
    for name in ["orders", "mails"] {
        managed(&cluster, &plugin, name);
    }
    let tried = plugin.run("queue delete orders --orphan --dry-run=server");
    assert!(tried.err.contains("Outside the cluster, kept: orders\n"), "{tried:?}");
    assert_eq!(tried.ok(), "appqueue.appdeploy.dev/orders deleted (server dry run)\n");
    let unasked = plugin.run("queue delete --all").fails(2);
    assert!(
        unasked.contains("Outside the cluster, deleted with all messages: mails, orders\n")
            && unasked.contains("error: this deletes 2 queues (mails, orders): nothing was deleted\n")
            && unasked.contains("  next: kubectl appdeploy queue delete --all --yes\n"),
        "{unasked}"
    );
    let stuck = plugin.run("queue delete orders --timeout=1s").fails(4);
    assert!(
        stuck.contains("appqueue.appdeploy.dev/orders is not deleted after 1s\n  why:  the operator is not running")
            && stuck.contains("  next: kubectl appdeploy queue delete orders -n default --orphan\n"),
        "{stuck}"
    );
    let run = plugin.run("queue delete orders --orphan");
    assert!(
        run.err
            .contains("the finalizer appdeploy.dev/queue of orders was removed"),
        "{run:?}"
    );
    assert_eq!(run.ok(), "appqueue.appdeploy.dev/orders deleted\n");
    assert_eq!(
        plugin.run("queue status -o name").ok(),
        "appqueue.appdeploy.dev/mails\n"
    );
    plugin.run("queue delete orders --ignore-not-found").ok();

    // Other finalizers are kept.
    let both = json!({"metadata": {"finalizers": ["appdeploy.dev/queue", "example.com/guard"]}}).to_string();
    let patch = |patch: &str| cluster.kubectl(&["patch", "appqueue", "mails", "--type=merge", "-p", patch]);
    patch(&both).unwrap();
    let stuck = plugin.run("queue delete mails --orphan --timeout=5s").fails(4);
    assert!(
        stuck.contains("  why:  it waits for: ") && stuck.contains("example.com/guard"),
        "{stuck}"
    );
    let stored = cluster.kubectl(&["get", "appqueue", "mails", "-o", "json"]).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["spec"]["deletionPolicy"], "Retain");
    assert!(
        !stored["metadata"]["finalizers"]
            .to_string()
            .contains("appdeploy.dev/queue"),
        "{stored}"
    );
    patch(r#"{"metadata": {"finalizers": null}}"#).unwrap();
}

#[test]
fn uninstall_shows_queues_and_keeps_them_outside_the_cluster() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run("install --wait=false --webhooks=false").ok();
    managed(&cluster, &plugin, "orders");
    let plan = plugin.run("uninstall --dry-run=client").ok();
    assert!(
        plan.contains(
            "  1 queue  (they stay outside the cluster, but changes are not repaired, and a deletion needs --orphan; --delete-apps deletes \
             them):\n    default: orders\n"
        ),
        "{plan}"
    );
    let plan = plugin.run("uninstall --delete-apps --dry-run=client").ok();
    assert!(
        plan.starts_with(
            "To be removed, in this order:\n  1 queue, deleted outside the cluster with all messages:\n    default: orders\n"
        ),
        "{plan}"
    );
    // The operator stays while its work is not done.
    let stuck = plugin.run("uninstall --delete-apps --yes --timeout=1s").fails(4);
    assert!(stuck.contains("queue delete orders -n default --orphan"), "{stuck}");
    cluster
        .kubectl(&["get", "deployment", "appdeploy-operator", "-n", "appdeploy-system"])
        .unwrap();
    // Apps that are kept need the address of the queue when a pod restarts.
    let uid = cluster
        .kubectl(&["get", "appqueue", "orders", "-o", "jsonpath={.metadata.uid}"])
        .unwrap();
    let output = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "orders-queue", "namespace": "default",
        "ownerReferences": [{"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppQueue", "name": "orders", "uid": uid,
            "controller": true, "blockOwnerDeletion": true}]}, "data": {"url": "http://sqs.example:9324/1/default_orders"}});
    cluster.apply(&output.to_string()).unwrap();
    let unasked = plugin.run("uninstall --delete-apps --orphan-children").fails(2);
    assert!(
        unasked.contains("error: this deletes 1 queue (kept outside the cluster): nothing was removed\n")
            && unasked.contains("  next: kubectl appdeploy uninstall --delete-apps --orphan-children --yes\n"),
        "{unasked}"
    );
    let run = plugin.run("uninstall --delete-apps --delete-crds --orphan-children --yes --timeout=60s");
    assert!(run.err.contains("  1 queue; kept outside the cluster:\n"), "{run:?}");
    assert!(
        run.ok()
            .starts_with("appqueue.appdeploy.dev/orders deleted from default namespace\n")
    );
    assert!(cluster.kubectl(&["get", "appqueues"]).is_err(), "the kind is deleted");
    let owners = [
        "get",
        "configmap",
        "orders-queue",
        "-o",
        "jsonpath={.metadata.ownerReferences}",
    ];
    assert_eq!(cluster.kubectl(&owners).unwrap(), "");
}
