//! What happened, what is used, and the ways in: as far as they go without a node.

use serde_json::{Value, json};
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::{Plugin, conditions, status};
use crate::way::{asked, family};

fn installed() -> (PooledControlPlane, Plugin) {
    let (cluster, plugin) = Plugin::installed();
    plugin.run("create shop --image=nginx --port=80 --replicas=2").ok();
    (cluster, plugin)
}

fn event(cluster: &ControlPlane, name: &str, kind: &str, of: &str, (type_, reason, time): (&str, &str, &str)) {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "type": type_, "reason": reason, "message": format!("{reason} happened"), "lastTimestamp": time,
        "involvedObject": {"kind": kind, "name": of, "namespace": "default"}});
    cluster.apply(&event.to_string()).unwrap();
}

#[test]
fn events_of_an_app_and_its_children_are_sorted_by_time() {
    let (cluster, plugin) = installed();
    event(
        &cluster,
        "b",
        "Pod",
        "shop-5d4f8c7b6d-x2x9k",
        ("Warning", "BackOff", "2126-01-01T00:00:02Z"),
    );
    event(
        &cluster,
        "a",
        "Deployment",
        "shop",
        ("Normal", "ScalingReplicaSet", "2126-01-01T00:00:01Z"),
    );
    event(
        &cluster,
        "c",
        "Pod",
        "shop-blog-5d4f8c7b6d-x2x9k",
        ("Warning", "Other", "2126-01-01T00:00:03Z"),
    );
    let (text, requests) = asked(&cluster, || plugin.run("events shop").ok());
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["LAST", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    let told: Vec<&str> = rows[1..].iter().map(|row| row[3]).collect();
    assert_eq!(told, ["Deployment/shop", "Pod/shop-5d4f8c7b6d-x2x9k"], "{text}");
    assert_eq!(requests.count(), 4, "{:?}", requests.tally());

    let warnings: Value = serde_json::from_str(&plugin.run("events shop --types=Warning -o json").ok()).unwrap();
    let reasons: Vec<&Value> = warnings["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["reason"])
        .collect();
    assert_eq!(reasons, ["BackOff"]);
    let none = plugin.run("events shop --types=Warning,Normal -w --request-timeout=5s --no-headers -o json");
    assert!(none.fails(2).contains("cannot be used with"));
    plugin.run("create blog --image=nginx").ok();
    let none = plugin.run("events blog");
    assert_eq!(
        (none.code, none.out.as_str(), none.err.as_str()),
        (0, "", "No events found for appdeploy.appdeploy.dev/blog.\n")
    );
}

#[test]
fn several_names_are_shown_together() {
    let (cluster, plugin) = installed();
    plugin.run("create blog --image=nginx").ok();
    plugin.run("create other --image=nginx").ok();
    let names = |text: &str| -> Vec<String> {
        let words = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        words.map(str::to_owned).collect()
    };
    let table = plugin.run("status shop blog shop").ok();
    assert_eq!(names(table.split("\n\n").next().unwrap()), ["blog", "shop"], "{table}");
    assert_eq!(
        plugin.run("status shop blog -o name").ok(),
        "appdeploy.appdeploy.dev/shop\nappdeploy.appdeploy.dev/blog\n"
    );
    let list: Value = serde_json::from_str(&plugin.run("status shop blog -o json").ok()).unwrap();
    assert_eq!(
        (&list["kind"], list["items"].as_array().unwrap().len()),
        (&json!("List"), 2)
    );
    // As kubectl: those that exist are shown.
    let some = plugin.run("status nope shop");
    assert!(
        some.code == 1 && some.out.contains("shop") && some.err.contains("(NotFound)"),
        "{some:?}"
    );
    plugin.run("status shop nope --until=ready").fails(1);
    plugin.run("status nope neither --until=deleted").ok();

    let time = "2126-01-01T00:00:00Z";
    event(
        &cluster,
        "a",
        "Deployment",
        "shop",
        ("Normal", "ScalingReplicaSet", time),
    );
    event(
        &cluster,
        "b",
        "Pod",
        "blog-5d4f8c7b6d-x2x9k",
        ("Warning", "BackOff", time),
    );
    event(
        &cluster,
        "c",
        "Deployment",
        "other",
        ("Normal", "ScalingReplicaSet", time),
    );
    let text = plugin.run("events shop blog").ok();
    assert!(
        text.contains("Deployment/shop") && text.contains("Pod/blog-") && !text.contains("Deployment/other"),
        "{text}"
    );
    let text = plugin.run("events --all").ok();
    assert!(text.contains("Deployment/other"), "{text}");
    let some = plugin.run("events nope shop");
    assert!(
        some.code == 1 && some.out.contains("Deployment/shop") && some.err.contains("(NotFound)"),
        "{some:?}"
    );
    let said = plugin.run("top shop blog").fails(1);
    assert!(said.contains("usage of pods is not available"), "{said}");
}

/// A list has its limit, and the name of a pod as well.
#[test]
fn events_are_found_among_many_of_other_objects() {
    let (cluster, plugin) = installed();
    let app = "shop-with-a-very-long-name-that-people-still-can-read";
    plugin.run(&format!("create {app} --image=nginx")).ok();
    let crowd: Vec<Value> = (0..510)
        .map(|index| {
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("a{index}"), "namespace": "default"},
                "type": "Normal", "reason": "Started", "lastTimestamp": "2126-01-01T00:00:00Z",
                "involvedObject": {"kind": "Pod", "name": format!("crowd-5d4f8c7b6d-x{index}"), "namespace": "default"}})
        })
        .collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": crowd});
    std::fs::write(file.path(), list.to_string()).unwrap();
    cluster
        .kubectl(&["create", "-f", file.path().to_str().unwrap()])
        .unwrap();
    let time = "2126-01-01T00:00:02Z";
    event(
        &cluster,
        "b",
        "Pod",
        &format!("{app}-5d4fx2x9k"),
        ("Warning", "BackOff", time),
    );

    let text = plugin.run(&format!("events {app}")).ok();
    assert_eq!(
        text.lines().filter(|line| line.contains("BackOff")).count(),
        1,
        "{text}"
    );
    assert!(!text.contains("crowd"), "{text}");
}

#[test]
fn usage_is_printed_if_it_is_measured() {
    let (cluster, plugin) = installed();
    family(&cluster, 2);
    let said = plugin.run("top").fails(1);
    assert!(
        said.starts_with("error: usage of pods is not available\n  why:  metrics-server is not installed: the API metrics.k8s.io is missing\n  next: kubectl apply -f https://"),
        "{said}"
    );
    // What metrics-server would serve, as plain objects.
    let group = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pods.metrics.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": "metrics.k8s.io", "scope": "Namespaced", "names": {"plural": "pods", "kind": "PodMetrics"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    cluster.apply(&group.to_string()).unwrap();
    cluster
        .kubectl(&[
            "wait",
            "crd/pods.metrics.k8s.io",
            "--for=condition=Established",
            "--timeout=30s",
        ])
        .unwrap();
    let usage = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
        "metadata": {"name": "shop-0", "namespace": "default", "labels": {"appdeploy.dev/app": "shop"}},
        "containers": [{"name": "app", "usage": {"cpu": "12345678n", "memory": "51200Ki"}}]});
    cluster.apply(&usage.to_string()).unwrap();
    let (text, requests) = asked(&cluster, || plugin.run("top").ok());
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows[1],
        ["shop", "2", "13m", "<none>", "<none>", "50Mi", "<none>", "<none>"],
        "{text}"
    );
    assert_eq!(requests.count(), 3, "{:?}", requests.tally());
    let text = plugin.run("top shop --no-headers").ok();
    let first: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(
        first,
        [["shop-0", "13m", "<none>"], ["shop-1", "<unknown>", "<none>"]],
        "{text}"
    );
}

#[test]
fn failed_connection_reports_why() {
    let (cluster, plugin) = installed();
    for line in ["exec shop -- true", "port-forward shop :80"] {
        assert_eq!(
            plugin.run(line).fails(1),
            "error: no pod of shop runs\n  why:  no operator has seen it yet\n  next: kubectl appdeploy status shop\n",
            "{line}"
        );
    }
    assert!(plugin.run("exec shop").fails(2).contains("exec NAME -- COMMAND"));
    assert!(
        plugin
            .run("port-forward shop x")
            .fails(2)
            .contains("is not a port like 8080, 8080:80 or :80")
    );
    assert_eq!(
        plugin.run("open shop").fails(1),
        "error: shop has no URL\n  why:  no operator has seen it yet\n  next: kubectl appdeploy status shop\n"
    );
    plugin.run("create worker --image=busybox").ok();
    assert_eq!(
        plugin.run("port-forward worker").fails(2),
        "error: worker has no port\n  why:  give the port of its pods\n  next: kubectl appdeploy port-forward worker 8080\n"
    );
    let mut works = conditions("True", "Available", "", None);
    works["addresses"] = json!([{"type": "IPAddress", "value": "127.0.0.1"}]);
    works["url"] = "http://shop.invalid:1/".into();
    status(&cluster, "appdeploy/shop", &works);
    let opened = plugin.run("open shop");
    assert_eq!(
        (opened.code, opened.out.as_str(), opened.err.as_str()),
        (
            0,
            "http://shop.invalid:1/\n",
            "this machine can't resolve shop.invalid; the ingress controller answers at 127.0.0.1, but not on port 1\nnext: kubectl appdeploy port-forward shop\n"
        )
    );
}
