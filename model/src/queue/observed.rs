//! What the calls of a reconcile have returned.

use std::collections::BTreeMap;

use super::difference::{attribute, tag_key};
use super::{Answer, Call, CallError, Claim, Memory, Verified, Written};

/// What the calls of this reconcile have returned. Each reconcile starts with the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observed {
    /// Whether the queue exists.
    pub existence: Existence,
    /// The attributes of the queue, as read.
    pub attributes: Option<BTreeMap<String, String>>,
    /// The tags of the queue, as read, with the changes of this reconcile.
    pub tags: Option<BTreeMap<String, String>>,
    /// The call that failed. The reconcile ends.
    pub error: Option<CallError>,
    /// Whether a queue that was known is missing.
    pub(super) vanished: bool,
    /// Whether `CreateQueue` was called.
    pub(super) created: bool,
    /// The attributes that were set.
    pub(super) set: BTreeMap<String, String>,
    /// The keys of the tags that were set.
    pub(super) tagged: Vec<String>,
    /// Whether tags were removed.
    pub(super) untagged: bool,
}

/// Whether a queue exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Existence {
    /// It was not looked for.
    #[default]
    Unknown,
    /// It does not exist.
    Missing,
    /// It exists.
    Exists {
        /// Its URL.
        url: String,
    },
}

impl Observed {
    fn is_missing(&mut self, memory: &mut Memory) {
        self.existence = Existence::Missing;
        self.vanished |= memory.url.is_some();
        self.attributes = None;
        self.tags = None;
        memory.forget_queue();
    }

    /// Returns whether the tags show that the queue is ours.
    pub(super) fn claim(&self, uid: &str) -> Option<Claim> {
        self.tags.as_ref().map(|tags| Claim::of(tags, uid))
    }

    /// Binds the claim to the queue whose attributes were read before the tags.
    fn verify(&self, uid: &str, memory: &mut Memory) {
        if self.claim(uid) == Some(Claim::Created) {
            memory.find_created();
        }
        let created = self.attributes.as_ref().and_then(|found| found.get(attribute::CREATED));
        memory.verified = match (created, self.claim(uid)) {
            (Some(created), Some(claim)) if claim.is_ours() => Some(Verified {
                created: created.clone(),
                claim,
            }),
            _ => None,
        };
    }
}

/// Records the result of a call for the AppQueue with this UID.
pub fn record(
    call: &Call,
    result: Result<Answer, CallError>,
    uid: &str,
    observed: &mut Observed,
    memory: &mut Memory,
    now: i64,
) {
    observed.created |= matches!(call, Call::Create { .. });
    match (call, result) {
        (Call::Create { .. }, Err(CallError::AttributesDiffer)) => {
            observed.existence = Existence::Unknown;
            memory.forget_queue();
        }
        (Call::Delete { .. }, Ok(_) | Err(CallError::NoSuchQueue)) => {
            // Only a create whose response was lost can still create one.
            memory.created_at = None;
            observed.is_missing(memory);
        }
        (Call::Create { .. }, Err(error)) => {
            if matches!(error, CallError::Lost(_)) {
                memory.lose_create(now);
            }
            observed.error = Some(error);
        }
        (_, Err(CallError::NoSuchQueue)) => observed.is_missing(memory),
        (_, Err(error)) => observed.error = Some(error),
        (call, Ok(answer)) => succeed(call, answer, uid, observed, memory, now),
    }
}

fn succeed(call: &Call, answer: Answer, uid: &str, observed: &mut Observed, memory: &mut Memory, now: i64) {
    let written = |value: &String| Written {
        value: value.clone(),
        at: now,
    };
    match (call, answer) {
        (Call::GetUrl, Answer::Url(url)) => {
            memory.url = Some(url.clone());
            observed.existence = Existence::Exists { url };
        }
        (Call::Create { attributes, tags }, Answer::Url(url)) => {
            memory.forget_queue();
            memory.url = Some(url.clone());
            memory.created_at = Some(now);
            let all = attributes.iter().map(|(name, value)| (name.clone(), written(value)));
            memory.written.extend(all);
            let all = tags.iter().map(|(key, value)| (tag_key(key), written(value)));
            memory.written.extend(all);
            observed.existence = Existence::Exists { url };
            observed.attributes = None;
            observed.tags = None;
        }
        (Call::GetAttributes { url }, Answer::Attributes(attributes)) => {
            observed.existence = Existence::Exists { url: url.clone() };
            observed.attributes = Some(attributes);
        }
        (Call::GetTags { url }, Answer::Tags(tags)) => {
            observed.existence = Existence::Exists { url: url.clone() };
            observed.tags = Some(tags);
            observed.verify(uid, memory);
        }
        (Call::SetAttributes { attributes, .. }, _) => {
            let all = attributes.iter().map(|(name, value)| (name.clone(), written(value)));
            memory.written.extend(all);
            observed.set.extend(attributes.clone());
        }
        (Call::Tag { tags, .. }, _) => {
            let all = tags.iter().map(|(key, value)| (tag_key(key), written(value)));
            memory.written.extend(all);
            observed.tagged.extend(tags.keys().cloned());
            observed.tags.get_or_insert_default().extend(tags.clone());
            observed.verify(uid, memory);
        }
        (Call::Untag { keys, .. }, _) => {
            let found = observed.tags.get_or_insert_default();
            found.retain(|key, _| !keys.contains(key));
            observed.untagged = true;
            observed.verify(uid, memory);
        }
        (call, _) => {
            let why = format!("unexpected response to {}", call.action());
            observed.error = Some(CallError::Unavailable(why));
        }
    }
}
