//! What the plugin shows of queues, as an operator would report them. No operator runs here.

use serde_json::{Value, json};
use terminal::CTRL_C;
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::{Plugin, status};
use crate::queues::CREATE;

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// Writes the status of a queue that is ready.
fn ready(cluster: &ControlPlane, name: &str, generation: i64, depth: i64) {
    let url = format!("http://sqs.example:9324/000000000000/default_{name}");
    let ready = json!({"observedGeneration": generation, "approximateDepth": depth, "url": url, "cause": null,
        "conditions": [condition("Ready", "True", "Available", "")]});
    status(cluster, &format!("appqueue/{name}"), &ready);
}

/// A queue that is ready, and one that no operator has seen.
fn two_queues() -> (PooledControlPlane, Plugin) {
    let (cluster, plugin) = Plugin::installed();
    plugin.run(CREATE).ok();
    plugin
        .run("queue create mails --region=eu-west-1 --type=fifo --credentials=sqs -l team=shop")
        .ok();
    ready(&cluster, "orders", 1, 12);
    (cluster, plugin)
}

#[test]
fn status_describe_and_adopt_show_what_the_operator_reports() {
    let (cluster, plugin) = Plugin::installed();
    let none = plugin.run("queue status");
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(
        none.err.starts_with("No queues found in default namespace.\n"),
        "{none:?}"
    );
    plugin.run(CREATE).ok();
    let said = plugin.run("queue adopt orders").fails(1);
    assert!(said.contains("has no conflict: nothing was changed"), "{said}");

    let why = "a queue with this name exists and was not created by this AppQueue; it is not changed";
    let next = "kubectl appdeploy queue adopt orders -n default";
    let one = |kind: &str, status: &str| condition(kind, status, "QueueConflict", why);
    let conflict = json!({"observedGeneration": 1, "conditions": [one("Ready", "False"), one("Stalled", "True")],
        "cause": {"reason": "QueueConflict", "message": why, "next": next}});
    status(&cluster, "appqueue/orders", &conflict);
    for line in ["queue status", "queue status orders"] {
        let page = plugin.run(line).ok();
        assert!(
            page.contains("orders   False   <unknown>   QueueConflict   <pending>")
                && page.contains(&format!("orders: {why}\n  next: {next}\n")),
            "{page}"
        );
    }
    let page = plugin.run("queue describe orders").ok();
    assert!(
        page.contains("Credentials:     Secret sqs\n") && page.contains("Ready:           no (QueueConflict)\n"),
        "{page}"
    );
    let said = plugin.run("queue status orders --until=ready --timeout=30s").fails(3);
    assert!(said.contains("will not become ready by itself"), "{said}");

    let unasked = plugin.run("queue adopt orders").fails(2);
    assert!(
        unasked.starts_with(&format!("orders: {why}\n"))
            && unasked.contains("  next: kubectl appdeploy queue adopt orders --yes\n"),
        "{unasked}"
    );
    assert_eq!(
        plugin.run("queue adopt orders --yes").ok(),
        "appqueue.appdeploy.dev/orders adopted\n"
    );
    ready(&cluster, "orders", 2, 12);
    let line = plugin.run("queue status orders --until=ready --no-headers").ok();
    assert!(
        line.contains("orders   True    12      Available   http://sqs.example:9324/"),
        "{line}"
    );
    let stored: Value = serde_json::from_str(&plugin.run("queue status orders -o json").ok()).unwrap();
    assert_eq!(stored["spec"]["adoptionPolicy"], "IfExists");
    assert_eq!(
        plugin.run("queue adopt orders --yes").ok(),
        "appqueue.appdeploy.dev/orders unchanged\n"
    );
}

#[test]
fn list_of_queues_has_the_formats_of_other_kinds() {
    let (cluster, plugin) = two_queues();
    let names = "appqueue.appdeploy.dev/mails\nappqueue.appdeploy.dev/orders\n";
    for line in [
        "queue status -o name",
        "queue status -A -o name",
        "queue status mails orders -o name",
    ] {
        assert_eq!(plugin.run(line).ok(), names, "{line}");
    }
    assert_eq!(
        plugin.run("queue status -l team=shop -o name").ok(),
        "appqueue.appdeploy.dev/mails\n"
    );
    let list: Value = serde_json::from_str(&plugin.run("queue status -o json").ok()).unwrap();
    assert_eq!(
        (&list["kind"], list["items"].as_array().unwrap().len()),
        (&json!("List"), 2)
    );
    assert_eq!(list["items"][0]["kind"], "AppQueue");
    let wide = plugin.run("queue status -A -o wide").ok();
    assert!(
        wide.contains("REGION      TYPE       AGE\n") && wide.contains("eu-west-1   FIFO "),
        "{wide}"
    );
    let some = plugin.run("queue status orders nope --no-headers");
    assert!(
        some.out.contains("orders   True    12 ") && some.err.contains("\"nope\" not found"),
        "{some:?}"
    );
    assert_eq!(some.code, 1);
    for line in [
        "queue status nope",
        "queue describe nope",
        "queue delete nope",
        "queue adopt nope",
    ] {
        assert!(plugin.run(line).fails(1).contains("\"nope\" not found"), "{line}");
    }
    let wrong = plugin.run("queue status appdeploy/orders").fails(2);
    assert!(
        wrong.contains("appdeploy/orders is not a queue: nothing was done\n  why:  it is an app\n"),
        "{wrong}"
    );

    // A change in a pipe is a line, in JSON a line of its own.
    let watch = plugin.start("queue status orders -w -o json --until=deleted --timeout=60s");
    ready(&cluster, "orders", 1, 130);
    cluster.kubectl(&["delete", "appqueue", "orders"]).unwrap();
    let lines = crate::plugin::Run::of(watch).ok();
    for line in lines.lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["metadata"]["name"], "orders");
    }
    let screen = plugin.at_terminal("queue status -w");
    screen
        .shows("mails   Unknown   <unknown>   Pending   <pending>")
        .unwrap();
    ready(&cluster, "mails", 1, 3);
    screen
        .shows("mails   True    3       Available   http://sqs.example:9324/")
        .unwrap();
    screen.send(CTRL_C).unwrap();
}

#[test]
fn page_of_an_app_shows_its_queues_with_their_depth() {
    let (cluster, plugin) = two_queues();
    plugin.run("create shop --image=nginx --queue=orders --queue=lost").ok();
    for (line, indent) in [("status shop", ""), ("describe shop", "  ")] {
        let page = plugin.run(line).ok();
        assert!(
            page.contains(&format!("{indent}QUEUE    READY     DEPTH       REASON      URL\n"))
                && page.contains(&format!(
                    "{indent}orders   True      12          Available   http://sqs.example:9324/"
                ))
                && page.contains(&format!("{indent}lost     Unknown   <unknown>   missing     <pending>")),
            "{page}"
        );
    }
    let exported = plugin.run("export shop --manifest").ok();
    assert!(
        exported.contains("  queues:\n  - name: orders\n  - name: lost\n"),
        "{exported}"
    );
    plugin.run("podset create workers --image=nginx --queue=orders").ok();
    let page = plugin.run("podset status workers").ok();
    assert!(page.contains("orders   True    12      Available "), "{page}");
    // Without the right to read queues, the rest of the page is shown.
    let rules = json!([{"apiGroups": ["appdeploy.dev"], "resources": ["appdeploys"], "verbs": ["get", "list"]}]);
    let jane = crate::queues::user(&cluster, "jane", &rules, "default");
    let page = jane.run("status shop").ok();
    assert!(
        page.contains("orders   Unknown   <unknown>   n/a (forbidden)   <pending>"),
        "{page}"
    );
}

#[test]
fn queues_are_applied_from_files() {
    let (cluster, plugin) = Plugin::installed();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let write = |seconds: u32| {
        let text = format!(
            "apiVersion: appdeploy.dev/v1alpha1\nkind: AppQueue\nmetadata: {{name: orders}}\nspec:\n  sqs: {{region: us-east-1, visibilityTimeoutSeconds: {seconds}}}\n---\n\
             apiVersion: appdeploy.dev/v1alpha1\nkind: AppDeploy\nmetadata: {{name: shop}}\nspec: {{image: nginx, queues: [{{name: orders}}]}}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    let apply = |flags: &str| plugin.run(&format!("apply -f {}{flags}", file.display()));
    write(45);
    let created = "appqueue.appdeploy.dev/orders created\nappdeploy.appdeploy.dev/shop created\n";
    assert_eq!(
        apply(" --dry-run=server").ok(),
        created.replace("created", "created (server dry run)")
    );
    assert_eq!(apply("").ok(), created);
    write(90);
    assert!(apply("").ok().starts_with("appqueue.appdeploy.dev/orders configured\n"));
    assert_eq!(
        cluster
            .kubectl(&[
                "get",
                "appqueue",
                "orders",
                "-o",
                "jsonpath={.spec.sqs.visibilityTimeoutSeconds}"
            ])
            .unwrap(),
        "90"
    );
    write(99_999);
    let invalid = apply("").fails(2);
    assert!(
        invalid.contains("spec.sqs.visibilityTimeoutSeconds: must be a number from 0 to 43200"),
        "{invalid}"
    );
    let mismatch = plugin.run(&format!("diff -f {}", file.display())).code;
    assert_eq!(mismatch, 2);
}
