//! A queue service with one name.

use std::collections::BTreeMap;

use crd::tag;
use model::queue::{Answer, Call, CallError, Claim};

use crate::world::{Flaw, Rules, Uid, name};

/// The attribute that the spec sets.
pub const ATTRIBUTE: &str = "DelaySeconds";

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Distinguishes queues with the same name.
    pub created: u8,
    pub attribute: String,
    /// The AppQueue that created it.
    pub creator: Option<Uid>,
    pub tags: BTreeMap<String, String>,
}

impl Queue {
    pub fn claim(&self, uid: Uid) -> Claim {
        Claim::of(&self.tags, &name(uid))
    }
}

/// The queue service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Service {
    pub queue: Option<Queue>,
    /// Whether the name is refused, because a queue was deleted recently.
    pub refuses_name: bool,
    /// The number of queues that were created.
    pub count: u8,
    /// Whether a call has changed a queue that is not of its sender.
    pub is_breached: bool,
}

impl Service {
    /// Creates a queue without tags, unless it exists.
    pub fn create_outside(&mut self) -> bool {
        let is_free = self.queue.is_none() && !self.refuses_name;
        if is_free {
            self.insert("0".to_owned(), None, BTreeMap::new());
        }
        is_free
    }

    pub fn delete(&mut self) {
        self.queue = None;
        self.refuses_name = true;
    }

    fn insert(&mut self, attribute: String, creator: Option<Uid>, tags: BTreeMap<String, String>) {
        self.count += 1;
        self.queue = Some(Queue {
            created: self.count,
            attribute,
            creator,
            tags,
        });
    }

    /// Carries out a call of an AppQueue. `is_late` is whether no operator waits for the response.
    pub fn handle(&mut self, call: &Call, uid: Uid, rules: &Rules, is_late: bool) -> Result<Answer, CallError> {
        let url = "url".to_owned();
        if let Call::Create { attributes, tags } = call {
            let wanted = attributes[ATTRIBUTE].clone();
            return match &self.queue {
                Some(queue) if queue.attribute == wanted => Ok(Answer::Url(url)),
                Some(_) => Err(CallError::AttributesDiffer),
                None if self.refuses_name && !rules.has(Flaw::NoCooldown) => Err(CallError::DeletedRecently),
                None => {
                    self.insert(wanted, Some(uid), tags.clone());
                    Ok(Answer::Url(url))
                }
            };
        }
        let Some(queue) = &mut self.queue else {
            return Err(CallError::NoSuchQueue);
        };
        let is_ours = queue.claim(uid).is_ours();
        self.is_breached |= !is_ours
            && match call {
                // A deletion that was sent stays valid if its sender then decides to keep the queue.
                Call::Delete { .. } => !is_late || queue.creator != Some(uid),
                // A change that arrives late may find a queue that was given back in the meantime.
                Call::SetAttributes { .. } => !is_late,
                Call::Tag { tags, .. } => !(is_late || tags.contains_key(tag::ADOPTED_BY) && rules.adopts()),
                // A tag that an AppQueue loses this way is set again: see `END`.
                _ => false,
            };
        match call {
            Call::GetUrl => return Ok(Answer::Url(url)),
            Call::GetAttributes { .. } => {
                let all = [
                    (ATTRIBUTE, queue.attribute.clone()),
                    ("CreatedTimestamp", queue.created.to_string()),
                ];
                let all = all.map(|(name, value)| (name.to_owned(), value));
                return Ok(Answer::Attributes(all.into()));
            }
            Call::GetTags { .. } => return Ok(Answer::Tags(queue.tags.clone())),
            Call::SetAttributes { attributes, .. } => queue.attribute.clone_from(&attributes[ATTRIBUTE]),
            Call::Tag { tags, .. } => queue.tags.extend(tags.clone()),
            Call::Untag { keys, .. } => queue.tags.retain(|key, _| !keys.contains(key)),
            Call::Delete { .. } => self.delete(),
            Call::Create { .. } => {}
        }
        Ok(Answer::Done)
    }
}
