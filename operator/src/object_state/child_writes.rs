//! Writes of children, and how often they may be repeated after another writer has undone them.

use std::time::Duration;

use model::ChildId;
use model::children::DroppedFields;
use tokio::time::Instant;

/// How often a write of a child may be repeated immediately because it was undone. Manual changes never reach this number; a
/// program that undoes each write would cause writes without end.
const REPAIRS: u32 = 30;

/// How long it takes until one more of them is granted.
const REPAIR_INTERVAL: Duration = Duration::from_secs(2);

/// The last writes of an object's children.
#[derive(Debug, Default)]
pub struct ChildWrites {
    repairs: Option<Repairs>,
    /// What was last written to each child, as a hash.
    written: Vec<(ChildId, u64)>,
    /// What the API server has not stored of them. A restart of the operator costs one more write of such a child.
    dropped: Vec<DroppedFields>,
}

/// The writes that were undone and repeated, for one generation of the object.
#[derive(Debug)]
struct Repairs {
    generation: Option<i64>,
    left: u32,
    /// Since when so many are left.
    since: Instant,
    /// Whether an Event has reported that none are left.
    is_reported: bool,
}

/// Another writer undoes each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fight {
    /// How long the next write must wait.
    pub wait: Duration,
    /// Whether no Event has reported it.
    pub is_news: bool,
}

impl ChildWrites {
    /// Records that a write of a child has succeeded. `content` is a hash of what was written.
    pub fn written(&mut self, child: ChildId, content: u64) {
        self.written.retain(|(known, _)| *known != child);
        self.written.push((child, content));
    }

    /// Records which fields of a child the API server has not stored. Returns whether that is news.
    pub fn set_dropped(&mut self, dropped: DroppedFields) -> bool {
        let known = self.dropped.iter().position(|known| known.id == dropped.id);
        let known = known.map(|at| self.dropped.swap_remove(at));
        let is_news = !dropped.paths.is_empty() && known.is_none_or(|known| known.paths != dropped.paths);
        if !dropped.paths.is_empty() {
            self.dropped.push(dropped);
        }
        is_news
    }

    /// Returns the fields of children that the API server has not stored.
    #[must_use]
    pub fn dropped(&self) -> &[DroppedFields] {
        &self.dropped
    }

    /// Whether the last write of a child was the same and has succeeded: if it is needed again, another writer has undone it.
    #[must_use]
    pub fn is_repeated(&self, child: &ChildId, content: u64) -> bool {
        self.written.iter().any(|(id, was)| id == child && *was == content)
    }

    /// Takes one of the repeated writes that are left for this generation.
    ///
    /// # Errors
    /// Returns how long to wait if there were too many for this generation.
    pub fn take_repair(&mut self, generation: Option<i64>) -> Result<(), Fight> {
        let known = self.repairs.take().filter(|repairs| repairs.generation == generation);
        self.repairs
            .insert(known.unwrap_or_else(|| Repairs::new(generation)))
            .take()
    }
}

impl Repairs {
    fn new(generation: Option<i64>) -> Self {
        Self {
            generation,
            left: REPAIRS,
            since: Instant::now(),
            is_reported: false,
        }
    }

    fn take(&mut self) -> Result<(), Fight> {
        while self.left < REPAIRS && self.since.elapsed() >= REPAIR_INTERVAL {
            self.left += 1;
            self.since += REPAIR_INTERVAL;
        }
        match self.left {
            0 => {
                let is_news = !std::mem::replace(&mut self.is_reported, true);
                let wait = REPAIR_INTERVAL.saturating_sub(self.since.elapsed());
                return Err(Fight { wait, is_news });
            }
            REPAIRS => *self = Self::new(self.generation),
            _ => {}
        }
        self.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::children::{INGRESS, SERVICE};
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_that_are_always_undone_are_repeated_at_intervals() {
        let mut writes = ChildWrites::default();
        let mut take = |generation| writes.take_repair(Some(generation));
        for _ in 0..REPAIRS {
            assert_eq!(take(1), Ok(()));
        }
        let fight = |wait, is_news| Err(Fight { wait, is_news });
        assert_eq!(take(1), fight(REPAIR_INTERVAL, true));
        advance(Duration::from_millis(500)).await;
        assert_eq!(take(1), fight(Duration::from_millis(1500), false));
        advance(Duration::from_millis(1500)).await;
        assert_eq!((take(1), take(1)), (Ok(()), fight(REPAIR_INTERVAL, false)));
        assert_eq!(take(2), Ok(()), "another generation");
        advance(REPAIR_INTERVAL * REPAIRS).await;
        for _ in 0..REPAIRS {
            assert_eq!(take(2), Ok(()), "the fight was over");
        }
        assert_eq!(take(2), fight(REPAIR_INTERVAL, true));
    }

    #[test]
    fn write_is_repeated_if_the_last_one_was_the_same() {
        let mut writes = ChildWrites::default();
        let [service, ingress] = [&SERVICE, &INGRESS].map(|kind| ChildId::new(kind, "web"));
        assert!(!writes.is_repeated(&service, 1), "nothing was written");
        writes.written(service.clone(), 1);
        writes.written(ingress, 2);
        assert!(writes.is_repeated(&service, 1) && !writes.is_repeated(&service, 2));
        writes.written(service.clone(), 3);
        assert!(!writes.is_repeated(&service, 1) && writes.is_repeated(&service, 3));
    }
}
