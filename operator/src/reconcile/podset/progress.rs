//! What is remembered of each PodSet from one step to the next. What is lost with it is found out again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::backoff;
use model::podset::Taken;
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
    /// Returns how many pods may be created in the next step, and which names are taken. What was remembered of a
    /// namesake with another UID is forgotten.
    pub fn of(&self, key: &Key, uid: &str) -> (usize, BTreeMap<u16, Taken>) {
        let mut all = self.lock();
        let trace = all.entry(key.clone()).or_insert_with(|| Trace::new(uid));
        if &*trace.uid != uid {
            *trace = Trace::new(uid);
        }
        let now = Instant::now();
        trace.taken.retain(|_, belief| now < belief.until + backoff::MAX);
        let believed = trace.taken.iter().filter(|(_, belief)| now < belief.until);
        (
            trace.pace,
            believed.map(|(slot, belief)| (*slot, belief.by.clone())).collect(),
        )
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
        }
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
            paces.push(progress.of(&key(), "u1").0);
            progress.stepped(&key(), done, BTreeMap::new());
        }
        assert_eq!(paces, [1, 2, 4, 8, 1]);
        progress.rested(&key());
        assert_eq!(progress.of(&key(), "u1").0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_told_of_when_it_goes_on() {
        let progress = Progress::default();
        progress.of(&key(), "u1");
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
        progress.of(&key(), "u1");
        let mut waits = Vec::new();
        for _ in 0..10 {
            let began = Instant::now();
            progress.stepped(&key(), true, [(3, Taken::Released)].into());
            assert_eq!(progress.of(&key(), "u1").1, [(3, Taken::Released)].into());
            let wait = progress.tries_again_in(&key(), Instant::now()).unwrap();
            advance(wait).await;
            assert_eq!(progress.of(&key(), "u1").1, BTreeMap::new());
            assert_eq!(progress.tries_again_in(&key(), Instant::now()), None);
            // A look that saw the name taken has to come back, even if it ends when it is no longer.
            assert_eq!(progress.tries_again_in(&key(), began), Some(wait));
            waits.push(wait);
        }
        assert!(waits[0] <= Duration::from_millis(250), "{waits:?}");
        assert!(waits[4] >= Duration::from_secs(3), "{waits:?}");
        assert!(waits[9] <= backoff::MAX, "{waits:?}");
        advance(backoff::MAX).await;
        progress.of(&key(), "u1");
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
        progress.of(&key(), "u1");
        progress.stepped(&key(), true, [(0, Taken::Ending)].into());
        assert_eq!(progress.of(&key(), "u2"), (1, BTreeMap::new()));
    }
}
