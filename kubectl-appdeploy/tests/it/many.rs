//! More apps than fit into one answer.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::thread;

use fault_proxy::Proxy;
use fault_proxy::{Action, Answer, Requests, Rule, Verb};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::plugin::Plugin;

/// One request for each 500 of them, and one more.
const APPS: usize = 1201;

/// Creates apps in two namespaces, with several kubectls concurrently: each of them is slow.
fn apps(cluster: &ControlPlane) {
    cluster.kubectl(&["create", "namespace", "other"]).unwrap();
    let app = |n: usize| {
        let namespace = if n.is_multiple_of(2) { "default" } else { "other" };
        // The last names are the longest.
        let name = format!("app-{n:04}{}", "-long".repeat(usize::from(n > APPS - 3)));
        json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": name, "namespace": namespace, "labels": {"half": namespace}},
            "spec": {"image": "nginx"},
        })
    };
    let all: Vec<Value> = (0..APPS).map(app).collect();
    thread::scope(|scope| {
        for some in all.chunks(APPS.div_ceil(8)) {
            scope.spawn(move || {
                let list = json!({"apiVersion": "v1", "kind": "List", "items": some}).to_string();
                let kubectl = cluster.kubectl_as(&cluster.kubeconfig());
                kubectl
                    .run_with_input(&["create", "--validate=false", "-f", "-"], &list)
                    .unwrap();
            });
        }
    });
}

/// Returns the column in which the last value of a line stands.
fn last_column(line: &str) -> Option<usize> {
    line.rfind("   ").map(|at| at + 3)
}

#[test]
fn long_list_is_printed_in_pages() {
    let (cluster, plugin) = Plugin::installed();
    apps(&cluster);
    let asked = |line: &str| {
        let mark = cluster.audit().mark().unwrap();
        let out = plugin.run(line).ok();
        let since = cluster.audit().since(mark).unwrap();
        (
            out,
            since
                .by_user_agent_prefix("kubectl-appdeploy/")
                .on("appdeploys")
                .count(),
        )
    };

    let (names, requests) = asked("status -A -o name");
    assert_eq!((names.lines().collect::<BTreeSet<_>>().len(), requests), (APPS, 3));
    let (document, requests) = asked("status -A -o json");
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((document["items"].as_array().unwrap().len(), requests), (APPS, 3));
    let (half, requests) = asked("status -A -l half=other --no-headers");
    assert_eq!((half.lines().count(), requests), (600, 2));
    let (table, requests) = asked("status -A");
    assert_eq!(requests, 3);
    let rows: Vec<&str> = table.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 1 + APPS);
    assert_eq!(table.matches("NAMESPACE").count(), 1, "one header for all pages");
    let columns: Vec<_> = rows.iter().map(|row| last_column(row)).collect();
    let widths: BTreeSet<_> = columns.iter().collect();
    assert!(
        columns.is_sorted() && widths.len() == 2,
        "a page is aligned with the one before, or is wider once because of a long name: {widths:?}"
    );
    let mark = cluster.audit().mark().unwrap();
    plugin.run("status -A --no-headers").ok();
    let all = cluster.audit().since(mark).unwrap();
    assert_eq!(
        all.by_user_agent_prefix("kubectl-appdeploy/").count(),
        3,
        "no discovery, and no other kind"
    );
    // A verb for all of them reads them so, too.
    let (_, requests) = asked("describe -l half=nothing");
    assert_eq!(requests, 1);

    let proxy = Proxy::before(&cluster, "admin", &["system:masters"]).unwrap();
    let plugin = Plugin::of(proxy.kubeconfig());
    let later = || {
        Requests::with(&[Verb::List])
            .on("appdeploys")
            .with_uri_containing("continue=")
    };

    // The first page is there while the second is not.
    let hung = proxy.add(Rule::new(later(), Action::Hang));
    let mut child = plugin.start("status -A --request-timeout=0");
    let out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(out.lines().take(501).flatten().count(), 501);
    child.kill().unwrap();
    child.wait().unwrap();
    proxy.remove(hung);

    // The list has expired, and the API server returns a token to continue.
    let path = "/apis/appdeploy.dev/v1alpha1/appdeploys?limit=500";
    let page: Value = serde_json::from_str(&cluster.kubectl(&["get", "--raw", path]).unwrap()).unwrap();
    // The list that the plugin begins is another one.
    cluster.kubectl(&["label", "appdeploy", "app-0000", "new=one"]).unwrap();
    let gone = |token: &Value| {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
            "message": "The provided continue parameter is too old", "metadata": {"continue": token}});
        Action::Answer(Answer::new(410, body.to_string()))
    };
    let rule = proxy.add(Rule::new(later(), gone(&page["metadata"]["continue"])).first(1));
    let names = plugin.run("status -A -o name").ok();
    assert_eq!(names.lines().collect::<BTreeSet<_>>().len(), APPS);
    proxy.remove(rule);
    proxy.add(Rule::new(later(), gone(&Value::Null)));
    let said = plugin.run("status -A -o name").fails(1);
    assert!(said.starts_with("Error from server (Expired): "), "{said}");
}
