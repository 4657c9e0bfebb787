//! Computes the object that results from a write: the desired fields merged into the live object. The structure is that of
//! [`Digest`](crate::Digest), which decides whether a write is needed.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::desired::{CONTAINER, PORT};
use crate::fields::{METADATA, Node, content, is_empty_dir, is_empty_variable, is_nothing, is_ordered, merge_key};
use crate::{Digest, deferred_defaults};

/// Returns the live object with everything that is wanted, and without what was wanted `before` and no longer is. Fields of other
/// managers are kept.
///
/// The result is the live object if it lacks nothing, and nothing was wanted before that is not wanted now.
#[must_use]
pub fn merged(live: &Value, before: Option<&Value>, wanted: &Value) -> Value {
    let mut merged = live.clone();
    for field in METADATA {
        let [before, wanted] = [before, Some(wanted)].map(|object| object?.get("metadata")?.get(field));
        put(field, &mut merged["metadata"], field, before, wanted);
    }
    let names: BTreeSet<&str> = before
        .into_iter()
        .chain([wanted])
        .flat_map(content)
        .map(|(name, _)| name)
        .collect();
    for name in names {
        let before = before.and_then(|before| before.get(name));
        put(name, &mut merged, name, before, wanted.get(name));
    }
    // An API server rejects it, so the operator removes it (`plan::recreate_patch`).
    if let Some(Value::Object(strategy)) = merged.pointer_mut("/spec/strategy")
        && strategy.get("type").is_some_and(|kind| kind == "Recreate")
    {
        strategy.remove("rollingUpdate");
    }
    merged
}

/// Sets one field of an object to the desired value.
fn put(path: &str, object: &mut Value, field: &str, before: Option<&Value>, wanted: Option<&Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match (
        fields.get_mut(field),
        wanted.filter(|wanted| !is_nothing(wanted) || is_empty_dir(path)),
    ) {
        (Some(live), Some(wanted)) => overwrite(path, live, before, wanted),
        (None, Some(wanted)) => {
            fields.insert(field.to_owned(), wanted.clone());
        }
        (Some(live), None) => {
            // Other managers may own a part of a field that is no longer desired.
            if let Some(before) = before {
                remove(path, live, before);
                if is_nothing(live) {
                    fields.remove(field);
                }
            }
        }
        (None, None) => {}
    }
}

/// Changes a value to the desired one.
fn overwrite(path: &str, live: &mut Value, before: Option<&Value>, wanted: &Value) {
    match (Node::of(path, live), Node::of(path, wanted)) {
        (Node::Fields(fields), Node::Fields(wishes)) => {
            let names: Vec<String> = fields.keys().chain(wishes.keys()).cloned().collect();
            for name in names {
                let was = before.and_then(|before| before.get(&name));
                put(&format!("{path}.{name}"), live, &name, was, wishes.get(&name));
            }
        }
        (Node::Entries(_), Node::Entries(wishes)) => overwrite_entries(path, live, before, &wishes),
        (one, other) if one == other => {}
        _ => live.clone_from(wanted),
    }
}

fn overwrite_entries(path: &str, live: &mut Value, before: Option<&Value>, wishes: &[(String, &Value)]) {
    let Some(items) = live.as_array_mut() else { return };
    for (key, wish) in wishes {
        let Some(item) = items.iter_mut().find(|item| merge_key(item).as_ref() == Some(key)) else {
            items.push((*wish).clone());
            continue;
        };
        let path = format!("{path}[{key}]");
        let was = before.and_then(|before| entries(before).find(|was| merge_key(was).as_ref() == Some(key)));
        overwrite(&path, item, was, wish);
        if let (Some(wish), Some(fields)) = (wish.as_object(), item.as_object_mut())
            && is_empty_variable(&path, wish)
        {
            fields.remove("value");
        }
    }
    let is_wanted = |key: &String| wishes.iter().any(|(wanted, _)| wanted == key);
    let removed = before.into_iter().flat_map(entries).filter_map(merge_key);
    let removed: BTreeSet<String> = removed.filter(|key| !is_wanted(key)).collect();
    items.retain(|item| merge_key(item).is_none_or(|key| !removed.contains(&key)));
    if is_ordered(path) {
        order(items, wishes);
    }
}

/// Puts the wanted entries in their order. Those of other managers stay where they are.
fn order(items: &mut [Value], wishes: &[(String, &Value)]) {
    let place = |item: &Value| {
        let key = merge_key(item)?;
        wishes.iter().position(|(wanted, _)| *wanted == key)
    };
    let mut wanted: Vec<(usize, Value)> = items
        .iter()
        .filter_map(|item| Some((place(item)?, item.clone())))
        .collect();
    wanted.sort_by_key(|(place, _)| *place);
    let slots = items.iter_mut().filter(|item| place(item).is_some());
    for (slot, (_, item)) in slots.zip(wanted) {
        *slot = item;
    }
}

/// Removes the previously desired fields.
fn remove(path: &str, live: &mut Value, before: &Value) {
    match (Node::of(path, live), Node::of(path, before)) {
        (Node::Fields(_) | Node::Whole(_), Node::Fields(before) | Node::Whole(before)) => {
            remove_fields(path, live, before);
        }
        (Node::Entries(_), Node::Entries(before)) => {
            let Some(items) = live.as_array_mut() else { return };
            let was_wanted = |key: &String| before.iter().any(|(was, _)| was == key);
            items.retain(|item| merge_key(item).is_none_or(|key| !was_wanted(&key)));
        }
        _ => *live = Value::Null,
    }
}

fn remove_fields(path: &str, live: &mut Value, before: &Map<String, Value>) {
    let Some(fields) = live.as_object_mut() else { return };
    for (name, was) in before {
        if let Some(live) = fields.get_mut(name) {
            remove(&format!("{path}.{name}"), live, was);
            if is_nothing(live) {
                fields.remove(name);
            }
        }
    }
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns a Service of another manager after an app has adopted it: the wanted one, with the `other` ports, and with the protocol
/// of the application that the live Service names for each wanted port.
#[must_use]
pub fn service_with(live: &Value, wanted: &Value, other: &[Value]) -> Value {
    let mut ports = wanted["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let key = |port: &Value| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        (port["port"].as_i64(), protocol.to_owned())
    };
    for port in &mut ports {
        let mut before = live["spec"]["ports"].as_array().into_iter().flatten();
        let protocol = before
            .find(|before| key(before) == key(port))
            .map(|before| &before["appProtocol"]);
        if let Some(protocol) = protocol.filter(|protocol| protocol.is_string()) {
            port["appProtocol"] = protocol.clone();
        }
    }
    ports.extend(other.iter().cloned());
    let mut whole = wanted.clone();
    whole["spec"]["ports"] = json!(ports);
    let mut merged = merged(live, None, &whole);
    merged["spec"]["ports"] = json!(ports);
    // The API server rejects these with another type.
    if merged["spec"]["type"] != live["spec"]["type"] {
        let of_the_type = [
            ("/spec", "loadBalancerSourceRanges"),
            (
                "/metadata/annotations",
                "service.beta.kubernetes.io/load-balancer-source-ranges",
            ),
        ];
        for (part, field) in of_the_type {
            if let Some(Value::Object(fields)) = merged.pointer_mut(part) {
                fields.remove(field);
            }
        }
    }
    merged
}

/// Returns a Deployment of another manager after an app has adopted it with its pods. `before` is what was read from it: of that,
/// what is not wanted is removed.
///
/// The container of the app, the name of its port and its probes are the wanted ones. Otherwise there would be two of them, which
/// Kubernetes rejects, or both of which it runs.
#[must_use]
pub fn deployment_with(live: &Value, before: Option<&Value>, wanted: &Value) -> Value {
    const CONTAINERS: &str = "/spec/template/spec/containers";
    let before = before.map(|before| deferred_defaults::previous(before, &Digest::of(live)));
    let deferred = deferred_defaults::defer_in_template(wanted, live);
    let mut live = live.clone();
    let container = live
        .pointer_mut(CONTAINERS)
        .and_then(Value::as_array_mut)
        .and_then(|containers| {
            let ours = containers.iter().position(|container| container["name"] == CONTAINER);
            containers.get_mut(ours.unwrap_or(0))
        });
    if let Some(container) = container {
        container["name"] = json!(CONTAINER);
        let wanted = &deferred["spec"]["template"]["spec"]["containers"][0];
        let number = &wanted["ports"][0]["containerPort"];
        for port in container["ports"].as_array_mut().into_iter().flatten() {
            if let (true, Some(fields)) = (port["containerPort"] != *number, port.as_object_mut()) {
                fields.retain(|field, value| field != "name" || *value != PORT);
            }
        }
        if let Some(fields) = container.as_object_mut() {
            fields.retain(|field, probe| !field.ends_with("Probe") || is_same_check(probe, &wanted[field]));
        }
    }
    merged(&live, before.as_ref(), &deferred)
}

/// Whether two probes check in the same way, so that one can be changed into the other.
fn is_same_check(one: &Value, other: &Value) -> bool {
    ["exec", "grpc", "httpGet", "tcpSocket"]
        .iter()
        .all(|way| one[way].is_null() == other[way].is_null())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Digest;

    #[test]
    fn wanted_fields_are_set_and_fields_of_other_managers_are_kept() {
        let live = json!({"metadata": {"labels": {"team": "shop"}}, "spec": {"replicas": 3, "template": {"spec": {
            "dnsPolicy": "ClusterFirst",
            "containers": [{"name": "mesh"}, {"name": "app", "image": "nginx:1", "resources": {"limits": {"cpu": "500m"}},
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}], "args": ["x"]}]}}}});
        let before = json!({"spec": {"template": {"spec": {"containers": [{"name": "app",
            "env": [{"name": "A", "value": "1"}], "args": ["x"]}]}}}});
        let wanted = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"replicas": 1, "template": {"spec": {
            "containers": [{"name": "app", "image": "nginx:2", "resources": {"limits": {"cpu": "0.5"}}, "env": [{"name": "C", "value": ""}]}]}}}});
        insta::assert_json_snapshot!(merged(&live, Some(&before), &wanted));
    }

    #[test]
    fn init_containers_get_the_wanted_order_between_those_of_other_managers() {
        let pod = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"metadata": {}, "spec": {"template": {"spec": {"initContainers": containers}}}})
        };
        let merged = |live: &[&str]| merged(&pod(live), None, &pod(&["a", "b"]));
        assert_eq!(merged(&["b", "added", "a"]), pod(&["a", "added", "b"]));
        assert_eq!(merged(&["b", "added"]), pod(&["a", "added", "b"]));
        assert_eq!(merged(&["a", "added", "b"]), pod(&["a", "added", "b"]));
    }

    #[test]
    fn recreation_has_no_settings_of_rolling_updates() {
        let strategy = |of: Value| json!({"metadata": {}, "spec": {"strategy": of}});
        let live = strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}));
        let wanted = strategy(json!({"type": "Recreate"}));
        assert_eq!(merged(&live, None, &wanted), strategy(json!({"type": "Recreate"})));
    }

    fn deployment(pod: Value) -> Value {
        json!({"metadata": {"name": "shop"}, "spec": {"template": {"spec": pod}}})
    }

    fn rendered(spec: Value) -> Value {
        let app = json!({"metadata": {"name": "shop", "namespace": "a", "uid": "u1"}, "spec": spec});
        let app: crd::AppDeploy = serde_json::from_value(app).unwrap();
        crate::desired(&crate::validate(&app).unwrap())
            .first(&crate::children::DEPLOYMENT)
            .unwrap()
            .clone()
    }

    #[test]
    fn adopted_deployment_has_the_container_port_and_probes_of_the_app() {
        let live = deployment(json!({"dnsConfig": {"searches": ["a"]}, "containers": [
            {"name": "web", "image": "shop:1", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 9090}],
             "env": [{"name": "GONE", "value": "1"}, {"name": "MODE", "value": "on"}],
             "livenessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 90},
             "readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 1}},
            {"name": "mesh", "image": "mesh"}]}));
        let read = crate::spec_reader::LiveObjects {
            deployment: Some(&live),
            ..crate::spec_reader::LiveObjects::default()
        };
        let read = crate::spec_reader::read_app("shop", "a", read).spec;
        let before = rendered(serde_json::to_value(read).unwrap());
        let wanted = rendered(json!({"image": "shop:1", "port": 8080, "env": [{"name": "MODE", "value": "on"}]}));
        let becomes = deployment_with(&live, Some(&before), &wanted);
        let pod = &becomes["spec"]["template"]["spec"];
        let names: Vec<&Value> = pod["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| &c["name"])
            .collect();
        assert_eq!(names, ["app", "mesh"]);
        assert_eq!(pod["dnsConfig"], json!({"searches": ["a"]}));
        let app = &pod["containers"][0];
        assert_eq!(app["env"], json!([{"name": "MODE", "value": "on"}]));
        assert_eq!(app.get("livenessProbe"), None);
        assert_eq!(app["readinessProbe"]["successThreshold"], 1);
        let ports: Vec<(&Value, &Value)> = app["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| (&port["containerPort"], &port["name"]))
            .collect();
        assert_eq!(ports, [(&json!(9090), &Value::Null), (&json!(8080), &json!("http"))]);
        // An object in the desired state is not changed.
        let same = deployment_with(&wanted, Some(&wanted), &wanted);
        assert_eq!(same, wanted);
    }

    #[test]
    fn adopted_service_keeps_protocols_and_drops_fields_of_its_former_type() {
        let live = json!({"metadata": {}, "spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "ports": [{"name": "grpc", "port": 80, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c", "nodePort": 30080}]}});
        let wanted = json!({"metadata": {}, "spec": {"type": "ClusterIP",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]}});
        let becomes = service_with(&live, &wanted, &[]);
        assert_eq!(becomes["spec"]["ports"][0]["appProtocol"], "kubernetes.io/h2c");
        assert_eq!(becomes["spec"].get("loadBalancerSourceRanges"), None);
    }

    /// Objects of one schema: each field has one type, as in Kubernetes.
    fn values() -> impl Strategy<Value = Value> {
        let some = |value: Option<Value>| value.unwrap_or_default();
        let flat = (
            prop::option::of("[a-b]{0,2}"),
            prop::option::of(prop::collection::vec("[a-b]", 0..3)),
            any::<Option<bool>>(),
        )
            .prop_map(|(text, list, flag)| json!({"text": text, "list": list, "flag": flag}));
        flat.prop_recursive(3, 24, 3, move |inner| {
            let named = prop::collection::btree_map("[a-c]", inner.clone(), 0..3).prop_map(|items| {
                let named = |(name, is): (String, Value)| json!({"name": name, "is": is});
                Value::from(items.into_iter().map(named).collect::<Vec<_>>())
            });
            (prop::option::of(inner), prop::option::of(named))
                .prop_map(move |(inner, named)| json!({"inner": some(inner), "named": some(named)}))
        })
    }

    proptest! {
        /// A digest and a merge follow the same structure.
        #[test]
        fn merge_changes_an_object_exactly_if_it_lacks_something(live in values(), wanted in values()) {
            let (live, wanted) = (json!({"metadata": {}, "spec": {"x": live}}), json!({"spec": {"x": wanted}}));
            let lacks = Digest::of(&live).lacks(&wanted);
            let merged = merged(&live, None, &wanted);
            prop_assert_eq!(merged != live, lacks.is_some(), "{:?}", lacks);
            prop_assert_eq!(Digest::of(&merged).lacks(&wanted), None);
        }

        #[test]
        fn fields_that_are_no_longer_desired_are_removed(before in values(), wanted in values()) {
            let (before, wanted) = (json!({"metadata": {}, "spec": {"x": before}}), json!({"metadata": {}, "spec": {"x": wanted}}));
            let merged = merged(&before, Some(&before), &wanted);
            prop_assert_eq!(Digest::of(&merged), Digest::of(&wanted));
        }
    }
}
