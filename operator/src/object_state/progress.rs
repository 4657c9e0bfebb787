//! The progress of a PodSet from one step to the next. What a restart loses is found again.

use std::collections::BTreeMap;
use std::time::Duration;

use model::podset::{self, NameHolder, ProgressCounts};
use tokio::time::Instant;

use super::retry::BACKOFF;

/// For how long steps follow each other before the status reports them: what takes less time is reported once, when it is done.
const SILENCE: Duration = Duration::from_secs(1);

/// The progress of one PodSet.
#[derive(Debug)]
pub struct Progress {
    /// When the first step was made since the set was last settled.
    began: Option<Instant>,
    /// How many pods may be created in the next step.
    pace: usize,
    /// Slots whose names were found taken.
    taken: BTreeMap<u16, TakenName>,
    /// Pods that ended early, if any did.
    early: Option<EarlyEnds>,
    /// How far the set was, and since when, in seconds since 1970.
    marks: Option<(ProgressCounts, i64)>,
    /// The fields that the API server has not stored when it created the last pod, and the hash of its template.
    dropped: Option<(Box<str>, Vec<String>)>,
}

/// Pods that ended soon after they were created.
#[derive(Debug)]
struct EarlyEnds {
    /// The hash of the template that they were created from. They say nothing about another template.
    template: Box<str>,
    /// How often in a row.
    times: u32,
    /// When the last ones were deleted.
    last: Instant,
}

/// The history of a PodSet that its next step depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// How many pods may be created in the next step.
    pub pace: usize,
    /// Slots whose names were found taken.
    pub taken: BTreeMap<u16, NameHolder>,
    /// How often in a row pods have ended early.
    pub early_ends: u32,
    /// The fields that the API server has not stored when it created the last pod, if one was created.
    pub dropped: Option<Vec<String>>,
}

/// A name that was found taken. It is not tried for a while, longer each time that it is found taken again: no watch may show the
/// pod that has it, so no event reports its deletion.
#[derive(Debug)]
struct TakenName {
    by: NameHolder,
    until: Instant,
    /// How often it was found taken.
    times: u32,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            began: None,
            pace: 1,
            taken: BTreeMap::new(),
            early: None,
            marks: None,
            dropped: None,
        }
    }
}

impl Progress {
    /// Returns the history for the next step. Pods of other templates are ignored.
    pub fn memory(&mut self, template: &str) -> Memory {
        let now = Instant::now();
        self.taken.retain(|_, name| now < name.until + BACKOFF.longest());
        let current = self.taken.iter().filter(|(_, name)| now < name.until);
        Memory {
            pace: self.pace,
            taken: current.map(|(slot, name)| (*slot, name.by.clone())).collect(),
            early_ends: self.early_ends(template),
            dropped: self.dropped_of(template).map(<[String]>::to_vec),
        }
    }

    /// Records the fields that the API server has not stored when it created a pod. Returns whether they were not known.
    pub fn created(&mut self, template: &str, dropped: Vec<String>) -> bool {
        let is_news = self.dropped_of(template) != Some(&dropped);
        self.dropped = Some((template.into(), dropped));
        is_news
    }

    fn dropped_of(&self, template: &str) -> Option<&[String]> {
        let (of, dropped) = self.dropped.as_ref()?;
        (&**of == template).then_some(dropped)
    }

    /// Returns since when the set has been as far as it is now: a time in seconds since 1970.
    pub fn progressed_at(&mut self, marks: ProgressCounts, now: i64) -> i64 {
        match self.marks {
            Some((before, since)) if before == marks => since,
            _ => {
                self.marks = Some((marks, now));
                now
            }
        }
    }

    /// Counts pods of these ages in seconds that had ended and were deleted.
    pub fn ended(&mut self, template: &str, ages: impl Iterator<Item = i64>) {
        let before = self.early_ends(template);
        let times = podset::early_ends(before, ages);
        if times > before {
            self.early = Some(EarlyEnds {
                template: template.into(),
                times,
                last: Instant::now(),
            });
        } else if times == 0 {
            self.early = None;
        }
    }

    /// Returns how long it takes from a time on until a name that was found taken is tried again.
    #[must_use]
    pub fn tries_again_in(&self, from: Instant) -> Option<Duration> {
        let times = self.taken.values().map(|name| name.until);
        times.filter(|until| from < *until).map(|until| until - from).min()
    }

    /// Records the result of a step.
    pub fn stepped(&mut self, done: bool, taken: BTreeMap<u16, NameHolder>) {
        self.began.get_or_insert_with(Instant::now);
        self.pace = if done { self.pace.saturating_mul(2) } else { 1 };
        for (slot, by) in taken {
            let times = self.taken.get(&slot).map_or(1, |name| name.times.saturating_add(1));
            let until = Instant::now() + BACKOFF.jittered(times);
            self.taken.insert(slot, TakenName { by, until, times });
        }
    }

    /// Records that no step was left.
    pub const fn settled(&mut self) {
        self.pace = 1;
        self.began = None;
    }

    /// Whether steps have followed each other for so long that the status reports them.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.began.is_some_and(|began| began.elapsed() >= SILENCE)
    }

    fn early_ends(&self, template: &str) -> u32 {
        let period = Duration::from_secs(podset::EARLY.unsigned_abs());
        let early = self.early.as_ref();
        let counts = early.filter(|early| &*early.template == template && early.last.elapsed() <= period);
        counts.map_or(0, |early| early.times)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pace_doubles_until_a_step_fails() {
        let mut progress = Progress::default();
        let mut paces = Vec::new();
        for done in [true, true, true, false, true] {
            paces.push(progress.memory("t").pace);
            progress.stepped(done, BTreeMap::new());
        }
        assert_eq!(paces, [1, 2, 4, 8, 1]);
        progress.settled();
        assert_eq!(progress.memory("t").pace, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn steps_that_continue_for_a_second_are_reported() {
        let mut progress = Progress::default();
        let mut is_long = Vec::new();
        for _ in 0..3 {
            progress.stepped(true, BTreeMap::new());
            is_long.push(progress.is_long());
            advance(Duration::from_millis(600)).await;
        }
        progress.settled();
        is_long.push(progress.is_long());
        assert_eq!(is_long, [false, false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn name_that_is_found_taken_again_is_tried_later_each_time() {
        let mut progress = Progress::default();
        let mut waits = Vec::new();
        for _ in 0..10 {
            let began = Instant::now();
            progress.stepped(true, [(3, NameHolder::Released)].into());
            assert_eq!(progress.memory("t").taken, [(3, NameHolder::Released)].into());
            let wait = progress.tries_again_in(Instant::now()).unwrap();
            advance(wait).await;
            assert_eq!(progress.memory("t").taken, BTreeMap::new());
            assert_eq!(progress.tries_again_in(Instant::now()), None);
            // A reconcile that found the name taken is repeated, even if it ends when the name is free.
            assert_eq!(progress.tries_again_in(began), Some(wait));
            waits.push(wait);
        }
        assert!(waits[0] <= BACKOFF.delay(1), "{waits:?}");
        assert!(waits[4] >= Duration::from_secs(3), "{waits:?}");
        assert!(waits[9] <= BACKOFF.longest(), "{waits:?}");
        advance(BACKOFF.longest()).await;
        progress.memory("t");
        progress.stepped(true, [(3, NameHolder::Released)].into());
        let wait = progress.tries_again_in(Instant::now()).unwrap();
        assert!(wait <= BACKOFF.delay(1), "it begins with the first delay: {wait:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn early_ends_count_for_one_template_and_a_limited_time() {
        let mut progress = Progress::default();
        assert_eq!(progress.early_ends("t"), 0);
        let long = podset::EARLY;
        for (ages, expected) in [
            (vec![5], 1),
            (vec![], 1),
            (vec![10, long], 2),
            (vec![long], 0),
            (vec![5], 1),
        ] {
            progress.ended("t", ages.into_iter());
            assert_eq!(progress.memory("t").early_ends, expected);
        }
        assert_eq!(progress.early_ends("another"), 0);
        advance(Duration::from_secs(long.unsigned_abs()) + Duration::from_secs(1)).await;
        assert_eq!(progress.early_ends("t"), 0);
    }
}
