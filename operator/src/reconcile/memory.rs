//! What is kept of each object from one reconcile to the next. A restart loses nothing that matters.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{ChildId, Failure};
use tokio::time::Instant;

use crate::key::Key;

/// The shortest time between two writes of one status. Pods come and go in bursts, and only the last status matters.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long requests may fail before the status reports it. A request that is retried a moment later is not worth a status.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How often a write of a child may be repeated immediately because it was undone. Manual changes never reach this number; a
/// program that undoes each write would cause writes without end.
const REPAIRS: u32 = 30;

/// How long it takes until one more of them is granted.
const REPAIR_INTERVAL: Duration = Duration::from_secs(2);

/// What is kept of all objects of a kind whose status is an `S`.
#[derive(Debug)]
pub struct Memory<S>(Mutex<HashMap<Key, Trace<S>>>);

#[derive(Debug)]
struct Trace<S> {
    uid: Box<str>,
    /// When it was first reconciled.
    met: Instant,
    /// When its status was last written.
    told: Option<Instant>,
    /// The status that was written to an object whose stored status can't be read.
    unreadable: Option<S>,
    /// Since when requests have failed.
    unavailable: Option<Instant>,
    repairs: Repairs,
    /// What was last written to each child, as a hash.
    written: Vec<(ChildId, u64)>,
}

/// The writes that were undone and repeated, for one spec.
#[derive(Debug)]
struct Repairs {
    generation: Option<i64>,
    left: u32,
    /// Since when there are so many left.
    since: Instant,
    /// An Event has reported that none are left.
    told: bool,
}

impl Repairs {
    fn of(generation: Option<i64>) -> Self {
        Self {
            generation,
            left: REPAIRS,
            since: Instant::now(),
            told: false,
        }
    }

    fn take(&mut self) -> Result<(), Fight> {
        while self.left < REPAIRS && self.since.elapsed() >= REPAIR_INTERVAL {
            self.left += 1;
            self.since += REPAIR_INTERVAL;
        }
        match self.left {
            0 => {
                let is_news = !std::mem::replace(&mut self.told, true);
                let wait = REPAIR_INTERVAL.saturating_sub(self.since.elapsed());
                return Err(Fight { wait, is_news });
            }
            REPAIRS => *self = Self::of(self.generation),
            _ => {}
        }
        self.left -= 1;
        Ok(())
    }
}

/// Another writer undoes each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fight {
    /// How long the next write has to wait.
    pub wait: Duration,
    /// Whether no Event has reported it.
    pub is_news: bool,
}

impl<S> Default for Memory<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Clone> Memory<S> {
    /// Creates the record of an object. The record of a namesake with another UID is dropped.
    pub fn meet(&self, key: &Key, uid: &str) {
        let mut all = self.lock();
        if all.get(key).is_none_or(|trace| &*trace.uid != uid) {
            let trace = Trace {
                uid: uid.into(),
                met: Instant::now(),
                told: None,
                unreadable: None,
                unavailable: None,
                repairs: Repairs::of(None),
                written: Vec::new(),
            };
            all.insert(key.clone(), trace);
        }
    }

    /// Drops the record of a deleted object.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Records that the status was written now, and the status itself if it can't be read back.
    pub fn told(&self, key: &Key, unreadable: Option<S>) {
        if let Some(trace) = self.lock().get_mut(key) {
            trace.told = Some(Instant::now());
            trace.unreadable = unreadable;
        }
    }

    /// Whether no status was written for as long as one may be held back.
    pub fn is_due(&self, key: &Key) -> bool {
        let all = self.lock();
        let trace = all.get(key);
        trace.is_some_and(|trace| trace.told.unwrap_or(trace.met).elapsed() >= STATUS_INTERVAL)
    }

    /// Returns how long the next write of the status must wait.
    pub fn holds_back(&self, key: &Key) -> Option<Duration> {
        let told = self.lock().get(key)?.told?;
        STATUS_INTERVAL.checked_sub(told.elapsed())
    }

    /// Remembers that a write of a child has succeeded. `content` is a hash of what was written.
    pub fn wrote(&self, key: &Key, child: ChildId, content: u64) {
        if let Some(trace) = self.lock().get_mut(key) {
            trace.written.retain(|(known, _)| *known != child);
            trace.written.push((child, content));
        }
    }

    /// Whether the last write of a child made it the same, and has succeeded: if it is not so, another writer has undone it.
    pub fn has_written(&self, key: &Key, child: &ChildId, content: u64) -> bool {
        let all = self.lock();
        let trace = all.get(key);
        trace.is_some_and(|trace| trace.written.iter().any(|(id, was)| id == child && *was == content))
    }

    /// Takes one of the rewrites that are left for this generation.
    ///
    /// # Errors
    /// When there were too many for this generation of its spec.
    pub fn take_repair(&self, key: &Key, generation: Option<i64>) -> Result<(), Fight> {
        let mut all = self.lock();
        let Some(trace) = all.get_mut(key) else { return Ok(()) };
        if trace.repairs.generation != generation {
            trace.repairs = Repairs::of(generation);
        }
        trace.repairs.take()
    }

    /// Returns what was written as the status of an object that can't be read.
    pub fn of_unreadable(&self, key: &Key) -> Option<S> {
        self.lock().get(key)?.unreadable.clone()
    }

    /// Whether only requests failed, and not for long.
    pub fn may_pass(&self, key: &Key, failures: &[Failure]) -> bool {
        let is_the_server = |failure: &Failure| matches!(failure, Failure::Unavailable { .. });
        let unavailable = !failures.is_empty() && failures.iter().all(is_the_server);
        self.lock().get_mut(key).is_some_and(|trace| {
            if !unavailable {
                trace.unavailable = None;
                return false;
            }
            trace.unavailable.get_or_insert_with(Instant::now).elapsed() < PATIENCE
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Trace<S>>> {
        // Nothing that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use model::children::{INGRESS, SERVICE};
    use tokio::time::advance;

    use super::*;

    fn key() -> Key {
        Key::new("default", "web")
    }

    fn no_answer() -> [Failure; 1] {
        [Failure::Unavailable {
            what: "create Service web".into(),
            why: "no answer".into(),
        }]
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_is_held_back_for_a_second() {
        let memory = Memory::<()>::default();
        memory.meet(&key(), "u1");
        assert_eq!(memory.holds_back(&key()), None);
        memory.told(&key(), None);
        advance(Duration::from_millis(300)).await;
        memory.meet(&key(), "u1");
        assert_eq!(memory.holds_back(&key()), Some(Duration::from_millis(700)));
        advance(Duration::from_secs(1)).await;
        assert_eq!(memory.holds_back(&key()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_is_told_of_when_it_goes_on() {
        let memory = Memory::<()>::default();
        memory.meet(&key(), "u1");
        assert!(memory.may_pass(&key(), &no_answer()));
        advance(PATIENCE).await;
        assert!(!memory.may_pass(&key(), &no_answer()));
        assert!(!memory.may_pass(&key(), &[]));
        assert!(memory.may_pass(&key(), &no_answer()), "it begins anew");
        let forbidden = Failure::Forbidden(String::new());
        assert!(!memory.may_pass(&key(), &[no_answer().into(), vec![forbidden]].concat()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_undoes_each_write_is_answered_now_and_then() {
        let memory = Memory::<()>::default();
        memory.meet(&key(), "u1");
        let take = |generation| memory.take_repair(&key(), Some(generation));
        for _ in 0..REPAIRS {
            assert_eq!(take(1), Ok(()));
        }
        let fight = |wait, is_news| Err(Fight { wait, is_news });
        assert_eq!(take(1), fight(REPAIR_INTERVAL, true));
        advance(Duration::from_millis(500)).await;
        assert_eq!(take(1), fight(Duration::from_millis(1500), false));
        advance(Duration::from_millis(1500)).await;
        assert_eq!((take(1), take(1)), (Ok(()), fight(REPAIR_INTERVAL, false)));
        assert_eq!(take(2), Ok(()), "another spec is another matter");
        advance(REPAIR_INTERVAL * REPAIRS).await;
        for _ in 0..REPAIRS {
            assert_eq!(take(2), Ok(()), "it was over");
        }
        assert_eq!(take(2), fight(REPAIR_INTERVAL, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_repeated_if_the_last_one_was_the_same() {
        let memory = Memory::<()>::default();
        memory.meet(&key(), "u1");
        let [service, ingress] = [&SERVICE, &INGRESS].map(|kind| ChildId::new(kind, "web"));
        let is_repeated = |content| memory.has_written(&key(), &service, content);
        assert!(!is_repeated(1), "nothing was written");
        memory.wrote(&key(), service.clone(), 1);
        memory.wrote(&key(), ingress, 2);
        assert!(is_repeated(1) && !is_repeated(2));
        memory.wrote(&key(), service.clone(), 3);
        assert!(!is_repeated(1) && is_repeated(3));
        memory.meet(&key(), "u2");
        assert!(!is_repeated(3), "it is another object");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_was_made_anew_starts_afresh() {
        let memory = Memory::default();
        memory.meet(&key(), "u1");
        memory.told(&key(), Some("unreadable"));
        assert!(memory.may_pass(&key(), &no_answer()));
        assert_eq!(memory.of_unreadable(&key()), Some("unreadable"));
        advance(PATIENCE).await;
        memory.told(&key(), Some("unreadable"));
        memory.meet(&key(), "u2");
        assert_eq!((memory.holds_back(&key()), memory.of_unreadable(&key())), (None, None));
        assert!(memory.may_pass(&key(), &no_answer()));
    }
}
