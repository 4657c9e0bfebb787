//! Reads the ports of a container in addition to the main one.

use crd::{NamedPort, PortProtocol};
use serde_json::Value;

use super::{items, number, port_of};
use crate::children::SERVICE;
use crate::defaults;
use crate::desired::PORT;

/// The maximum number of ports in a spec.
const MAX: usize = 16;

/// Reads the ports of a container without the main one. If the Service is known, only the ports that it has with the same
/// name and number: an app would publish the others.
pub(super) fn others(container: &Value, main: Option<i32>, service: Option<&Value>) -> Vec<NamedPort> {
    if main.is_none() {
        return Vec::new();
    }
    let service = service.map(|service| defaults::filled(&SERVICE, service));
    let ports = items(&container["ports"]).filter_map(named);
    let ports = ports.filter(|port| Some(port.port) != main || port.protocol() != PortProtocol::Tcp);
    let ports = ports.filter_map(|port| match &service {
        None => Some(port),
        Some(service) => {
            let offered = items(&service["spec"]["ports"]).find(|offered| is_same(&port, offered, container))?;
            let app_protocol = offered["appProtocol"].as_str().map(str::to_owned);
            Some(NamedPort { app_protocol, ..port })
        }
    });
    ports.take(MAX).collect()
}

fn named(port: &Value) -> Option<NamedPort> {
    let name = port["name"].as_str().filter(|name| is_name(name) && *name != PORT)?;
    let protocol = PortProtocol::ALL
        .into_iter()
        .find(|protocol| port["protocol"].as_str().unwrap_or("TCP") == protocol.as_str())?;
    Some(NamedPort {
        name: name.to_owned(),
        port: number(&port["containerPort"])?,
        protocol: Some(protocol).filter(|protocol| *protocol != PortProtocol::Tcp),
        app_protocol: None,
    })
}

/// Whether a spec can have this name of a port.
fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 15
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(inner)
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Whether a Service has a port as the operator renders it.
fn is_same(port: &NamedPort, offered: &Value, container: &Value) -> bool {
    offered["name"] == *port.name
        && number(&offered["port"]) == Some(port.port)
        && offered["protocol"] == port.protocol().as_str()
        && port_of(&offered["targetPort"], container) == Some(port.port)
}
