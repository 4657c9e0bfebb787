//! The work queue: which objects of a kind are reconciled, in which order, and not before which time.
//!
//! First in, first out, within each [`Priority`]. A key is queued once, and is never taken twice concurrently; if it is added while
//! it is taken, it is queued again when that is done, unless only its own writes were reported. kube's own scheduler picks in no
//! particular order, has one backoff for all objects, and no bound (docs/adr/0002).

mod meter;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::liveness::Liveness;

pub use meter::{Meter, Work, times};

/// How soon a key is taken. A lower priority yields to higher ones, but is never starved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A list was read, at the start or after the resync period.
    Resync,
    /// Something that concerns the object has changed, such as a child. When a node fails, that is true of many objects.
    Related,
    /// The object itself has changed, and its author waits.
    Object,
}

/// Why a key is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// How soon it is to be taken.
    pub priority: Priority,
    /// The version of the object that was reported; `None` if it was something else than a new version.
    pub version: Option<u64>,
}

impl From<Priority> for Reason {
    fn from(priority: Priority) -> Self {
        Self {
            priority,
            version: None,
        }
    }
}

/// One of so many keys is taken with each of the lower priorities first.
const SHARE: u32 = 8;

/// A queue of keys.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
    end: Notify,
    meter: Meter,
    liveness: Liveness,
}

#[derive(Debug)]
struct State<K> {
    objects: VecDeque<K>,
    related: VecDeque<K>,
    resyncs: VecDeque<K>,
    /// In one of these three.
    queued: HashMap<K, Waiting>,
    /// Taken and not done.
    running: HashMap<K, Running>,
    /// To be added later, by time; the number distinguishes those of the same time.
    later: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    count: u64,
    taken: u32,
    /// Waiting counts from this time.
    opened: Instant,
    closed: bool,
}

/// A key that waits to be taken.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    priority: Priority,
    since: Instant,
}

/// A key that is taken.
#[derive(Debug)]
struct Running {
    since: Instant,
    /// The versions that its own writes have made.
    written: Vec<u64>,
    /// It was added since.
    again: Option<Again>,
}

/// A key that was added while it was taken.
#[derive(Debug)]
struct Again {
    waiting: Waiting,
    /// The versions that were reported, if it was added for no other reason.
    reported: Option<Vec<u64>>,
}

/// How many reported versions are kept of a key. A reconcile writes fewer objects.
const MAX_REPORTED: usize = 16;

impl Running {
    fn since(since: Instant) -> Self {
        Self {
            since,
            written: Vec::new(),
            again: None,
        }
    }

    /// Returns whether it was not added before.
    fn add(&mut self, Reason { priority, version }: Reason, now: Instant) -> bool {
        let is_new = self.again.is_none();
        let again = self.again.get_or_insert_with(|| Again {
            waiting: Waiting { priority, since: now },
            reported: Some(Vec::new()),
        });
        again.waiting.priority = again.waiting.priority.max(priority);
        match (version, &mut again.reported) {
            (Some(version), Some(reported)) if reported.len() < MAX_REPORTED => reported.push(version),
            _ => again.reported = None,
        }
        is_new
    }

    /// Returns since when it waits to be taken again, unless its own writes are all that was reported: their results are known.
    fn again(self) -> Option<Waiting> {
        let Again { waiting, reported } = self.again?;
        let is_own = |reported: Vec<u64>| reported.iter().all(|version| self.written.contains(version));
        (!reported.is_some_and(is_own)).then_some(waiting)
    }
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self::counted(Meter::default())
    }
}

impl<K> Queue<K> {
    /// Returns an empty queue that counts in `meter`.
    #[must_use]
    pub fn counted(meter: Meter) -> Self {
        Self {
            state: Mutex::new(State {
                objects: VecDeque::new(),
                related: VecDeque::new(),
                resyncs: VecDeque::new(),
                queued: HashMap::new(),
                running: HashMap::new(),
                later: BTreeMap::new(),
                due: HashMap::new(),
                count: 0,
                taken: 0,
                opened: Instant::now(),
                closed: false,
            }),
            wake: Notify::new(),
            end: Notify::new(),
            meter,
            liveness: Liveness::default(),
        }
    }

    /// Returns the liveness of the loops that work on it.
    #[must_use]
    pub const fn liveness(&self) -> &Liveness {
        &self.liveness
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Adds a key, to be taken as soon as possible.
    pub fn add(&self, key: K, reason: impl Into<Reason>) {
        if self.lock().add(key, reason.into(), Instant::now()) {
            self.meter.adds.inc();
        }
        self.wake.notify_one();
    }

    /// Records the version that a write for a key has made, while it is taken. A report of this version does not queue it again.
    pub fn wrote(&self, key: &K, version: &str) {
        if let Some(running) = self.lock().running.get_mut(key)
            && let Ok(version) = version.parse()
        {
            running.written.push(version);
        }
    }

    /// Adds a key after a time. The earliest time counts.
    pub fn add_after(&self, key: K, wait: Duration) {
        self.lock().add_at(key, Instant::now() + wait);
        self.wake.notify_one();
    }

    /// Begins to count how long keys wait, as controller-runtime does, which adds no key before a controller works. A follower has
    /// nothing to do with the keys that it collects, and how long lists take is not a matter of the queue.
    pub fn open(&self) {
        self.lock().opened = Instant::now();
    }

    /// Waits for the next key and takes it, until [`Queue::done`]. Returns `None` once the queue is closed. Meant for one caller.
    pub async fn next(&self) -> Option<K> {
        loop {
            let wake = self.wake.notified();
            let due = {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                let now = Instant::now();
                let (due, taken) = (state.due_by(now), state.take(now));
                self.meter.adds.inc_by(due);
                if let Some((key, waited)) = taken {
                    drop(state);
                    self.meter.waited.observe(waited.as_secs_f64());
                    return Some(key);
                }
                state.later.first_key_value().map(|((due, _), _)| *due)
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        () = wake => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => wake.await,
            }
        }
    }

    /// Ends the work on a key.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        let Some(running) = state.running.remove(key) else {
            return;
        };
        let begun = running.since;
        if let Some(Waiting { priority, since }) = running.again() {
            state.forget_due(key);
            state.put(key.clone(), priority, since);
            self.wake.notify_one();
        }
        drop(state);
        self.meter.worked.observe(begun.elapsed().as_secs_f64());
    }

    /// Closes the queue: [`Queue::next`] returns `None`.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
        self.end.notify_waiters();
    }

    /// Waits until the queue is closed.
    pub async fn closed(&self) {
        let end = self.end.notified();
        if !self.lock().closed {
            end.await;
        }
    }

    /// Returns how many keys wait to be taken.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.lock().queued.len()
    }

    /// Returns the current work.
    #[must_use]
    pub fn work(&self) -> Work {
        let state = self.lock();
        let took = state.running.values().map(|running| running.since.elapsed());
        Work {
            running: state.running.len(),
            unfinished: took.clone().sum(),
            longest: took.max().unwrap_or_default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // No code that can panic runs under this lock, so its data is consistent even if it is poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Returns whether the key was not queued.
    fn add(&mut self, key: K, reason: Reason, now: Instant) -> bool {
        if let Some(running) = self.running.get_mut(&key) {
            return running.add(reason, now);
        }
        self.forget_due(&key);
        self.put(key, reason.priority, now)
    }

    fn forget_due(&mut self, key: &K) {
        if let Some(due) = self.due.remove(key) {
            self.later.remove(&due);
        }
    }

    /// Returns whether the key was not queued.
    fn put(&mut self, key: K, priority: Priority, now: Instant) -> bool {
        let known = self.queued.get(&key).copied();
        let since = match known {
            Some(waiting) if waiting.priority >= priority => return false,
            // It overtakes; the entry with the lower priority is skipped when its turn comes.
            Some(waiting) => waiting.since,
            None => now,
        };
        self.queued.insert(key.clone(), Waiting { priority, since });
        self.line(priority).push_back(key);
        known.is_none()
    }

    const fn line(&mut self, priority: Priority) -> &mut VecDeque<K> {
        match priority {
            Priority::Object => &mut self.objects,
            Priority::Related => &mut self.related,
            Priority::Resync => &mut self.resyncs,
        }
    }

    fn add_at(&mut self, key: K, at: Instant) {
        if self.queued.contains_key(&key) {
            return;
        }
        if let Some(due) = self.due.get(&key).copied() {
            if due.0 <= at {
                return;
            }
            self.later.remove(&due);
        }
        self.count += 1;
        self.later.insert((at, self.count), key.clone());
        self.due.insert(key, (at, self.count));
    }

    /// Adds the keys that are due, and returns how many were not queued.
    fn due_by(&mut self, now: Instant) -> u64 {
        let mut added = 0;
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            self.due.remove(&key);
            added += u64::from(self.add(key, Priority::Related.into(), now));
        }
        added
    }

    /// Takes a key, and returns how long it has waited.
    fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        self.taken = self.taken.wrapping_add(1);
        let order = match self.taken % SHARE {
            0 => [Priority::Resync, Priority::Object, Priority::Related],
            1 => [Priority::Related, Priority::Object, Priority::Resync],
            _ => [Priority::Object, Priority::Related, Priority::Resync],
        };
        let (key, since) = order.into_iter().find_map(|priority| self.pop(priority))?;
        self.running.insert(key.clone(), Running::since(now));
        Some((key, now.saturating_duration_since(since.max(self.opened))))
    }

    fn pop(&mut self, priority: Priority) -> Option<(K, Instant)> {
        loop {
            let key = self.line(priority).pop_front()?;
            if let Some(waiting) = self.queued.get(&key).filter(|waiting| waiting.priority == priority) {
                let since = waiting.since;
                self.queued.remove(&key);
                return Some((key, since));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn now<'a>(queue: &Queue<&'a str>) -> Option<&'a str> {
        queue.next().now_or_never().flatten()
    }

    fn all<'a>(queue: &Queue<&'a str>) -> Vec<&'a str> {
        std::iter::from_fn(|| now(queue)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_taken_in_order_and_once() {
        let queue = Queue::default();
        for key in ["a", "b", "a", "c"] {
            queue.add(key, Priority::Related);
        }
        assert_eq!(queue.depth(), 3);
        assert_eq!(
            [now(&queue), now(&queue), now(&queue), now(&queue)],
            [Some("a"), Some("b"), Some("c"), None]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_counted_from_the_time_when_the_queue_opens() {
        let queue = Queue::default();
        let waited = || queue.lock().take(Instant::now()).map(|(_, waited)| waited.as_secs());
        queue.add("a", Priority::Related);
        queue.add("b", Priority::Related);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(waited(), Some(60));
        queue.open();
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(waited(), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn key_is_never_taken_twice_concurrently() {
        let queue = Queue::default();
        queue.add("a", Priority::Related);
        assert_eq!(now(&queue), Some("a"));
        queue.add("a", Priority::Related);
        assert_eq!(now(&queue), None);
        queue.done(&"a");
        assert_eq!(now(&queue), Some("a"));
        queue.done(&"a");
        assert_eq!(now(&queue), None);
    }

    fn version(version: u64) -> Reason {
        Reason {
            version: Some(version),
            ..Priority::Object.into()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn own_writes_do_not_queue_a_key_again() {
        let queue = Queue::default();
        queue.add("a", Priority::Object);
        assert_eq!(now(&queue), Some("a"));
        queue.add("a", version(7));
        queue.wrote(&"a", "7");
        queue.wrote(&"a", "8");
        queue.add("a", version(8));
        queue.add_after("a", Duration::from_secs(5));
        queue.done(&"a");
        assert_eq!(now(&queue), None);
        assert_eq!(queue.next().await, Some("a"), "a time that was set counts");
        queue.add("a", version(8));
        queue.done(&"a");
        assert_eq!(now(&queue), Some("a"), "these are not the writes of before");
    }

    #[tokio::test(start_paused = true)]
    async fn other_changes_queue_a_key_again() {
        let more_than_its_writes: Vec<Reason> = (0..=16).map(|_| version(7)).collect();
        for others in [&[version(8)][..], &[Priority::Resync.into()], &more_than_its_writes] {
            let queue = Queue::default();
            queue.add("a", Priority::Related);
            assert_eq!(now(&queue), Some("a"));
            queue.wrote(&"a", "7");
            queue.add("a", version(7));
            for other in others {
                queue.add("a", *other);
            }
            queue.add("a", version(7));
            queue.add_after("a", Duration::from_secs(5));
            queue.done(&"a");
            assert_eq!(now(&queue), Some("a"), "{others:?}");
            queue.done(&"a");
            tokio::time::advance(Duration::from_secs(6)).await;
            assert_eq!(now(&queue), None, "a change does not wait, and the time is dropped");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn earliest_time_counts() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(60));
        queue.add_after("a", Duration::from_secs(5));
        queue.add_after("a", Duration::from_secs(30));
        assert_eq!(queue.next().await, Some("a"));
        assert_eq!(start.elapsed().as_secs(), 5);
        queue.done(&"a");
        assert_eq!(now(&queue), None, "the later time is dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn change_does_not_wait_for_a_backoff() {
        let queue = Queue::default();
        queue.add_after("a", Duration::from_secs(60));
        queue.add("a", Priority::Related);
        assert_eq!(now(&queue), Some("a"));
        queue.done(&"a");
        assert_eq!(now(&queue), None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_is_set_while_running_is_kept() {
        let queue = Queue::default();
        queue.add("a", Priority::Related);
        assert_eq!(now(&queue), Some("a"));
        queue.add_after("a", Duration::from_secs(1));
        queue.done(&"a");
        assert_eq!(now(&queue), None);
        assert_eq!(queue.next().await, Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn changes_overtake_resyncs_without_starving_them() {
        let queue = Queue::default();
        let names: Vec<String> = (0..20).map(|n| format!("resync-{n}")).collect();
        for name in &names {
            queue.add(name.as_str(), Priority::Resync);
        }
        queue.add("change", Priority::Related);
        queue.add("resync-19", Priority::Related);
        assert_eq!(queue.next().await, Some("change"));
        assert_eq!(queue.next().await, Some("resync-19"));
        let changes: Vec<String> = (0..20).map(|n| format!("change-{n}")).collect();
        for name in &changes {
            queue.add(name.as_str(), Priority::Related);
        }
        let taken = all(&queue);
        assert_eq!(taken.len(), 39, "each once");
        let first_resync = taken.iter().position(|key| key.starts_with("resync"));
        assert!(first_resync.is_some_and(|at| at < 8), "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn changed_objects_overtake_related_changes_without_starving_them() {
        let names = |kind: &str| (0..20).map(|n| format!("{kind}-{n}")).collect::<Vec<String>>();
        let [related, objects] = ["related", "object"].map(names);
        let queue = Queue::default();
        for name in &related {
            queue.add(name.as_str(), Priority::Related);
        }
        queue.add("related-19", Priority::Object);
        assert_eq!(queue.next().await, Some("related-0"), "one in eight");
        assert_eq!(queue.next().await, Some("related-19"));
        for name in &objects {
            queue.add(name.as_str(), Priority::Object);
        }
        let taken = all(&queue);
        assert_eq!(taken.len(), 38, "each once");
        let first = taken.iter().position(|key| key.starts_with("related"));
        assert!(first.is_some_and(|at| 1 < at && at < 8), "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn turn_of_a_priority_without_keys_is_not_that_of_another() {
        let queue = Queue::default();
        let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        for name in &names {
            queue.add(name.as_str(), Priority::Object);
        }
        for name in ["a", "b", "c"] {
            queue.add(name, Priority::Related);
        }
        let taken = all(&queue);
        assert_eq!(taken[..10], ["a", "0", "1", "2", "3", "4", "5", "6", "b", "7"]);
    }

    #[tokio::test(start_paused = true)]
    async fn highest_priority_while_running_counts() {
        let queue = Queue::default();
        queue.add("a", Priority::Related);
        assert_eq!(now(&queue), Some("a"));
        for priority in [Priority::Related, Priority::Object, Priority::Resync] {
            queue.add("a", priority);
        }
        queue.add("b", Priority::Related);
        queue.done(&"a");
        assert_eq!([now(&queue), now(&queue)], [Some("a"), Some("b")]);
    }

    /// Returns how many times were observed, and their sum in whole seconds.
    fn observed(histogram: &prometheus_client::metrics::histogram::Histogram) -> (String, String) {
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register("time", "", histogram.clone());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            value.split('.').next().unwrap().trim().to_owned()
        };
        (value("time_count "), value("time_sum "))
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_and_running_keys_are_counted() {
        let meter = Meter::default();
        let queue = Queue::counted(meter.clone());
        let seconds = |number| tokio::time::sleep(Duration::from_secs(number));
        queue.add("a", Priority::Resync);
        seconds(2).await;
        queue.add("a", Priority::Related);
        assert_eq!(meter.adds.get(), 1, "it was queued");
        assert_eq!(now(&queue), Some("a"));
        assert_eq!(
            observed(&meter.waited),
            ("1".into(), "2".into()),
            "since it was added, not since it overtook"
        );
        seconds(3).await;
        queue.add("a", Priority::Related);
        queue.add("a", Priority::Related);
        assert_eq!(meter.adds.get(), 2, "once more after that");
        let work = queue.work();
        assert_eq!(
            (work.running, work.unfinished.as_secs(), work.longest.as_secs()),
            (1, 3, 3)
        );
        queue.done(&"a");
        assert_eq!(observed(&meter.worked), ("1".into(), "3".into()));
        assert_eq!(queue.work(), Work::default());
        seconds(1).await;
        assert_eq!(now(&queue), Some("a"));
        assert_eq!(observed(&meter.waited), ("2".into(), "3".into()));
        queue.done(&"a");
        queue.add_after("b", Duration::from_secs(60));
        assert_eq!(meter.adds.get(), 2, "not before it is due");
        assert_eq!(queue.next().await, Some("b"));
        assert_eq!(meter.adds.get(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_ends_the_wait() {
        let queue = std::sync::Arc::new(Queue::<&str>::default());
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next().await }
        });
        let end = tokio::spawn({
            let queue = queue.clone();
            async move { queue.closed().await }
        });
        tokio::task::yield_now().await;
        queue.close();
        assert_eq!(waiting.await.unwrap(), None);
        end.await.unwrap();
        queue.closed().await;
    }
}
