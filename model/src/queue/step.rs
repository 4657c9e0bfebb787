//! The next step of a reconcile.

use std::collections::BTreeMap;

use crd::{AdoptionPolicy, AppQueue, DeletionPolicy, tag};

use super::difference::{attribute, attributes_to_set, tags_to_set};
use super::{
    Call, CallError, Claim, Conflict, DeadLetterState, Desired, Drift, Existence, Memory, Observed, Outcome, State,
    View,
};
use crate::conditions::is_ready;

/// What the steps depend on of the stored AppQueue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
pub struct Lifecycle {
    /// The UID.
    pub uid: String,
    /// Whether the AppQueue is being deleted.
    pub is_deleting: bool,
    /// Whether the AppQueue has [`crd::finalizer::QUEUE`].
    pub has_finalizer: bool,
    /// Whether the namespace is being deleted. Then a missing Secret can't be created again.
    pub is_namespace_terminating: bool,
    /// Whether the queue was seen before, according to the status.
    pub was_seen: bool,
    /// Whether the queue was as desired for this spec, according to the status. Then a difference is drift.
    pub was_ready: bool,
}

impl Lifecycle {
    /// Reads an AppQueue.
    #[must_use]
    pub fn of(queue: &AppQueue, is_namespace_terminating: bool) -> Self {
        let meta = &queue.metadata;
        let status = queue.status.as_ref();
        let finalizers = meta.finalizers.iter().flatten();
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            is_deleting: meta.deletion_timestamp.is_some(),
            has_finalizer: finalizers.into_iter().any(|name| name == crd::finalizer::QUEUE),
            is_namespace_terminating,
            was_seen: status.is_some_and(|status| status.url.is_some()),
            was_ready: status
                .is_some_and(|status| status.observed_generation == meta.generation && is_ready(&status.conditions)),
        }
    }
}

/// The input of [`next_step`].
#[derive(Clone, Copy)]
pub struct StepInput<'a> {
    /// The stored AppQueue.
    pub object: &'a Lifecycle,
    /// What its spec asks for.
    pub desired: &'a Desired,
    /// What the calls of this reconcile have returned.
    pub observed: &'a Observed,
    /// What is kept between reconciles.
    pub memory: &'a Memory,
    /// Whether an AppQueue with this UID exists in the cluster.
    pub is_live: &'a dyn Fn(&str) -> bool,
    /// The current time.
    pub now: i64,
}

/// One step of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a call, and record its result.
    Call(Call),
    /// Add the finalizer to the AppQueue.
    AddFinalizer,
    /// Remove the finalizer from the AppQueue.
    RemoveFinalizer(Removal),
    /// Nothing is left to do.
    Settled(Outcome),
}

/// Why the finalizer is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Removal {
    /// The queue was deleted, or does not exist.
    Deleted,
    /// The queue is kept, as the deletion policy says.
    Retained,
    /// The queue is not ours.
    NotOurs,
    /// The queue can't be deleted any more, because its credentials were deleted with the namespace.
    Orphaned,
}

/// Returns the next step. The steps of a reconcile come to an end: each call is made at most once, or once before and once
/// after the queue is created.
#[must_use]
pub fn next_step(input: StepInput<'_>) -> Step {
    if input.object.is_deleting {
        return input.delete();
    }
    if input.object.has_finalizer && input.desired.deletion == Some(DeletionPolicy::Retain) {
        return Step::RemoveFinalizer(Removal::Retained);
    }
    if let Some(error) = &input.observed.error {
        return input.settled(State::Failed(error.clone()));
    }
    match &input.observed.existence {
        Existence::Unknown => input.look(),
        Existence::Missing => input.create(),
        Existence::Exists { url } => input.manage(url),
    }
}

impl StepInput<'_> {
    fn settled(&self, state: State) -> Step {
        let drift = self.drift();
        Step::Settled(Outcome { state, drift })
    }

    /// Looks for the queue, unless the last outcome still holds.
    fn look(&self) -> Step {
        let settled = self.memory.settled.as_ref().filter(|settled| {
            let is_untouched = !self.observed.created;
            is_untouched && self.now < settled.until && settled.desired == *self.desired
        });
        match (settled, &self.memory.url) {
            (Some(settled), _) => Step::Settled(settled.outcome.clone()),
            (None, Some(url)) => Step::Call(Call::GetAttributes { url: url.clone() }),
            (None, None) => Step::Call(Call::GetUrl),
        }
    }

    fn create(&self) -> Step {
        if let Some(state) = self.dead_letter_problem() {
            return self.settled(State::DeadLetter { state, view: None });
        }
        if self.observed.created {
            return self.settled(State::Propagating);
        }
        // A queue that is created is ours, so it is deleted unless the policy says otherwise.
        let is_deleted_later = self.desired.deletion != Some(DeletionPolicy::Retain);
        if is_deleted_later && !self.object.has_finalizer {
            return Step::AddFinalizer;
        }
        let mut attributes = self.desired.attributes.clone();
        if self.desired.fifo {
            attributes.insert(attribute::FIFO.to_owned(), "true".to_owned());
        }
        let mut tags = self.desired.tags.clone();
        tags.insert(tag::OWNER.to_owned(), self.object.uid.clone());
        Step::Call(Call::Create { attributes, tags })
    }

    /// Returns the next step for a queue that exists.
    fn manage(&self, url: &str) -> Step {
        let url = url.to_owned();
        let Some(attributes) = &self.observed.attributes else {
            return Step::Call(Call::GetAttributes { url });
        };
        let changes = if self.observed.set.is_empty() {
            attributes_to_set(self.desired, attributes, self.memory, self.object.was_ready, self.now)
        } else {
            BTreeMap::new()
        };
        let must_read_tags = !changes.is_empty() || !self.desired.tags.is_empty();
        let claim = match (self.observed.claim(&self.object.uid), self.verified(attributes)) {
            (Some(claim), _) => claim,
            (None, Some(claim)) if !must_read_tags => claim,
            (None, _) => return Step::Call(Call::GetTags { url }),
        };
        let tags = self.observed.tags.as_ref();
        match self.policy(&claim) {
            None => return self.adopt(url, &claim),
            Some(DeletionPolicy::Delete) if !self.object.has_finalizer => return Step::AddFinalizer,
            Some(DeletionPolicy::Retain) if self.object.has_finalizer => {
                return Step::RemoveFinalizer(Removal::Retained);
            }
            Some(_) => {}
        }
        // The AppQueue that created the queue has lost it.
        let creator = tags.and_then(|tags| tags.get(tag::OWNER));
        if claim == Claim::Adopted && creator.is_some_and(|creator| *creator != self.object.uid) {
            let keys = vec![tag::OWNER.to_owned()];
            return Step::Call(Call::Untag { url, keys });
        }
        if !changes.is_empty() {
            let attributes = changes;
            return Step::Call(Call::SetAttributes { url, attributes });
        }
        let tags = tags.map(|tags| tags_to_set(self.desired, tags, self.memory, self.now));
        if let Some(tags) = tags.filter(|tags| !tags.is_empty()) {
            return Step::Call(Call::Tag { url, tags });
        }
        let view = View {
            url,
            arn: attributes.get(attribute::ARN).cloned(),
            depth: attributes.get(attribute::DEPTH).and_then(|depth| depth.parse().ok()),
        };
        match self.dead_letter_problem() {
            Some(state) => self.settled(State::DeadLetter {
                state,
                view: Some(view),
            }),
            None => self.settled(State::Ready(view)),
        }
    }

    /// Returns what an earlier reconcile has read in the tags of this queue.
    fn verified(&self, attributes: &BTreeMap<String, String>) -> Option<Claim> {
        let created = attributes.get(attribute::CREATED)?;
        let verified = self.memory.verified.as_ref()?;
        (verified.created == *created).then(|| verified.claim.clone())
    }

    /// Returns what happens to a queue when the AppQueue is deleted; `None` if the queue is not ours.
    fn policy(&self, claim: &Claim) -> Option<DeletionPolicy> {
        let default = match claim {
            Claim::Created => DeletionPolicy::Delete,
            Claim::Adopted => DeletionPolicy::Retain,
            Claim::Other(_) | Claim::None => return None,
        };
        Some(self.desired.deletion.unwrap_or(default))
    }

    /// Returns the next step for a queue that is not ours.
    fn adopt(&self, url: String, claim: &Claim) -> Step {
        if *claim == Claim::None && self.memory.is_create_propagating(self.now) {
            return self.settled(State::Propagating);
        }
        // A queue is taken over only once, so that two AppQueues do not take it from each other.
        let is_free = match claim {
            Claim::Other(uid) => !self.object.was_seen && !(self.is_live)(uid),
            _ => true,
        };
        if self.desired.adoption != AdoptionPolicy::IfExists || !is_free {
            return self.settled(State::Conflict(match claim {
                Claim::Other(uid) if !is_free => Conflict::Owned { uid: uid.clone() },
                // The AppQueue that it belonged to was deleted: it can be adopted.
                _ => Conflict::NotManaged,
            }));
        }
        if self.desired.deletion == Some(DeletionPolicy::Delete) && !self.object.has_finalizer {
            return Step::AddFinalizer;
        }
        let tags = BTreeMap::from([(tag::ADOPTED_BY.to_owned(), self.object.uid.clone())]);
        Step::Call(Call::Tag { url, tags })
    }

    /// Returns the next step of a deletion.
    fn delete(&self) -> Step {
        if !self.object.has_finalizer {
            return self.settled(State::Deleting);
        }
        let is_retained = self.desired.deletion == Some(DeletionPolicy::Retain);
        if let Some(error) = &self.observed.error {
            let is_lost_for_good = self.object.is_namespace_terminating && matches!(error, CallError::NoCredentials(_));
            return match (is_retained, is_lost_for_good) {
                (true, _) => Step::RemoveFinalizer(Removal::Retained),
                (false, true) => Step::RemoveFinalizer(Removal::Orphaned),
                (false, false) => self.settled(State::Failed(error.clone())),
            };
        }
        let url = match (&self.observed.existence, &self.memory.url) {
            (Existence::Exists { url }, _) | (Existence::Unknown, Some(url)) => url.clone(),
            (Existence::Unknown, None) => return Step::Call(Call::GetUrl),
            (Existence::Missing, _) => {
                if is_retained {
                    return Step::RemoveFinalizer(Removal::Retained);
                }
                // After a create, the queue may still appear. SQS refuses the name of a deleted queue, other servers do not.
                if !self.memory.is_create_propagating(self.now) {
                    return Step::RemoveFinalizer(Removal::Deleted);
                }
                return self.settled(State::Propagating);
            }
        };
        let Some(claim) = self.observed.claim(&self.object.uid) else {
            return Step::Call(Call::GetTags { url });
        };
        match self.policy(&claim) {
            Some(DeletionPolicy::Delete) => Step::Call(Call::Delete { url }),
            Some(DeletionPolicy::Retain) => {
                let tags = self.observed.tags.iter().flatten();
                let ours = tags.filter(|(key, value)| {
                    [tag::OWNER, tag::ADOPTED_BY].contains(&key.as_str()) && **value == self.object.uid
                });
                let keys = ours.map(|(key, _)| key.clone()).collect();
                Step::Call(Call::Untag { url, keys })
            }
            None if is_retained || self.observed.untagged => Step::RemoveFinalizer(Removal::Retained),
            None if claim == Claim::None && self.memory.is_create_propagating(self.now) => {
                self.settled(State::Propagating)
            }
            None => Step::RemoveFinalizer(Removal::NotOurs),
        }
    }

    fn dead_letter_problem(&self) -> Option<DeadLetterState> {
        let state = self.desired.dead_letter.as_ref()?;
        (*state != DeadLetterState::Ready).then(|| state.clone())
    }

    /// Returns what others have changed since the queue was seen, or as desired.
    fn drift(&self) -> Vec<Drift> {
        let observed = self.observed;
        if self.object.is_deleting {
            return Vec::new();
        }
        if observed.vanished && self.object.was_seen {
            return vec![Drift::Deleted];
        }
        // Before that, a difference can be a change of the spec that has not been carried out yet.
        if !self.object.was_ready {
            return Vec::new();
        }
        let attributes = observed.set.iter().map(|(name, wanted)| Drift::Attribute {
            name: name.clone(),
            found: observed.attributes.as_ref().and_then(|found| found.get(name).cloned()),
            wanted: wanted.clone(),
        });
        let tags = observed.tagged.iter().map(|key| Drift::Tag { key: key.clone() });
        attributes.chain(tags).collect()
    }
}

#[cfg(test)]
mod tests;
