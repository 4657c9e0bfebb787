//! The log line of a panic. The panic is in its own process, because the hook belongs to the whole process.

use std::process::Command;

use clap::Parser as _;
use operator::settings::Settings;
use serde_json::Value;
use tracing::error_span;

/// Set in the process that is to panic.
const PANICS: &str = "APPDEPLOY_TEST_PANICS";

#[test]
fn panic_is_logged_with_the_object() {
    if std::env::var_os(PANICS).is_some() {
        return panic_while_reconciling();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "panic::panic_is_logged_with_the_object", "--nocapture"])
        .env(PANICS, "1")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let line = said.lines().find(|line| line.starts_with('{'));
    let line: Value = serde_json::from_str(line.unwrap_or_else(|| panic!("{said}"))).unwrap();
    assert_eq!(line["message"], "panicked");
    assert_eq!(line["what"], "the number is 7");
    assert_eq!(line["name"], "shop");
    assert!(
        line["at"].as_str().unwrap().starts_with("operator/tests/panic.rs:"),
        "{line}"
    );
    assert_eq!(line.get("backtrace"), None);
    assert!(!said.contains("thread '"), "it was logged twice:\n{said}");
}

fn panic_while_reconciling() {
    let settings = Settings::parse_from(["appdeploy-operator", "--log-format", "json"]);
    let _kept = operator::telemetry::start(&settings).unwrap();
    let _span = error_span!("reconcile", name = "shop").entered();
    let _ = std::panic::catch_unwind(|| panic!("the number is {}", 3 + 4));
}
