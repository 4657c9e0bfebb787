//! What is kept of a queue between reconciles.

use std::collections::BTreeMap;

use crd::AppQueueStatus;

use super::{Claim, Desired, Outcome, PROPAGATION, Retry};

/// What a controller keeps between reconciles of the AppQueue with one UID. After a restart it is empty, which costs two more
/// reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// The URL of the queue.
    pub url: Option<String>,
    /// The queue whose tags were read and named this AppQueue.
    pub verified: Option<Verified>,
    /// When `CreateQueue` last succeeded.
    pub created_at: Option<i64>,
    /// The last `CreateQueue` whose response was lost. The queue may appear later.
    pub lost_create: Option<LostCreate>,
    /// The own writes, by the name of the attribute, or `tag` and the key.
    pub written: BTreeMap<String, Written>,
    /// The last outcome.
    pub(super) settled: Option<Settled>,
}

/// A `CreateQueue` whose response was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LostCreate {
    /// When it was sent.
    pub at: i64,
    /// Whether no other one may still be carried out.
    pub is_only: bool,
}

/// A queue that is known to be ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Verified {
    /// Its `CreatedTimestamp`. A queue with the same name and another one is another queue.
    pub created: String,
    /// Why it is ours.
    pub claim: Claim,
}

/// A value that was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Written {
    /// The value.
    pub value: String,
    /// When it was written.
    pub at: i64,
}

/// An outcome, and until when it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Settled {
    pub until: i64,
    pub desired: Desired,
    pub outcome: Outcome,
}

impl Memory {
    /// Returns what is known of a queue after a restart: the URL in the status.
    #[must_use]
    pub fn of_status(status: Option<&AppQueueStatus>) -> Self {
        Self {
            url: status.and_then(|status| status.url.clone()),
            ..Self::default()
        }
    }

    /// Stores the outcome of a reconcile. Until the queue is checked again, a reconcile of the same spec makes no call.
    /// `resync` is the time between two checks in seconds.
    pub fn settle(&mut self, desired: &Desired, outcome: &Outcome, resync: i64, now: i64) {
        let holds_for = match outcome.retry() {
            Retry::Resync => Some(resync),
            Retry::After(seconds) => Some(seconds),
            Retry::Backoff => None,
        };
        self.settled = holds_for.map(|seconds| Settled {
            until: now + seconds,
            desired: desired.clone(),
            outcome: Outcome {
                drift: Vec::new(),
                ..outcome.clone()
            },
        });
    }

    /// Forgets the last outcome, so that the next reconcile checks the queue.
    pub fn expire(&mut self) {
        self.settled = None;
    }

    /// Returns in how many seconds the queue must be checked again.
    #[must_use]
    pub fn expires_in(&self, now: i64) -> Option<i64> {
        self.settled.as_ref().map(|settled| (settled.until - now).max(0))
    }

    /// Forgets the queue, because it does not exist.
    pub(super) fn forget_queue(&mut self) {
        self.url = None;
        self.verified = None;
        self.written.clear();
    }

    /// Records that the response to `CreateQueue` is lost.
    pub fn lose_create(&mut self, now: i64) {
        let is_only = !is_recent(self.lost_create.map(|lost| lost.at), now);
        self.lost_create = Some(LostCreate { at: now, is_only });
    }

    /// Records that a queue exists that this AppQueue has created: the lost create was carried out, unless another create
    /// can be the one.
    pub(super) fn find_created(&mut self) {
        let created_at = self.created_at;
        let is_found = |lost: &LostCreate| lost.is_only && created_at.is_none_or(|at| at < lost.at);
        self.lost_create = self.lost_create.filter(|lost| !is_found(lost));
    }

    /// Whether a create may not be visible yet.
    pub(super) fn is_create_propagating(&self, now: i64) -> bool {
        is_recent(self.created_at, now) || is_recent(self.lost_create.map(|lost| lost.at), now)
    }

    /// Whether this value was written less than `seconds` ago.
    pub(super) fn is_propagating(&self, key: &str, value: &str, seconds: i64, now: i64) -> bool {
        let written = self.written.get(key);
        written.is_some_and(|written| written.value == value && now < written.at + seconds)
    }

    /// Whether this value was written last.
    pub(super) fn has_written(&self, key: &str, value: &str) -> bool {
        self.written.get(key).is_some_and(|written| written.value == value)
    }
}

/// Whether a change at that time may not be visible yet.
fn is_recent(at: Option<i64>, now: i64) -> bool {
    at.is_some_and(|at| now < at + PROPAGATION)
}
