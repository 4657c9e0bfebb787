//! The versions at which objects were deleted, as long as an older version may still arrive.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::key::Key;

/// How long a deletion is kept. The answer to a write arrives within seconds, and a watch that lags behind by minutes is closed.
const AGE: Duration = Duration::from_secs(300);

/// The deletions of the last minutes.
#[derive(Debug, Default)]
pub struct Tombstones {
    deleted: HashMap<Key, (u64, Instant)>,
    /// The same by time, with earlier deletions of the same names.
    order: VecDeque<(Instant, Key)>,
}

impl Tombstones {
    /// Records that an object was deleted at a version, and drops old deletions.
    pub fn insert(&mut self, key: Key, version: u64) {
        let now = Instant::now();
        while let Some((at, _)) = self.order.front()
            && now.duration_since(*at) > AGE
            && let Some((at, key)) = self.order.pop_front()
        {
            if self.deleted.get(&key).is_some_and(|(_, last)| *last == at) {
                self.deleted.remove(&key);
            }
        }
        self.order.push_back((now, key.clone()));
        self.deleted.insert(key, (version, now));
    }

    /// Returns the version at which an object was deleted.
    pub fn get(&self, key: &Key) -> Option<u64> {
        self.deleted.get(key).map(|(version, _)| *version)
    }

    /// Drops the deletion of an object that exists again.
    pub fn remove(&mut self, key: &Key) {
        self.deleted.remove(key);
    }

    /// Keeps the deletions for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(&Key, u64) -> bool) {
        self.deleted.retain(|key, (version, _)| keep(key, *version));
        let deleted = &self.deleted;
        self.order
            .retain(|(at, key)| deleted.get(key).is_some_and(|(_, last)| last == at));
    }

    /// Returns all versions.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        self.deleted.values().map(|(version, _)| *version)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn deletions_are_dropped_after_minutes() {
        let mut tombstones = Tombstones::default();
        let key = |n: u64| Key::new("default", &format!("pod-{n}"));
        for n in 0..10_000 {
            tombstones.insert(key(n), n);
            advance(Duration::from_millis(500)).await;
        }
        let kept = tombstones.deleted.len();
        assert!((590..=610).contains(&kept), "{kept}");
        assert_eq!(tombstones.order.len(), kept);
        assert_eq!(
            (tombstones.get(&key(9_999)), tombstones.get(&key(0))),
            (Some(9_999), None)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn second_deletion_replaces_the_first() {
        let mut tombstones = Tombstones::default();
        let (web, other) = (Key::new("default", "web"), Key::new("default", "other"));
        tombstones.insert(web.clone(), 1);
        advance(AGE / 2).await;
        tombstones.insert(web.clone(), 5);
        advance(AGE * 3 / 4).await;
        tombstones.insert(other.clone(), 6);
        assert_eq!(tombstones.get(&web), Some(5));
        tombstones.remove(&web);
        assert_eq!(tombstones.versions().collect::<Vec<_>>(), [6]);
        tombstones.retain(|key, _| *key != other);
        assert_eq!((tombstones.deleted.len(), tombstones.order.len()), (0, 0));
    }
}
