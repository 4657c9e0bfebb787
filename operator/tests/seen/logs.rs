//! What a log line says of the object that it is about.

use serde_json::Value;

use crate::harness::{Namespace, Operator, QUIET, text, web};
use crate::seen::cluster;

/// Creates an app that is rejected, which is logged, and waits until its status reports it.
fn refused(shop: &Namespace, name: &str) -> Value {
    let mut spec = web();
    spec["resources"] = serde_json::json!({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}});
    shop.settled_app(name, spec)
}

fn start(name: &str, flags: &[&str]) -> (Namespace, Operator) {
    let cluster = cluster();
    let shop = cluster.namespace(name);
    let operator = cluster.operator(&[&["--watch-namespace", name], flags].concat());
    (shop, operator)
}

#[test]
fn each_json_line_of_a_reconcile_names_object_generation_and_reconcile() {
    let (shop, operator) = start("logs-json", &["--log-format", "json"]);
    let app = refused(&shop, "shop");
    operator.terminate();
    let log = operator.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let about: Vec<&Value> = lines.iter().filter(|line| line.get("reconcileID").is_some()).collect();
    let said: Vec<&str> = about.iter().map(|line| text(line, "/message")).collect();
    assert!(said.contains(&"not as wanted") && said.contains(&"created"), "{log}");
    for line in &about {
        assert_eq!(line["kind"], "AppDeploy", "{line}");
        assert_eq!(line["namespace"], "logs-json", "{line}");
        assert_eq!(line["name"], "shop", "{line}");
        assert_eq!(line["generation"], app["metadata"]["generation"], "{line}");
        let id = text(line, "/reconcileID");
        assert!(id.len() == 16 && id.chars().all(|c| c.is_ascii_hexdigit()), "{line}");
    }
    // All lines of one reconcile have one ID, and those of the next one have another.
    let created = about.iter().find(|line| text(line, "/message") == "created").unwrap();
    let mut together = about
        .iter()
        .filter(|line| line["reconcileID"] == created["reconcileID"]);
    assert!(together.any(|line| text(line, "/message") == "not as wanted"), "{log}");
    assert_eq!(text(&lines[0], "/message"), "starting", "{log}");
    assert_eq!(lines[0].get("reconcileID"), None, "what is about no object names none");
}

#[test]
fn text_log_at_level_warn_has_the_same_fields() {
    let (shop, operator) = start("logs-text", &[]);
    // Set while it runs, as in an incident.
    assert_eq!(operator.debug("PUT", "/log-level", "warn").0, 200);
    refused(&shop, "shop");
    operator.terminate();
    let log = operator.log();
    let line = log.lines().find(|line| line.contains("not as wanted"));
    let line = line.unwrap_or_else(|| panic!("nothing was said:\n{log}"));
    let about = "kind=AppDeploy namespace=logs-text name=shop reconcileID=";
    assert!(
        line.contains("WARN") && line.contains(about) && line.contains("generation=1"),
        "{line}"
    );
}

#[test]
fn nothing_is_logged_in_a_steady_cluster() {
    let (shop, operator) = start("logs-calm", &[]);
    assert_eq!(operator.debug("PUT", "/log-level", "info").0, 200);
    for name in ["one", "two", "three"] {
        shop.settled_app(name, web());
    }
    std::thread::sleep(QUIET);
    let before = operator.log().lines().count();
    std::thread::sleep(QUIET);
    let log = operator.log();
    assert_eq!(log.lines().count(), before, "{log}");
}
