//! What the spec of an AppQueue asks for.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crd::{AdoptionPolicy, AppQueue, DeletionPolicy};
use kube::ResourceExt as _;
use serde_json::json;

use super::difference::attribute;
use crate::digest::stable_hash;
use crate::valid::{Invalid, MAX_NAME, is_name};

/// The maximum length of the name of a queue.
const MAX_QUEUE_NAME: usize = 80;
/// The end of the name of a FIFO queue.
const FIFO_SUFFIX: &str = ".fifo";
/// The length of the hash in a shortened name.
const HASH: usize = 10;

/// What a spec asks for, with defaults.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Desired {
    /// The name of the queue.
    pub name: String,
    /// The region.
    pub region: String,
    /// The URL of the server, if it is not that of Amazon SQS in the region.
    pub endpoint: Option<String>,
    /// Whether it is a FIFO queue.
    pub fifo: bool,
    /// The attributes that the spec sets, by their names in SQS. Contains the `RedrivePolicy` if the dead letter queue is
    /// ready.
    pub attributes: BTreeMap<String, String>,
    /// The tags that the spec sets.
    pub tags: BTreeMap<String, String>,
    /// The state of the dead letter queue, if the spec has one.
    pub dead_letter: Option<DeadLetterState>,
    /// The name of the Secret with the credentials. Without one, the operator's own credentials are used.
    pub secret: Option<String>,
    /// What to do with an existing queue.
    pub adoption: AdoptionPolicy,
    /// What to do with the queue when the AppQueue is deleted. The default depends on who created the queue.
    pub deletion: Option<DeletionPolicy>,
}

/// The state of the dead letter queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeadLetterState {
    /// The queue exists.
    Ready,
    /// The AppQueue exists, and its queue does not exist yet.
    NotReady {
        /// The name of the AppQueue.
        name: String,
    },
    /// The AppQueue does not exist.
    Missing {
        /// The name of the AppQueue.
        name: String,
    },
    /// The AppQueue can't be used.
    Unsuitable {
        /// The name of the AppQueue.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Returns what a spec asks for. `find` returns the AppQueue with a name in the same namespace.
///
/// # Errors
/// Returns a message for each invalid field.
pub fn desired<Q: Borrow<AppQueue>>(
    queue: &AppQueue,
    find: impl FnOnce(&str) -> Option<Q>,
) -> Result<Desired, Invalid> {
    let (name, spec) = (queue.name_any(), &queue.spec);
    let sqs = &spec.sqs;
    let mut problems = Vec::new();
    if !is_name(&name) {
        problems.push(format!(
            "metadata.name: invalid name {name:?}: use at most {MAX_NAME} lower-case letters, digits and '-', starting \
             with a letter"
        ));
    }
    let is_region = |region: &str| !region.is_empty() && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_region(&sqs.region) {
        let region = &sqs.region;
        problems.push(format!(
            "spec.sqs.region: invalid region {region:?}: write it like us-east-1"
        ));
    }
    let queue_name = queue_name(queue);
    if !is_queue_name(&queue_name) {
        problems.push(format!(
            "spec.sqs.queueName: invalid name {queue_name:?}: use at most {MAX_QUEUE_NAME} letters, digits, '_' and '-'"
        ));
    }
    if sqs.tags.keys().any(|key| key.starts_with("appdeploy.dev/")) {
        problems.push("spec.sqs.tags: the keys appdeploy.dev/... are reserved: use another key".to_owned());
    }
    if !problems.is_empty() {
        return Err(Invalid(problems));
    }
    let settings = [
        (attribute::VISIBILITY_TIMEOUT, sqs.visibility_timeout_seconds),
        (attribute::RETENTION, sqs.message_retention_seconds),
        (attribute::DELAY, sqs.delay_seconds),
        (attribute::RECEIVE_WAIT, sqs.receive_wait_seconds),
        (attribute::MAX_SIZE, sqs.max_message_bytes),
    ];
    let set = settings
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_string())));
    let mut attributes: BTreeMap<String, String> = set.collect();
    let dead_letter = sqs.dead_letter.as_ref().map(|dead_letter| {
        let name = &dead_letter.queue_ref.name;
        let target = (*name != queue.name_any()).then(|| find(name)).flatten();
        match target_arn(queue, name, target.as_ref().map(Borrow::borrow)) {
            Ok(arn) => {
                let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": dead_letter.max_receive_count});
                attributes.insert(attribute::REDRIVE_POLICY.to_owned(), policy.to_string());
                DeadLetterState::Ready
            }
            Err(state) => state,
        }
    });
    Ok(Desired {
        name: queue_name,
        region: sqs.region.clone(),
        endpoint: sqs.endpoint.clone(),
        fifo: sqs.is_fifo(),
        attributes,
        tags: sqs.tags.clone(),
        dead_letter,
        secret: spec.credentials.as_ref().map(|from| from.secret_ref.name.clone()),
        adoption: spec.adoption_policy.unwrap_or(AdoptionPolicy::Never),
        deletion: spec.deletion_policy,
    })
}

/// Returns the ARN of a dead letter queue.
fn target_arn(queue: &AppQueue, name: &str, target: Option<&AppQueue>) -> Result<String, DeadLetterState> {
    let unsuitable = |why| {
        let name = name.to_owned();
        Err(DeadLetterState::Unsuitable { name, why })
    };
    if name == queue.name_any() {
        return unsuitable("a queue can't be its own dead letter queue");
    }
    let Some(target) = target.filter(|target| target.metadata.deletion_timestamp.is_none()) else {
        return Err(DeadLetterState::Missing { name: name.to_owned() });
    };
    let (own, other) = (&queue.spec.sqs, &target.spec.sqs);
    if own.is_fifo() != other.is_fifo() {
        return unsuitable("both queues must have the same type");
    }
    if (&own.region, &own.endpoint) != (&other.region, &other.endpoint) {
        return unsuitable("both queues must have the same region and endpoint");
    }
    let arn = target.status.as_ref().and_then(|status| status.arn.clone());
    arn.ok_or_else(|| DeadLetterState::NotReady { name: name.to_owned() })
}

/// Returns the name of the queue of an AppQueue. The default is unique in a cluster and starts with `<namespace>_`.
fn queue_name(queue: &AppQueue) -> String {
    let sqs = &queue.spec.sqs;
    let suffix = if sqs.is_fifo() { FIFO_SUFFIX } else { "" };
    if let Some(name) = &sqs.queue_name {
        let base = name.strip_suffix(suffix).unwrap_or(name);
        return format!("{base}{suffix}");
    }
    let namespace = queue.metadata.namespace.as_deref().unwrap_or_default();
    let name = queue.name_any();
    let full = format!("{namespace}_{name}");
    let room = MAX_QUEUE_NAME - suffix.len();
    if full.len() <= room {
        return format!("{full}{suffix}");
    }
    let hash = format!("{:016x}", stable_hash(&json!({"name": full})));
    let room = room.saturating_sub(namespace.len() + 1 + HASH + 1);
    let start: String = name.chars().take(room).collect();
    let dash = if start.is_empty() { "" } else { "-" };
    format!("{namespace}_{start}{dash}{}{suffix}", &hash[..HASH])
}

fn is_queue_name(name: &str) -> bool {
    let base = name.strip_suffix(FIFO_SUFFIX).unwrap_or(name);
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    !base.is_empty() && name.len() <= MAX_QUEUE_NAME && base.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn queue(namespace: &str, name: &str, sqs: Value) -> AppQueue {
        let mut spec = json!({"sqs": {"region": "us-east-1"}});
        for (key, value) in sqs.as_object().unwrap() {
            spec["sqs"][key] = value.clone();
        }
        let object = json!({"metadata": {"name": name, "namespace": namespace, "uid": "u1"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn of(queue: &AppQueue) -> Result<Desired, Invalid> {
        desired(queue, |_| None::<AppQueue>)
    }

    #[test]
    fn default_name_is_namespace_and_name() {
        let name = |namespace: &str, name: &str, sqs: Value| of(&queue(namespace, name, sqs)).unwrap().name;
        assert_eq!(name("shop", "orders", json!({})), "shop_orders");
        assert_eq!(name("shop", "orders", json!({"type": "FIFO"})), "shop_orders.fifo");
        let named = json!({"queueName": "Orders_1", "type": "FIFO"});
        assert_eq!(name("shop", "orders", named), "Orders_1.fifo");
        let named = json!({"queueName": "orders.fifo", "type": "FIFO"});
        assert_eq!(name("shop", "orders", named), "orders.fifo");
    }

    #[test]
    fn long_names_are_shortened_with_a_hash() {
        let mut seen = std::collections::BTreeSet::new();
        for fifo in [json!({}), json!({"type": "FIFO"})] {
            for (namespace, name) in [("n".repeat(63), "a".repeat(53)), ("n".repeat(40), "a".repeat(53))] {
                for last in ["a", "b"] {
                    let name = format!("{}{last}", &name[1..]);
                    let found = of(&queue(&namespace, &name, fifo.clone())).unwrap().name;
                    assert!(
                        found.len() <= 80 && found.starts_with(&format!("{namespace}_")),
                        "{found}"
                    );
                    assert!(seen.insert(found));
                }
            }
        }
        // Existing queues have this name. With another one, a second queue would be created.
        let name = of(&queue(&"n".repeat(40), &"a".repeat(53), json!({}))).unwrap().name;
        insta::assert_snapshot!(name);
    }

    #[test]
    fn only_set_fields_are_managed() {
        assert!(of(&queue("shop", "orders", json!({}))).unwrap().attributes.is_empty());
        let all = json!({
            "visibilityTimeoutSeconds": 45, "messageRetentionSeconds": 60, "delaySeconds": 0, "receiveWaitSeconds": 20,
            "maxMessageBytes": 1024,
        });
        let found = of(&queue("shop", "orders", all)).unwrap();
        let found: Vec<_> = found
            .attributes
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(
            found,
            [
                "DelaySeconds=0",
                "MaximumMessageSize=1024",
                "MessageRetentionPeriod=60",
                "ReceiveMessageWaitTimeSeconds=20",
                "VisibilityTimeout=45"
            ]
        );
    }

    #[test]
    fn dead_letter_queue_must_be_ready_and_alike() {
        let orders = queue(
            "shop",
            "orders",
            json!({"deadLetter": {"queueRef": {"name": "dead"}, "maxReceiveCount": 5}}),
        );
        let state = |target: Option<AppQueue>| desired(&orders, |_| target).unwrap();
        let name = || "dead".to_owned();
        let is = |target: Option<AppQueue>| state(target).dead_letter.unwrap();
        assert_eq!(is(None), DeadLetterState::Missing { name: name() });
        let mut dead = queue("shop", "dead", json!({}));
        assert_eq!(is(Some(dead.clone())), DeadLetterState::NotReady { name: name() });
        dead.status = serde_json::from_value(json!({"arn": "arn:aws:sqs:us-east-1:1:shop_dead"})).unwrap();
        let found = state(Some(dead.clone()));
        assert_eq!(found.dead_letter, Some(DeadLetterState::Ready));
        assert_eq!(
            found.attributes[attribute::REDRIVE_POLICY],
            r#"{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:1:shop_dead","maxReceiveCount":5}"#
        );
        for other in [
            json!({"type": "FIFO"}),
            json!({"endpoint": "http://a"}),
            json!({"region": "b"}),
        ] {
            let found = is(Some(queue("shop", "dead", other)));
            assert!(matches!(found, DeadLetterState::Unsuitable { .. }), "{found:?}");
        }
        let own = queue(
            "shop",
            "orders",
            json!({"deadLetter": {"queueRef": {"name": "orders"}, "maxReceiveCount": 5}}),
        );
        let found = of(&own).unwrap().dead_letter.unwrap();
        assert!(matches!(found, DeadLetterState::Unsuitable { .. }), "{found:?}");
        dead.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            jiff::Timestamp::UNIX_EPOCH,
        ));
        assert_eq!(is(Some(dead)), DeadLetterState::Missing { name: name() });
    }

    #[test]
    fn all_problems_are_reported_together() {
        let bad = queue(
            "shop",
            "1",
            json!({"region": "", "queueName": "a b", "tags": {"appdeploy.dev/uid": "x"}}),
        );
        let Invalid(problems) = of(&bad).unwrap_err();
        let fields: Vec<_> = problems
            .iter()
            .map(|problem| problem.split(':').next().unwrap())
            .collect();
        assert_eq!(
            fields,
            [
                "metadata.name",
                "spec.sqs.region",
                "spec.sqs.queueName",
                "spec.sqs.tags"
            ]
        );
    }
}
