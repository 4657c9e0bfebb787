//! Tests `config/prometheus`: it works in Prometheus and Grafana, and only uses metrics that the operator has.

mod query;

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testcluster::binaries::{Binaries, Component, Lines, Program};
use testcluster::checkout::root;

fn read(name: &str) -> Result<String> {
    std::fs::read_to_string(root().join(name)).with_context(|| format!("failed to read {name}"))
}

/// Returns the rules of the `PrometheusRule`.
fn rules() -> Result<Value> {
    let object: Value = serde_yaml::from_str(&read("config/prometheus/rules.yaml")?)?;
    Ok(object["spec"].clone())
}

fn alerts() -> Result<Vec<Value>> {
    let rules = rules()?;
    let groups = rules["groups"].as_array().context("there are no groups")?;
    let rules = groups.iter().filter_map(|group| group["rules"].as_array());
    Ok(rules.flatten().cloned().collect())
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the names of the operator's series. Another test compares `docs/metrics.md` with the operator.
fn exported() -> Result<BTreeSet<String>> {
    let page = read("docs/metrics.md")?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut names = BTreeSet::from(["up".to_owned()]);
    for row in rows {
        let mut cells = row.split(" | ");
        let name = cells.next().unwrap_or_default().trim_end_matches('`');
        match cells.next() {
            Some("histogram") => names.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}"))),
            _ => drop(names.insert(name.to_owned())),
        }
    }
    ensure!(names.len() > 30, "only {names:?} were found");
    Ok(names)
}

/// Checks that each metric in a query exists.
fn holds(place: &str, query: &str, exported: &BTreeSet<String>) {
    let metrics = query::metrics(query);
    assert!(!metrics.is_empty(), "{place} asks for nothing: {query}");
    for metric in metrics {
        assert!(
            exported.contains(metric),
            "{place} asks for {metric}, which the operator does not show"
        );
    }
}

#[test]
fn alerts_fire_only_in_their_test_cases() -> Result<()> {
    let binaries = Binaries::ensure(&[Component::Prometheus], &mut Lines::stderr())?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("rules.yaml"), serde_yaml::to_string(&rules()?)?)?;
    let stories = read("config/prometheus/rules_test.yaml")?;
    std::fs::write(folder.path().join("rules_test.yaml"), &stories)?;
    for arguments in [
        ["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"].as_slice(),
        &["test", "rules", "rules_test.yaml"],
    ] {
        let promtool = binaries.path(Program::Promtool);
        let output = Command::new(promtool).args(arguments).current_dir(&folder).output()?;
        assert!(
            output.status.success(),
            "promtool {arguments:?}:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // Each alert fires in one of the stories.
    for alert in alerts()? {
        let name = text(&alert, "/alert");
        let fires = format!("- labels: ALERTS{{alertstate=\"firing\", alertname=\"{name}\"");
        assert!(stories.contains(&fires), "{name} fires in no story");
    }
    Ok(())
}

#[test]
fn each_alert_says_what_to_do_and_is_explained() -> Result<()> {
    let page = read("docs/metrics.md")?;
    let alerts = alerts()?;
    for alert in &alerts {
        let name = text(alert, "/alert");
        assert!(
            ["critical", "warning", "info"].contains(&text(alert, "/labels/severity")),
            "{name}"
        );
        assert!(text(alert, "/annotations/summary").ends_with('.'), "{name}");
        let description = text(alert, "/annotations/description");
        assert!(
            description.contains("kubectl ") || description.contains(" log"),
            "{name} does not say where to look"
        );
        let runbook = format!("/docs/metrics.md#{}", name.to_lowercase());
        assert!(text(alert, "/annotations/runbook_url").ends_with(&runbook), "{name}");
        let heading = format!("### {name}");
        assert!(
            page.lines().any(|line| line == heading),
            "docs/metrics.md lacks {heading}"
        );
    }
    let explained = page.lines().filter(|line| line.starts_with("### AppDeploy")).count();
    assert_eq!(
        explained,
        alerts.len(),
        "docs/metrics.md explains an alert that is not there"
    );
    Ok(())
}

#[test]
fn alerts_use_existing_metrics() -> Result<()> {
    let exported = exported()?;
    for alert in alerts()? {
        holds(text(&alert, "/alert"), text(&alert, "/expr"), &exported);
    }
    Ok(())
}

#[test]
fn dashboard_uses_all_existing_metrics() -> Result<()> {
    let dashboard: Value = serde_json::from_str(&read("config/prometheus/dashboard.json")?)?;
    let exported = exported()?;
    let panels = dashboard["panels"].as_array().context("there are no panels")?;
    let mut ids = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for panel in panels {
        let title = text(panel, "/title");
        assert!(
            ids.insert(panel["id"].as_u64()),
            "{title} has the number of another panel"
        );
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(text(target, "/datasource/uid"), "${datasource}", "{title}");
            let query = text(target, "/expr");
            holds(title, query, &exported);
            asked.extend(query::metrics(query).into_iter().map(ToOwned::to_owned));
        }
    }
    let variables = dashboard["templating"]["list"]
        .as_array()
        .context("there are no variables")?;
    assert_eq!(
        (text(&variables[0], "/name"), text(&variables[0], "/type")),
        ("datasource", "datasource")
    );
    for variable in &variables[1..] {
        holds("a variable", text(variable, "/query/query"), &exported);
    }
    // Every metric must be on the dashboard.
    let drawn = |name: &str| asked.contains(name) || name.ends_with("_sum") || name.ends_with("_count");
    let left: Vec<&String> = exported.iter().filter(|name| !drawn(name)).collect();
    assert!(left.is_empty(), "no panel shows {left:?}");
    Ok(())
}

#[test]
fn kustomize_builds_the_monitor_and_it_selects_the_operators() -> Result<()> {
    let binaries = Binaries::ensure(&[Component::ControlPlane], &mut Lines::stderr())?;
    let built = Command::new(binaries.path(Program::Kubectl))
        .args(["kustomize", "config/prometheus"])
        .current_dir(root())
        .output()?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut objects: Vec<Value> = Vec::new();
    for document in serde_yaml::Deserializer::from_slice(&built.stdout) {
        objects.push(serde::Deserialize::deserialize(document)?);
    }
    let of = |kind: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == kind)
            .context(kind.to_owned())
    };
    let deployment: Value = serde_yaml::from_str(&read("config/manager/deployment.yaml")?)?;
    let (service, monitor, dashboard) = (of("Service")?, of("ServiceMonitor")?, of("ConfigMap")?);
    let pods = &deployment["spec"]["template"];
    assert_eq!(service["spec"]["selector"], pods["metadata"]["labels"]);
    let port = &service["spec"]["ports"][0];
    assert_eq!(port["targetPort"], pods["spec"]["containers"][0]["ports"][0]["name"]);
    assert_eq!(port["name"], monitor["spec"]["endpoints"][0]["port"]);
    let wanted = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .context("no selector")?;
    for (label, value) in wanted {
        assert_eq!(&service["metadata"]["labels"][label], value);
    }
    // If the operator's other Service had the labels, it would be scraped, too.
    assert_eq!(wanted["app.kubernetes.io/name"], service["metadata"]["name"]);
    for alert in alerts()? {
        let job = format!("job=\"{}\"", text(service, "/metadata/name"));
        assert!(
            text(&alert, "/expr").contains(&job),
            "{} asks for another job",
            text(&alert, "/alert")
        );
    }
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(
        dashboard["data"]["appdeploy.json"],
        read("config/prometheus/dashboard.json")?
    );
    for object in &objects {
        assert_eq!(object["metadata"]["namespace"], "appdeploy-system");
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/part-of"], "appdeploy");
    }
    Ok(())
}
