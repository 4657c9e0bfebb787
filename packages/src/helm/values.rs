//! The chart's values: written by hand, with defaults from the manifests.

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::OPERATOR;
use crate::fill::fill;
use crate::source::Manifest;

/// Returns `values.yaml`.
pub fn render(manifests: &[Manifest], operator: &Manifest) -> Result<String> {
    let spec = &operator.object["spec"];
    let container = &spec["template"]["spec"]["containers"][0];
    let ports = api_server_ports(manifests).context("there is no NetworkPolicy of the operator's way out")?;
    let ports: Vec<String> = ports.iter().map(|port| port["port"].to_string()).collect();
    fill(
        include_str!("../../chart/values.yaml"),
        &[
            ("replicas", &spec["replicas"].to_string()),
            ("repository", operator.image()?.repository),
            ("resources", &indented(&serde_yaml::to_string(&container["resources"])?)),
            ("apiServerPorts", &format!("[{}]", ports.join(", "))),
        ],
    )
}

/// Returns the ports of the rule for the API server, which is the last.
fn api_server_ports(manifests: &[Manifest]) -> Option<&Vec<Value>> {
    let policy = manifests
        .iter()
        .find(|manifest| manifest.kind() == "NetworkPolicy" && manifest.name() == OPERATOR)?;
    policy.object["spec"]["egress"].as_array()?.last()?["ports"].as_array()
}

fn indented(yaml: &str) -> String {
    let lines: Vec<String> = yaml.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
