//! Differences between a queue and its spec. Values are compared, not their notation.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Desired, Memory, PROPAGATION, RETENTION_PROPAGATION};

/// The names of attributes in SQS.
pub(super) mod attribute {
    pub const ARN: &str = "QueueArn";
    pub const CREATED: &str = "CreatedTimestamp";
    pub const DELAY: &str = "DelaySeconds";
    pub const DEPTH: &str = "ApproximateNumberOfMessages";
    pub const FIFO: &str = "FifoQueue";
    pub const MAX_SIZE: &str = "MaximumMessageSize";
    pub const RECEIVE_WAIT: &str = "ReceiveMessageWaitTimeSeconds";
    pub const REDRIVE_POLICY: &str = "RedrivePolicy";
    pub const RETENTION: &str = "MessageRetentionPeriod";
    pub const VISIBILITY_TIMEOUT: &str = "VisibilityTimeout";
}

/// A change or deletion of a queue that the operator has not made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Drift {
    /// The queue was deleted.
    Deleted,
    /// An attribute was changed.
    Attribute {
        /// Its name in SQS.
        name: String,
        /// Its value; `None` if it was removed.
        found: Option<String>,
        /// Its value in the spec.
        wanted: String,
    },
    /// A tag was changed or removed.
    Tag {
        /// Its key.
        key: String,
    },
}

impl Drift {
    /// Returns the value of the metric label `kind`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Attribute { .. } => "attribute",
            Self::Tag { .. } => "tag",
        }
    }
}

impl std::fmt::Display for Drift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deleted => f.write_str("the queue was deleted outside the cluster"),
            Self::Attribute { name, found, wanted } => {
                let found = found.as_deref().unwrap_or("nothing");
                write!(f, "{name} was changed outside the cluster: {found} instead of {wanted}")
            }
            Self::Tag { key } => write!(f, "tag {key} was changed outside the cluster"),
        }
    }
}

/// Returns the attributes to set. Own changes that may not be visible yet are not repeated. `was_ready` is whether the same
/// spec was as desired before; then an attribute that the server does not return is not set again.
pub(super) fn attributes_to_set(
    desired: &Desired,
    found: &BTreeMap<String, String>,
    memory: &Memory,
    was_ready: bool,
    now: i64,
) -> BTreeMap<String, String> {
    let differs = |name: &str, wanted: &str| match found.get(name) {
        Some(found) => !is_same(name, found, wanted) && !memory.is_propagating(name, wanted, propagation(name), now),
        None => !is_default(name, wanted) && !was_ready && !memory.has_written(name, wanted),
    };
    let all = desired.attributes.iter().filter(|(name, wanted)| differs(name, wanted));
    all.map(|(name, wanted)| (name.clone(), wanted.clone())).collect()
}

/// Returns the tags to set.
pub(super) fn tags_to_set(
    desired: &Desired,
    found: &BTreeMap<String, String>,
    memory: &Memory,
    now: i64,
) -> BTreeMap<String, String> {
    let differs = |key: &str, wanted: &String| {
        found.get(key) != Some(wanted) && !memory.is_propagating(&tag_key(key), wanted, PROPAGATION, now)
    };
    let all = desired.tags.iter().filter(|(key, wanted)| differs(key, wanted));
    all.map(|(key, wanted)| (key.clone(), wanted.clone())).collect()
}

/// Returns the key of a tag in [`Memory::written`].
pub(super) fn tag_key(key: &str) -> String {
    format!("tag {key}")
}

fn propagation(name: &str) -> i64 {
    if name == attribute::RETENTION {
        RETENTION_PROPAGATION
    } else {
        PROPAGATION
    }
}

/// Whether two values of an attribute are the same.
fn is_same(name: &str, found: &str, wanted: &str) -> bool {
    if name == attribute::REDRIVE_POLICY {
        return redrive(found).is_some_and(|found| Some(found) == redrive(wanted));
    }
    match (found.trim().parse::<i64>(), wanted.parse::<i64>()) {
        (Ok(found), Ok(wanted)) => found == wanted,
        _ => found == wanted,
    }
}

/// Reads the target and the count of a redrive policy. Servers return the count as a number or as a string.
fn redrive(policy: &str) -> Option<(String, i64)> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    let count = &policy["maxReceiveCount"];
    let count = count.as_i64().or_else(|| count.as_str()?.parse().ok())?;
    Some((policy["deadLetterTargetArn"].as_str()?.to_owned(), count))
}

/// Whether a value is the default of SQS, so that a server may leave it out.
fn is_default(name: &str, wanted: &str) -> bool {
    let default = match name {
        attribute::VISIBILITY_TIMEOUT => "30",
        attribute::RETENTION => "345600",
        attribute::DELAY | attribute::RECEIVE_WAIT => "0",
        _ => return false,
    };
    wanted == default
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_and_not_their_notation() {
        let policy = attribute::REDRIVE_POLICY;
        for (name, found, wanted, same) in [
            ("DelaySeconds", "5", "5", true),
            ("DelaySeconds", "05", "5", true),
            ("DelaySeconds", "5", "6", false),
            ("DelaySeconds", "x", "5", false),
            (
                policy,
                r#"{"maxReceiveCount":"5", "deadLetterTargetArn":"a"}"#,
                r#"{"deadLetterTargetArn":"a","maxReceiveCount":5}"#,
                true,
            ),
            (
                policy,
                r#"{"deadLetterTargetArn":"b","maxReceiveCount":5}"#,
                r#"{"deadLetterTargetArn":"a","maxReceiveCount":5}"#,
                false,
            ),
            (policy, "", r#"{"deadLetterTargetArn":"a","maxReceiveCount":5}"#, false),
        ] {
            assert_eq!(is_same(name, found, wanted), same, "{name} {found} {wanted}");
        }
    }
}
