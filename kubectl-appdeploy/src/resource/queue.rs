//! An AppQueue, and its state in one line.

use std::collections::BTreeMap;

use crd::{AppQueue, DeletionPolicy};
use kube::api::DynamicObject;
use model::reason::Reason;

use crate::cluster::kind_info::QUEUE;
use crate::resource::parts::Parts;
use crate::resource::summary::{Summary, has_finalizer};

/// What happens to the queue outside the cluster when the AppQueue is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outside {
    /// The operator deletes it with its messages.
    Deleted,
    /// It is kept.
    Kept,
    /// It does not exist.
    Absent,
}

/// Returns the AppQueue in an object. Parts that can't be read are empty.
pub fn read(object: &impl Parts) -> AppQueue {
    AppQueue {
        metadata: object.metadata(),
        spec: object.spec().unwrap_or_default(),
        status: object.status(),
    }
}

/// Returns its name.
pub fn name(queue: &AppQueue) -> &str {
    queue.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the part that all kinds have.
pub fn summary(queue: &AppQueue) -> Summary<'_> {
    let status = queue.status.as_ref();
    Summary {
        kind: &QUEUE,
        meta: &queue.metadata,
        observed: status.and_then(|status| status.observed_generation),
        restarted: None,
        is_held: false,
        cause: status.and_then(|status| status.cause.as_ref()),
        conditions: status.map_or(&[][..], |status| &status.conditions),
    }
}

/// Returns the approximate number of messages.
pub fn depth(queue: &AppQueue) -> Option<i64> {
    queue.status.as_ref()?.approximate_depth
}

/// Returns the approximate number of messages, as tables show it.
pub fn depth_text(queue: &AppQueue) -> String {
    depth(queue).map_or_else(|| "<unknown>".to_owned(), |depth| depth.to_string())
}

/// Returns its type.
pub fn type_of(queue: &AppQueue) -> &'static str {
    if queue.spec.sqs.is_fifo() { "FIFO" } else { "Standard" }
}

/// Returns its URL.
pub fn url(queue: &AppQueue) -> Option<&str> {
    queue.status.as_ref()?.url.as_deref()
}

/// Returns why the operator does not manage the queue with this name: it was not created by this AppQueue.
pub fn conflict(queue: &AppQueue) -> Option<&str> {
    let cause = queue.status.as_ref()?.cause.as_ref()?;
    (cause.reason == Reason::QueueConflict.as_str()).then_some(cause.message.as_str())
}

/// Returns what its deletion does to the queue outside the cluster. The operator has a finalizer on each AppQueue whose queue it
/// deletes.
pub fn outside(queue: &AppQueue) -> Outside {
    let is_retained = queue.spec.deletion_policy == Some(DeletionPolicy::Retain);
    let is_taken = conflict(queue).is_some();
    if has_finalizer(&queue.metadata) && !is_retained && !is_taken {
        Outside::Deleted
    } else if is_taken || url(queue).is_some() {
        Outside::Kept
    } else {
        Outside::Absent
    }
}

/// Groups AppQueues by what their deletion does outside the cluster. With `is_orphaning`, no queue is deleted there.
pub fn by_outside<'a>(
    objects: impl IntoIterator<Item = &'a DynamicObject>,
    is_orphaning: bool,
) -> BTreeMap<Outside, Vec<&'a DynamicObject>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for object in objects {
        let group = match outside(&read(object)) {
            Outside::Deleted if is_orphaning => Outside::Kept,
            group => group,
        };
        groups.entry(group).or_default().push(object);
    }
    groups
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Returns an AppQueue with the operator's finalizer.
    pub fn queue(name: &str, spec: &Value, status: &Value) -> AppQueue {
        read(&object(name, spec, status))
    }

    /// Returns the same as an object.
    pub fn object(name: &str, spec: &Value, status: &Value) -> DynamicObject {
        let mut all = json!({"sqs": {"region": "us-east-1"}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            all[field] = value.clone();
        }
        let object = json!({"metadata": {"name": name, "namespace": "default", "generation": 1, "uid": name,
            "creationTimestamp": "2026-06-01T00:00:00Z", "finalizers": [crd::finalizer::QUEUE]}, "spec": all, "status": status});
        serde_json::from_value(object).unwrap()
    }

    /// Returns a status with a cause.
    pub fn broken(reason: &str, message: &str, next: &str) -> Value {
        json!({"observedGeneration": 1, "cause": {"reason": reason, "message": message, "next": next},
            "conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": message,
                "lastTransitionTime": "2026-06-01T11:58:00Z"}]})
    }

    #[test]
    fn queue_is_deleted_only_if_the_operator_does_it() {
        let none = json!({});
        assert_eq!(outside(&queue("a", &none, &none)), Outside::Deleted);
        let known = json!({"url": "http://sqs.example:9324/1/a"});
        let retained = queue("a", &json!({"deletionPolicy": "Retain"}), &known);
        assert_eq!(outside(&retained), Outside::Kept, "the finalizer is removed soon");
        let foreign = queue(
            "a",
            &none,
            &broken("QueueConflict", "a queue with this name exists", ""),
        );
        assert_eq!(outside(&foreign), Outside::Kept);
        let mut unknown = queue("a", &json!({"deletionPolicy": "Delete"}), &none);
        unknown.metadata.finalizers = None;
        assert_eq!(outside(&unknown), Outside::Absent, "nothing was created");
    }

    #[test]
    fn deletion_that_cannot_proceed_is_explained_by_its_cause() {
        let next = "kubectl appdeploy queue delete a -n default --orphan";
        let status = broken("CredentialsMissing", "the queue can't be deleted: no Secret", next);
        let mut deleted = queue("a", &json!({}), &status);
        deleted.metadata.deletion_timestamp = deleted.metadata.creation_timestamp.clone();
        let (why, command) = summary(&deleted).explanation().unwrap();
        assert_eq!(why, "the queue can't be deleted: no Secret");
        assert_eq!(command.unwrap().to_string(), next);
        deleted.status = None;
        let (why, _) = summary(&deleted).explanation().unwrap();
        assert_eq!(why, "it is being deleted and waits for: appdeploy.dev/queue");
    }
}
