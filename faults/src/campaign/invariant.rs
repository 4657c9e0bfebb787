//! Invariants of a run: properties that must be true at every moment, with any fault.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::history::{ObjectVersion, existing, text};
use super::tenant;

/// The name of third-party objects next to those of a scenario, with the operator's labels and without an owner.
pub const THIRD_PARTY: &str = "bystander";

/// Returns the violated invariants in the namespace of a run.
#[must_use]
pub fn violations(history: &[ObjectVersion]) -> Vec<String> {
    let mut found = changed_third_party(history);
    found.extend(foreign_controllers(history));
    found.extend(orphaned(history));
    found.extend(surplus_pods(history));
    found.extend(tenant::gains(history));
    found
}

/// A third-party object is neither changed nor deleted.
fn changed_third_party(history: &[ObjectVersion]) -> Vec<String> {
    let mut first: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut found = Vec::new();
    // An app that needs its names has the same name.
    let is_bystander =
        |seen: &&ObjectVersion| seen.name() == THIRD_PARTY && matches!(seen.resource, "services" | "ingresses");
    for seen in history.iter().filter(is_bystander) {
        let known = *first.entry(seen.uid()).or_insert(&seen.object);
        if seen.deleted || *known != seen.object {
            let done = if seen.deleted { "deleted" } else { "changed" };
            found.push(format!("third-party object {} was {done}", seen.title()));
        }
    }
    found
}

fn is_ours(seen: &ObjectVersion) -> bool {
    let ours = |reference: &&Value| text(reference, "/apiVersion").starts_with(crd::GROUP);
    seen.controllers().iter().any(ours)
}

/// A child has one controller, which is or was in the same namespace.
fn foreign_controllers(history: &[ObjectVersion]) -> BTreeSet<String> {
    let known: BTreeSet<&str> = history.iter().map(ObjectVersion::uid).collect();
    let children = history.iter().filter(|seen| is_ours(seen));
    let strange = children.filter_map(|seen| match seen.controllers().as_slice() {
        [one] if known.contains(text(one, "/uid")) => None,
        [_] => Some(format!("the controller of {} is not in its namespace", seen.title())),
        several => Some(format!("{} has {} controllers", seen.title(), several.len())),
    });
    strange.collect()
}

/// No object outside of the namespace is controlled by an object in it. `elsewhere` is the history of the other
/// namespaces.
#[must_use]
pub fn children_elsewhere(history: &[ObjectVersion], elsewhere: &[ObjectVersion]) -> BTreeSet<String> {
    let known: BTreeSet<&str> = history.iter().map(ObjectVersion::uid).collect();
    let is_known = |owner: &&Value| known.contains(text(owner, "/uid"));
    let strange = elsewhere.iter().filter(|seen| seen.controllers().iter().any(is_known));
    strange
        .map(|seen| {
            let namespace = text(&seen.object, "/metadata/namespace");
            format!(
                "{} was created in namespace {namespace}, but its owner is in another namespace",
                seen.title()
            )
        })
        .collect()
}

/// At the end each child has an existing controller. Before that, the garbage collector may not have run yet.
fn orphaned(history: &[ObjectVersion]) -> Vec<String> {
    let existing = existing(history);
    let children = existing.values().filter(|seen| is_ours(seen));
    let orphans = children.filter(|seen| {
        let mut controllers = seen.controllers().into_iter();
        controllers.any(|controller| !existing.contains_key(text(controller, "/uid")))
    });
    orphans
        .map(|seen| format!("the controller of {} was deleted", seen.title()))
        .collect()
}

/// A pod set never has more pods than the highest `replicas` so far, without pods that are terminating or have finished.
fn surplus_pods(history: &[ObjectVersion]) -> BTreeSet<String> {
    let mut ordered: Vec<&ObjectVersion> = history.iter().collect();
    ordered.sort_by_key(|seen| seen.version());
    let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
    let mut pods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for seen in ordered {
        match seen.resource {
            "podsets" => {
                let replicas = seen
                    .object
                    .pointer("/spec/replicas")
                    .and_then(Value::as_i64)
                    .unwrap_or(1);
                // The replacement of a pod is started next to the old one.
                let replaced = seen.object.pointer("/spec/replacePods").and_then(Value::as_array);
                let replaced = i64::try_from(replaced.map_or(0, Vec::len)).unwrap_or_default();
                let most = wanted.entry(seen.uid()).or_default();
                *most = (*most).max(replicas + replaced);
            }
            "pods" => {
                let ended = matches!(text(&seen.object, "/status/phase"), "Succeeded" | "Failed");
                let is_terminating = seen.object.pointer("/metadata/deletionTimestamp").is_some();
                // It may have been released, or adopted.
                for of_set in pods.values_mut() {
                    of_set.remove(seen.uid());
                }
                if seen.deleted || ended || is_terminating {
                    continue;
                }
                for set in seen.controllers().iter().map(|owner| text(owner, "/uid")) {
                    let of_set = pods.entry(set).or_default();
                    of_set.insert(seen.uid());
                    let most = wanted.get(set).copied().unwrap_or(i64::MAX);
                    if i64::try_from(of_set.len()).is_ok_and(|pods| pods > most) {
                        found.insert(format!("there were {} pods, at most {most} were allowed", of_set.len()));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(resource: &'static str, name: &str, version: u64, owner: Option<&str>) -> ObjectVersion {
        let references =
            owner.map(|uid| json!({"apiVersion": "appdeploy.dev/v1alpha1", "uid": uid, "controller": true}));
        let references: Vec<Value> = references.into_iter().collect();
        ObjectVersion {
            resource,
            object: json!({"metadata": {
                "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
                "ownerReferences": references,
            }}),
            deleted: false,
        }
    }

    fn deleted(seen: ObjectVersion) -> ObjectVersion {
        ObjectVersion { deleted: true, ..seen }
    }

    #[test]
    fn run_without_changes_violates_nothing() {
        let history = [
            seen("appdeploys", "web", 1, None),
            seen("services", THIRD_PARTY, 2, None),
            seen("services", "web", 3, Some("uid-web")),
        ];
        assert_eq!(violations(&history), [""; 0]);
    }

    #[test]
    fn change_of_a_third_party_object_is_reported() {
        let before = seen("services", THIRD_PARTY, 1, None);
        let changed = seen("services", THIRD_PARTY, 2, None);
        assert_eq!(
            violations(&[before.clone(), changed]),
            ["third-party object services/bystander was changed"]
        );
        assert_eq!(
            violations(&[before.clone(), deleted(before)]),
            ["third-party object services/bystander was deleted"]
        );
    }

    #[test]
    fn child_in_another_namespace_than_its_owner_is_reported() {
        let child = seen("services", "web", 1, Some("uid-elsewhere"));
        assert_eq!(
            violations(&[child]),
            [
                "the controller of services/web is not in its namespace",
                "the controller of services/web was deleted"
            ]
        );
    }

    #[test]
    fn object_in_another_namespace_is_reported() {
        let app = [seen("appdeploys", "web", 1, None)];
        let mut elsewhere = ["uid-web", "uid-theirs"].map(|owner| seen("services", "web", 2, Some(owner)));
        elsewhere[0].object["metadata"]["namespace"] = json!("default");
        assert_eq!(
            children_elsewhere(&app, &elsewhere).into_iter().collect::<Vec<_>>(),
            ["services/web was created in namespace default, but its owner is in another namespace"]
        );
    }

    #[test]
    fn child_without_an_existing_owner_is_reported() {
        let app = seen("appdeploys", "app", 1, None);
        let child = seen("services", "web", 2, Some("uid-app"));
        let left = [app.clone(), child.clone(), deleted(app.clone())];
        assert_eq!(violations(&left), ["the controller of services/web was deleted"]);
        assert_eq!(
            violations(&[app.clone(), child.clone(), deleted(app), deleted(child)]),
            [""; 0]
        );
    }

    #[test]
    fn more_pods_than_the_highest_replicas_are_reported() {
        let mut set = seen("podsets", "set", 1, None);
        set.object["spec"] = json!({"replicas": 1});
        let pods = [1, 2].map(|n: u64| seen("pods", &format!("set-{n}"), n + 1, Some("uid-set")));
        let [one, two] = pods;
        assert_eq!(
            violations(&[set.clone(), one.clone(), two.clone()]),
            ["there were 2 pods, at most 1 were allowed"]
        );
        let mut two = two;
        two.object["metadata"]["resourceVersion"] = json!("9");
        let mut last = deleted(one.clone());
        last.object["metadata"]["resourceVersion"] = json!("8");
        assert_eq!(violations(&[set, two, one, last]), [""; 0]);
    }

    #[test]
    fn released_pod_does_not_count() {
        let mut set = seen("podsets", "set", 1, None);
        set.object["spec"] = json!({"replicas": 1});
        let one = seen("pods", "set-0", 2, Some("uid-set"));
        let free = seen("pods", "set-0", 3, None);
        let next = seen("pods", "set-1", 4, Some("uid-set"));
        assert_eq!(violations(&[set, one, free, next]), [""; 0]);
    }
}
