//! What a live object becomes when the operator writes what is wanted of it: the same rules as in [`crate::Digest`], which
//! finds out whether there is anything to write.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::desired::{CONTAINER, PORT};
use crate::digest::{content, merge_key};
use crate::{Digest, later, quantity};

/// Returns the live object with all that is wanted, and without what was wanted `before` and is not any more. What
/// others have put there stays.
///
/// If nothing is lacking and nothing was wanted before that is not now, it is the live object.
#[must_use]
pub fn merged(live: &Value, before: Option<&Value>, wanted: &Value) -> Value {
    let mut merged = live.clone();
    for field in ["labels", "annotations", "ownerReferences"] {
        let pointer = format!("/metadata/{field}");
        let (before, wanted) = (before.and_then(|b| b.pointer(&pointer)), wanted.pointer(&pointer));
        put(field, &mut merged["metadata"], field, before, wanted);
    }
    let names: BTreeSet<&String> = before
        .into_iter()
        .chain([wanted])
        .flat_map(content)
        .map(|(name, _)| name)
        .collect();
    for name in names {
        let before = before.and_then(|before| before.get(name));
        put(name, &mut merged, name, before, wanted.get(name));
    }
    merged
}

/// Brings one field of an object to what is wanted.
fn put(path: &str, object: &mut Value, field: &str, before: Option<&Value>, wanted: Option<&Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match (fields.get_mut(field), wanted.filter(|wanted| !is_nothing(wanted))) {
        (Some(live), Some(wanted)) => over(path, live, before, wanted),
        (None, Some(wanted)) => {
            fields.insert(field.to_owned(), wanted.clone());
        }
        (Some(live), None) => {
            // Of what is not wanted any more, only our part goes.
            if let Some(before) = before {
                take(path, live, before);
                if is_nothing(live) {
                    fields.remove(field);
                }
            }
        }
        (None, None) => {}
    }
}

fn over(path: &str, live: &mut Value, before: Option<&Value>, wanted: &Value) {
    match (&mut *live, wanted) {
        // A selector belongs to one owner as a whole.
        (Value::Object(_), Value::Object(_)) if path == "spec.selector" => live.clone_from(wanted),
        (Value::Object(fields), Value::Object(wishes)) => {
            let names: Vec<String> = fields.keys().chain(wishes.keys()).cloned().collect();
            for name in names {
                let was = before.and_then(|before| before.get(&name));
                let path = format!("{path}.{name}");
                put(&path, live, &name, was, wishes.get(&name));
            }
        }
        (Value::Array(items), Value::Array(wishes)) if is_keyed(items) && is_keyed(wishes) => {
            for wish in wishes {
                let key = merge_key(wish);
                let was = before.and_then(|before| entry(before, key.as_deref()));
                match items.iter_mut().find(|item| merge_key(item) == key) {
                    Some(item) => {
                        over(&format!("{path}[]"), item, was, wish);
                        empty(path, item, wish);
                    }
                    None => items.push(wish.clone()),
                }
            }
            let gone: Vec<String> = keys(before).filter(|key| entry(wanted, Some(key)).is_none()).collect();
            items.retain(|item| merge_key(item).is_none_or(|key| !gone.contains(&key)));
        }
        (live, wanted) if is_same(path, live, wanted) => {}
        (live, wanted) => live.clone_from(wanted),
    }
}

/// No value is a value of a variable: the empty one.
fn empty(path: &str, variable: &mut Value, wish: &Value) {
    let is_empty = wish.get("valueFrom").is_none() && wish.get("value").is_none_or(is_nothing);
    if let (true, Some(fields)) = (is_empty && path.ends_with("[].env"), variable.as_object_mut()) {
        fields.remove("value");
    }
}

/// Takes away what was wanted before.
fn take(path: &str, live: &mut Value, before: &Value) {
    match (&mut *live, before) {
        (Value::Object(fields), Value::Object(before)) => take_fields(path, fields, before),
        (Value::Array(items), Value::Array(before)) if is_keyed(items) && is_keyed(before) => {
            items.retain(|item| !before.iter().any(|was| merge_key(was) == merge_key(item)));
        }
        (live, _) => *live = Value::Null,
    }
}

fn take_fields(path: &str, fields: &mut Map<String, Value>, before: &Map<String, Value>) {
    for (name, was) in before {
        if let Some(live) = fields.get_mut(name) {
            take(&format!("{path}.{name}"), live, was);
            if is_nothing(live) {
                fields.remove(name);
            }
        }
    }
}

fn entry<'a>(list: &'a Value, key: Option<&str>) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| merge_key(item).as_deref() == key)
}

fn keys(list: Option<&Value>) -> impl Iterator<Item = String> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(merge_key)
}

fn is_keyed(items: &[Value]) -> bool {
    items.iter().all(|item| merge_key(item).is_some())
}

/// What the API server leaves out.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_same(path: &str, live: &Value, wanted: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => Some(quantity::canonical(text)),
        Value::Number(number) => Some(quantity::canonical(&number.to_string())),
        _ => None,
    };
    let is_amount = path.contains(".resources.");
    live == wanted || is_nothing(wanted) && is_nothing(live) || is_amount && amount(live) == amount(wanted)
}

/// Returns what a Service becomes that somebody else has made and an application takes over: ours, and beside it the
/// ports that it offers on. What is spoken on a port of ours stays said.
#[must_use]
pub fn service_with(live: &Value, wanted: &Value, beside: &[Value]) -> Value {
    let mut ports = wanted["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let key = |port: &Value| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        (port["port"].as_i64(), protocol.to_owned())
    };
    for port in &mut ports {
        let mut before = live["spec"]["ports"].as_array().into_iter().flatten();
        let spoken = before
            .find(|before| key(before) == key(port))
            .map(|before| &before["appProtocol"]);
        if let Some(spoken) = spoken.filter(|spoken| spoken.is_string()) {
            port["appProtocol"] = spoken.clone();
        }
    }
    ports.extend(beside.iter().cloned());
    let mut whole = wanted.clone();
    whole["spec"]["ports"] = json!(ports);
    let mut merged = merged(live, None, &whole);
    merged["spec"]["ports"] = json!(ports);
    // The API server takes these only from the type that they are for.
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

/// Returns what a Deployment becomes that somebody else has made and an application takes over with its pods. `before` is what
/// was read of it: what it means and is not wanted goes.
///
/// What there can be one of is ours: the container of the application, the name of its port, a probe. Else there would be two,
/// which Kubernetes refuses or runs both.
#[must_use]
pub fn deployment_with(live: &Value, before: Option<&Value>, wanted: &Value) -> Value {
    const CONTAINERS: &str = "/spec/template/spec/containers";
    let before = before.map(|before| later::previous(before, &Digest::of(live)));
    let due = later::due_in_place(wanted, live);
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
        let wanted = &due["spec"]["template"]["spec"]["containers"][0];
        let number = &wanted["ports"][0]["containerPort"];
        for port in container["ports"].as_array_mut().into_iter().flatten() {
            if let (true, Some(fields)) = (port["containerPort"] != *number, port.as_object_mut()) {
                fields.retain(|field, value| field != "name" || *value != PORT);
            }
        }
        if let Some(fields) = container.as_object_mut() {
            fields.retain(|field, probe| !field.ends_with("Probe") || asks_alike(probe, &wanted[field]));
        }
    }
    merged(&live, before.as_ref(), &due)
}

/// Whether two probes ask in the same way, so that one can be changed into the other.
fn asks_alike(one: &Value, other: &Value) -> bool {
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
    fn what_is_wanted_comes_and_what_others_have_put_there_stays() {
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
    fn a_deployment_that_is_taken_over_has_what_there_can_be_one_of_from_the_app() {
        let live = deployment(json!({"nodeSelector": {"disk": "ssd"}, "containers": [
            {"name": "web", "image": "shop:1", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 9090}],
             "env": [{"name": "GONE", "value": "1"}, {"name": "MODE", "value": "on"}],
             "livenessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 90},
             "readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 1}},
            {"name": "mesh", "image": "mesh"}]}));
        let read = crate::inverse::Live {
            deployment: Some(&live),
            ..crate::inverse::Live::default()
        };
        let read = crate::inverse::of_app("shop", "a", read).spec;
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
        assert_eq!(pod["nodeSelector"], json!({"disk": "ssd"}));
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
        // What is as wanted is not touched.
        let same = deployment_with(&wanted, Some(&wanted), &wanted);
        assert_eq!(same, wanted);
    }

    #[test]
    fn a_service_that_is_taken_over_says_on_what_is_spoken_and_nothing_that_its_type_can_not_have() {
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
        /// The operator's question and this answer are about the same thing.
        #[test]
        fn it_changes_something_exactly_if_something_is_lacking(live in values(), wanted in values()) {
            let (live, wanted) = (json!({"metadata": {}, "spec": {"x": live}}), json!({"spec": {"x": wanted}}));
            let lacks = Digest::of(&live).lacks(&wanted);
            let merged = merged(&live, None, &wanted);
            prop_assert_eq!(merged != live, lacks.is_some(), "{:?}", lacks);
            prop_assert_eq!(Digest::of(&merged).lacks(&wanted), None);
        }

        #[test]
        fn what_was_all_that_was_wanted_goes_with_it(before in values(), wanted in values()) {
            let (before, wanted) = (json!({"metadata": {}, "spec": {"x": before}}), json!({"metadata": {}, "spec": {"x": wanted}}));
            let merged = merged(&before, Some(&before), &wanted);
            prop_assert_eq!(Digest::of(&merged), Digest::of(&wanted));
        }
    }
}
