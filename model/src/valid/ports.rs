//! Validates the ports in addition to the main one.

use std::collections::BTreeSet;

use crd::ContainerFields;

use crate::desired::ports::ports;

/// Adds a message for each port with which a Service would be rejected. `at` is the path of the fields.
pub(super) fn add_problems(at: &str, container: &ContainerFields, problems: &mut Vec<String>) {
    if container.port.is_none() && !container.ports.is_empty() {
        problems.push(format!(
            "{at}.ports: ports are in addition to {at}.port: set it to the main one"
        ));
    }
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for port in ports(container) {
        let (name, number) = (port.name, port.number);
        if !(1..=65535).contains(&number) && name != crate::desired::PORT {
            problems.push(format!(
                "{at}.ports.{name}: invalid port {number}: use a number from 1 to 65535"
            ));
        }
        if !names.insert(name) {
            problems.push(format!(
                "{at}.ports.{name}: two ports have this name; rename one of them"
            ));
        }
        if !numbers.insert((number, port.protocol.as_str())) {
            problems.push(format!(
                "{at}.ports.{name}: two ports have the number {number}; remove one of them"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_of_a_service_are_unique() {
        let of = |port: Option<i32>, ports: serde_json::Value| {
            let container = json!({"image": "nginx", "port": port, "ports": ports});
            let mut problems = Vec::new();
            add_problems("spec", &serde_json::from_value(container).unwrap(), &mut problems);
            problems.len()
        };
        let admin = json!({"name": "admin", "port": 81});
        assert_eq!(of(Some(80), json!([admin])), 0);
        assert_eq!(
            of(Some(80), json!([admin, {"name": "dns", "port": 81, "protocol": "UDP"}])),
            0
        );
        assert_eq!(of(None, json!([admin])), 1);
        assert_eq!(of(Some(81), json!([admin])), 1);
        assert_eq!(of(Some(80), json!([admin, {"name": "admin", "port": 82}])), 1);
        assert_eq!(of(Some(80), json!([{"name": "http", "port": 82}])), 1);
        assert_eq!(of(Some(80), json!([{"name": "a", "port": 0}])), 1);
    }
}
