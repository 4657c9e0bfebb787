//! `status -w`: on a terminal, in a pipe, and until something is so.

use std::time::Duration;

use serde_json::Value;
use terminal::CTRL_C;
use testcluster::audit::Requests;
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::{Plugin, Run, conditions, status};
use crate::way::{endpoints, family, works};

fn installed() -> (PooledControlPlane, Plugin) {
    let (cluster, plugin) = Plugin::installed();
    plugin.run("create shop --image=nginx --port=80 --replicas=2").ok();
    (cluster, plugin)
}

fn progressing(cluster: &ControlPlane) {
    status(
        cluster,
        "appdeploy/shop",
        &conditions("False", "Progressing", "0 of 2 pods are ready", Some("Reconciling")),
    );
}

#[test]
fn page_follows_the_children_of_the_app_without_new_requests() {
    let (cluster, plugin) = installed();
    progressing(&cluster);
    let watch = plugin.at_terminal("status shop -w --until=ready");
    watch.shows("why:  0 of 2 pods are ready").unwrap();
    let before = cluster.audit().mark().unwrap();

    family(&cluster, 2);
    endpoints(&cluster, 1);
    let page = watch.shows("Service/shop      1/1").unwrap();
    assert_eq!(page.line_of("NAME"), Some(0), "{}", page.text());
    // It is drawn again for another size, without a change.
    watch.resize(6, 80).unwrap();
    let small = watch.shows("more lines").unwrap();
    assert_eq!(small.text().lines().count(), 6, "{}", small.text());
    watch.resize(24, 80).unwrap();
    watch.shows("Deployment/shop").unwrap();

    let asked = cluster.audit().since(before).unwrap();
    // A watch begins behind its first list. A status that differs from the children triggers a check of the operator.
    let asked = asked.by_user_agent_prefix("kubectl-appdeploy/").that(|request| {
        let what = request.what();
        !what.starts_with("watch ") && what != "get leases" && what != "get deployments"
    });
    assert_eq!(asked.count(), 0, "{:?}", asked.tally());

    status(&cluster, "appdeploy/shop", &works(2));
    let (code, last) = watch.end().unwrap();
    assert_eq!(code, 0, "{}", last.text());
    // The page stays where the command was typed.
    for part in [
        "shop   True    2/2    Available",
        "Service/shop      1/1",
        "Deployment/shop   2/2",
    ] {
        assert!(last.text().contains(part), "{part}: {}", last.text());
    }
    assert!(!last.is_cursor_hidden());

    let watch = plugin.at_terminal("status shop -w");
    watch.shows("Deployment/shop").unwrap();
    // A Secret that is named later is read, too.
    let named = r#"{"spec":{"tls":{"secretName":"shop-tls"}}}"#;
    cluster
        .kubectl(&["patch", "appdeploy/shop", "--type=merge", "-p", named])
        .unwrap();
    watch.shows("Secret/shop-tls").unwrap();
    watch.send(CTRL_C).unwrap();
    let (code, last) = watch.end().unwrap();
    assert_eq!((code, last.is_cursor_hidden()), (130, false));
    assert!(last.text().contains("Deployment/shop"), "{}", last.text());
}

#[test]
fn watch_in_a_pipe_prints_a_line_for_each_change_and_returns_an_exit_code() {
    let (cluster, plugin) = installed();
    progressing(&cluster);
    let before = cluster.audit().mark().unwrap();
    let lines = plugin.start("status --until=ready --timeout=60s");
    let objects = plugin.start("status shop --until=ready --timeout=60s -o json");
    // Both know how it is now before it changes.
    let watch = |requests: &Requests| requests.iter().filter(|one| one.what() == "watch appdeploys").count();
    cluster
        .audit()
        .wait_for(before, Duration::from_secs(60), |requests| watch(requests) >= 2)
        .unwrap();
    let waited = plugin.run("status shop --until=ready --timeout=1s");
    let said = waited.fails(4);
    assert_eq!(
        said,
        "error: appdeploy.appdeploy.dev/shop is not ready after 1s; it may still become so\n  why:  0 of 2 pods are ready\n  next: kubectl appdeploy status shop -w\n"
    );
    status(&cluster, "appdeploy/shop", &works(2));
    let lines = Run::of(lines).ok();
    let shown: Vec<&str> = lines.lines().collect();
    assert!(
        shown[0].starts_with("TIME                   NAME   READY   PODS   REASON "),
        "{lines}"
    );
    assert!(shown[1].ends_with("   0 of 2 pods are ready"), "{lines}");
    let (time, rest) = shown[2].split_once("   ").unwrap();
    assert!(
        time.ends_with('Z') && time.len() == 20 && rest.starts_with("shop   True    2/2    Available "),
        "{lines}"
    );
    assert_eq!(shown.len(), 3, "{lines}");
    let objects = Run::of(objects).ok();
    let ready: Vec<Value> = objects
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["status"]["readyReplicas"].clone())
        .collect();
    assert_eq!(ready, [Value::Null, 2.into()], "{objects}");

    status(
        &cluster,
        "appdeploy/shop",
        &conditions("False", "ImageNotFound", "image nginx:9 was not found", Some("Stalled")),
    );
    let said = plugin.run("status shop --until=ready").fails(3);
    assert!(
        said.starts_with("error: appdeploy.appdeploy.dev/shop will not become ready by itself\n"),
        "{said}"
    );

    let gone = plugin.start("status shop --until=deleted --timeout=60s");
    cluster.kubectl(&["delete", "appdeploy/shop", "--wait=false"]).unwrap();
    Run::of(gone).ok();
    assert_eq!(plugin.run("status shop --until=deleted").ok(), "");
    let said = plugin.run("status shop --until=ready").fails(1);
    assert!(said.starts_with("Error from server (NotFound): "), "{said}");
}
