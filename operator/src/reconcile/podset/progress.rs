//! What is remembered of each PodSet from one step to the next. What is lost with it is found out again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::backoff;
use model::podset::{self, Marks, Taken};
use tokio::time::Instant;

use crate::key::Key;

/// For how long work goes on before it is told of: what is done sooner is told of once, when it is done.
const SILENCE: Duration = Duration::from_secs(1);

/// The progress of all PodSets.
#[derive(Debug, Default)]
pub struct Progress(Mutex<HashMap<Key, Trace>>);

#[derive(Debug)]
struct Trace {
    uid: Box<str>,
    /// When the first step was made since there was last nothing to do.
    began: Option<Instant>,
    /// How many pods may be created in the next step.
    pace: usize,
    /// Names that were found taken.
    taken: BTreeMap<u16, Belief>,
    /// Pods that ended early, if any did.
    early: Option<Early>,
    /// How far the set was, and since when, in seconds since 1970.
    marks: Option<(Marks, i64)>,
}

/// That pods have ended soon after they were created.
#[derive(Debug)]
struct Early {
    /// The hash of the template that they were created from. Another one is another chance.
    template: Box<str>,
    /// How often in a row.
    times: u32,
    /// When the last ones were deleted.
    last: Instant,
}

/// What is remembered of one PodSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// How many pods may be created in the next step.
    pub pace: usize,
    /// Names that were found taken.
    pub taken: BTreeMap<u16, Taken>,
    /// How often in a row pods have ended early.
    pub early_ends: u32,
}

/// That a name is taken is believed for a while, longer each time that it is found again: the pod that has it may be
/// one that no watch shows, so nobody will tell when it goes.
#[derive(Debug)]
struct Belief {
    by: Taken,
    until: Instant,
    /// How often it was found.
    times: u32,
}

impl Progress {
    /// Returns what is remembered of a PodSet. What was remembered of a namesake with another UID is forgotten, and what
    /// became of pods of another template does not count.
    pub fn of(&self, key: &Key, uid: &str, template: &str) -> Memory {
        let mut all = self.lock();
        let trace = all.entry(key.clone()).or_insert_with(|| Trace::new(uid));
        if &*trace.uid != uid {
            *trace = Trace::new(uid);
        }
        let now = Instant::now();
        trace.taken.retain(|_, belief| now < belief.until + backoff::MAX);
        let believed = trace.taken.iter().filter(|(_, belief)| now < belief.until);
        Memory {
            pace: trace.pace,
            taken: believed.map(|(slot, belief)| (*slot, belief.by.clone())).collect(),
            early_ends: trace.early_ends(template),
        }
    }

    /// Returns since when a set has been as far as it is now: a time in seconds since 1970.
    pub fn progressed_at(&self, key: &Key, marks: Marks, now: i64) -> i64 {
        let mut all = self.lock();
        let Some(trace) = all.get_mut(key) else { return now };
        match trace.marks {
            Some((before, since)) if before == marks => since,
            _ => {
                trace.marks = Some((marks, now));
                now
            }
        }
    }

    /// Counts that pods of these ages in seconds had ended and were deleted.
    pub fn ended(&self, key: &Key, template: &str, ages: impl Iterator<Item = i64>) {
        if let Some(trace) = self.lock().get_mut(key) {
            let before = trace.early_ends(template);
            let times = podset::early_ends(before, ages);
            if times > before {
                trace.early = Some(Early {
                    template: template.into(),
                    times,
                    last: Instant::now(),
                });
            } else if times == 0 {
                trace.early = None;
            }
        }
    }

    /// Returns how long it takes from a time on until a name that was found taken is to be tried again.
    pub fn tries_again_in(&self, key: &Key, from: Instant) -> Option<Duration> {
        let all = self.lock();
        let times = all.get(key)?.taken.values().map(|belief| belief.until);
        times.filter(|until| from < *until).map(|until| until - from).min()
    }

    /// Takes in what became of a step.
    pub fn stepped(&self, key: &Key, done: bool, taken: BTreeMap<u16, Taken>) {
        if let Some(trace) = self.lock().get_mut(key) {
            trace.began.get_or_insert_with(Instant::now);
            trace.pace = if done { trace.pace.saturating_mul(2) } else { 1 };
            for (slot, by) in taken {
                let times = trace
                    .taken
                    .get(&slot)
                    .map_or(1, |belief| belief.times.saturating_add(1));
                let until = Instant::now() + backoff::delay(times, fastrand::f64());
                trace.taken.insert(slot, Belief { by, until, times });
            }
        }
    }

    /// Takes in that there was nothing to do.
    pub fn rested(&self, key: &Key) {
        if let Some(trace) = self.lock().get_mut(key) {
            trace.pace = 1;
            trace.began = None;
        }
    }

    /// Whether step has followed step for so long that it is time to tell of them.
    pub fn has_gone_on(&self, key: &Key) -> bool {
        let all = self.lock();
        let began = all.get(key).and_then(|trace| trace.began);
        began.is_some_and(|began| began.elapsed() >= SILENCE)
    }

    /// Forgets a PodSet that is gone.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Trace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trace {
    fn new(uid: &str) -> Self {
        Self {
            uid: uid.into(),
            began: None,
            pace: 1,
            taken: BTreeMap::new(),
            early: None,
            marks: None,
        }
    }

    fn early_ends(&self, template: &str) -> u32 {
        let long_ago = Duration::from_secs(podset::EARLY.unsigned_abs());
        let early = self.early.as_ref();
        let counts = early.filter(|early| &*early.template == template && early.last.elapsed() <= long_ago);
        counts.map_or(0, |early| early.times)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn key() -> Key {
        Key::new("default", "web")
    }

    #[tokio::test(start_paused = true)]
    async fn the_pace_doubles_until_something_fails() {
        let progress = Progress::default();
        let mut paces = Vec::new();
        for done in [true, true, true, false, true] {
            paces.push(progress.of(&key(), "u1", "t").pace);
            progress.stepped(&key(), done, BTreeMap::new());
        }
        assert_eq!(paces, [1, 2, 4, 8, 1]);
        progress.rested(&key());
        assert_eq!(progress.of(&key(), "u1", "t").pace, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_told_of_when_it_goes_on() {
        let progress = Progress::default();
        progress.of(&key(), "u1", "t");
        let mut told = Vec::new();
        for _ in 0..3 {
            progress.stepped(&key(), true, BTreeMap::new());
            told.push(progress.has_gone_on(&key()));
            advance(Duration::from_millis(600)).await;
        }
        progress.rested(&key());
        told.push(progress.has_gone_on(&key()));
        assert_eq!(told, [false, false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_believed_to_be_taken_for_longer_each_time() {
        let progress = Progress::default();
        progress.of(&key(), "u1", "t");
        let mut waits = Vec::new();
        for _ in 0..10 {
            let began = Instant::now();
            progress.stepped(&key(), true, [(3, Taken::Released)].into());
            assert_eq!(progress.of(&key(), "u1", "t").taken, [(3, Taken::Released)].into());
            let wait = progress.tries_again_in(&key(), Instant::now()).unwrap();
            advance(wait).await;
            assert_eq!(progress.of(&key(), "u1", "t").taken, BTreeMap::new());
            assert_eq!(progress.tries_again_in(&key(), Instant::now()), None);
            // A look that saw the name taken has to come back, even if it ends when it is no longer.
            assert_eq!(progress.tries_again_in(&key(), began), Some(wait));
            waits.push(wait);
        }
        assert!(waits[0] <= Duration::from_millis(250), "{waits:?}");
        assert!(waits[4] >= Duration::from_secs(3), "{waits:?}");
        assert!(waits[9] <= backoff::MAX, "{waits:?}");
        advance(backoff::MAX).await;
        progress.of(&key(), "u1", "t");
        progress.stepped(&key(), true, [(3, Taken::Released)].into());
        assert!(
            progress.tries_again_in(&key(), Instant::now()).unwrap() <= Duration::from_millis(250),
            "it begins anew"
        );
    }

    /// Row 2: what was expected of a set is of no use to another one of the same name.
    #[tokio::test(start_paused = true)]
    async fn a_set_that_was_made_anew_starts_afresh() {
        let progress = Progress::default();
        progress.of(&key(), "u1", "t");
        progress.stepped(&key(), true, [(0, Taken::Ending)].into());
        progress.ended(&key(), "t", [1].into_iter());
        let fresh = Memory {
            pace: 1,
            ..Memory::default()
        };
        assert_eq!(progress.of(&key(), "u2", "t"), fresh);
    }

    #[tokio::test(start_paused = true)]
    async fn early_ends_are_remembered_for_one_template_and_a_while() {
        let progress = Progress::default();
        let early_ends = |template| progress.of(&key(), "u1", template).early_ends;
        assert_eq!(early_ends("t"), 0);
        let long = podset::EARLY;
        for (ages, expected) in [
            (vec![5], 1),
            (vec![], 1),
            (vec![10, long], 2),
            (vec![long], 0),
            (vec![5], 1),
        ] {
            progress.ended(&key(), "t", ages.into_iter());
            assert_eq!(early_ends("t"), expected);
        }
        assert_eq!(early_ends("another"), 0);
        advance(Duration::from_secs(long.unsigned_abs()) + Duration::from_secs(1)).await;
        assert_eq!(early_ends("t"), 0);
    }
}
