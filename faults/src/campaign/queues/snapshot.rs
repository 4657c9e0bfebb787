//! The queues outside the cluster, compared with the AppQueues.

use std::collections::BTreeMap;

use serde_json::Value;

use super::FOREIGN;
use crate::campaign::history::{ObjectVersion, existing, text};
use crate::campaign::kind::QUEUE;

/// The tag with the UID of the AppQueue that has created a queue.
const OWNER: &str = crd::tag::OWNER;

/// A queue outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) tags: BTreeMap<String, String>,
}

impl Queue {
    /// Returns what only a client that manages the queue changes.
    pub(super) fn without_counts(mut self) -> Self {
        self.attributes.retain(|name, _| !name.starts_with("Approximate"));
        self
    }
}

/// The AppQueues that exist.
pub(super) fn queues(history: &[ObjectVersion]) -> Vec<&ObjectVersion> {
    let existing = existing(history).into_values();
    existing.filter(|seen| seen.resource == QUEUE.plural()).collect()
}

/// The AppQueues that exist, without the one whose name a third-party queue has.
fn living(history: &[ObjectVersion]) -> Vec<&ObjectVersion> {
    let queues = queues(history).into_iter();
    queues.filter(|seen| seen.name() != FOREIGN).collect()
}

/// Whether an object is being deleted.
pub(super) fn is_deleting(seen: &ObjectVersion) -> bool {
    seen.object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Returns the differences between the AppQueues of a namespace and the queues outside, by their full names.
pub(super) fn differences(history: &[ObjectVersion], namespace: &str, queues: &BTreeMap<String, Queue>) -> Vec<String> {
    let mut left = queues.clone();
    left.remove(&format!("{namespace}_{FOREIGN}"));
    let mut found = Vec::new();
    for seen in living(history) {
        let name = format!("{namespace}_{}", seen.name());
        match left.remove(&name) {
            // Its deletion may be in progress, or blocked.
            _ if is_deleting(seen) => {}
            None => found.push(format!("queue {} does not exist outside", seen.name())),
            Some(queue) => found.extend(differs(seen, &queue)),
        }
    }
    let short = |name: &String| name.replacen(namespace, "NAMESPACE", 1);
    found.extend(left.keys().map(|name| format!("queue {} is left outside", short(name))));
    found
}

/// Returns how a queue differs from the spec of its AppQueue.
fn differs(seen: &ObjectVersion, queue: &Queue) -> Option<String> {
    let name = seen.name();
    if queue.tags.get(OWNER).map(String::as_str) != Some(seen.uid()) {
        return Some(format!("queue {name} has no tag with the UID of its AppQueue"));
    }
    let sqs = &seen.object["spec"]["sqs"];
    let timeout = sqs["visibilityTimeoutSeconds"].to_string();
    let is_as_wanted = queue.attributes.get("VisibilityTimeout") == Some(&timeout);
    let tags = sqs["tags"].as_object().into_iter().flatten();
    let mut tags = tags.map(|(key, value)| queue.tags.get(key).map(String::as_str) == value.as_str());
    (!is_as_wanted || tags.any(|is_same| !is_same)).then(|| format!("queue {name} is not as in the spec"))
}

/// Returns how the third-party queue was changed.
pub(super) fn changed(before: &Queue, now: Option<&Queue>) -> Option<String> {
    match now {
        None => Some("the third-party queue was deleted".to_owned()),
        Some(now) if now != before => Some(format!("the third-party queue was changed from {before:?} to {now:?}")),
        Some(_) => None,
    }
}

/// Returns the problems with the status of AppQueues whose queue is as wanted.
pub(super) fn untrue_status(history: &[ObjectVersion], namespace: &str) -> Vec<String> {
    let living = living(history).into_iter();
    let stable = living.filter(|seen| !is_deleting(seen) && !is_true(&seen.object, namespace));
    stable
        .map(|seen| {
            format!(
                "the status of queue {} is not true: {}",
                seen.name(),
                seen.object["status"]
            )
        })
        .collect()
}

fn is_true(object: &Value, namespace: &str) -> bool {
    let is_ready = crate::campaign::scenario::ready(object) == Some(("True", ""));
    let end = format!("/{namespace}_{}", text(object, "/metadata/name"));
    is_ready && text(object, "/status/url").ends_with(&end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(tags: &[(&str, &str)]) -> Queue {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect()
        };
        Queue {
            attributes: map(&[("VisibilityTimeout", "45")]),
            tags: map(tags),
        }
    }

    fn object(name: &str, timeout: u32) -> ObjectVersion {
        ObjectVersion {
            resource: QUEUE.plural(),
            object: json!({
                "metadata": {"name": name, "uid": format!("uid-{name}")},
                "spec": {"sqs": {"visibilityTimeoutSeconds": timeout, "tags": {"team": "shop"}}},
            }),
            deleted: false,
        }
    }

    #[test]
    fn each_app_queue_has_one_queue_as_in_its_spec() {
        let ours = || ("a_orders".to_owned(), queue(&[(OWNER, "uid-orders"), ("team", "shop")]));
        let foreign = (format!("a_{FOREIGN}"), queue(&[]));
        let world = |all: &[(String, Queue)]| all.iter().cloned().collect::<BTreeMap<_, _>>();
        let found = |history: &[ObjectVersion], all: &[(String, Queue)]| differences(history, "a", &world(all));
        let alive = [object("orders", 45), object(FOREIGN, 45)];
        assert_eq!(found(&alive, &[ours(), foreign.clone()]), [""; 0]);
        assert_eq!(
            found(&alive, std::slice::from_ref(&foreign)),
            ["queue orders does not exist outside"]
        );
        assert_eq!(
            found(&[], &[ours(), foreign]),
            ["queue NAMESPACE_orders is left outside"]
        );
        assert_eq!(
            found(&[object("orders", 46)], &[ours()]),
            ["queue orders is not as in the spec"]
        );
        let untagged = ("a_orders".to_owned(), queue(&[("team", "shop")]));
        assert_eq!(
            found(&alive, &[untagged]),
            ["queue orders has no tag with the UID of its AppQueue"]
        );
        let mut deleting = object("orders", 45);
        deleting.object["metadata"]["deletionTimestamp"] = json!("now");
        assert_eq!(found(std::slice::from_ref(&deleting), &[]), [""; 0]);
        assert_eq!(found(&[deleting], &[ours()]), [""; 0]);
    }
}
