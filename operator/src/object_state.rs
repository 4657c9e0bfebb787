//! What the operator keeps of each object from one reconcile to the next. A restart loses nothing that matters.

pub mod child_writes;
pub mod owned_objects;
pub mod probe_events;
pub mod progress;
pub mod retry;
pub mod status;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::config_maps::ConfigNotes;
use model::podset::PodRef;
use model::queue::Memory;

use crate::key::Key;
use crate::result::ReconcileResult;
use child_writes::ChildWrites;
use owned_objects::OwnedObjects;
use probe_events::ProbeEvents;
use progress::Progress;
use retry::{Retries, Retry};
use status::StatusWrites;

/// The states of all objects of a kind whose status is an `S`, under one lock.
#[derive(Debug)]
pub struct ObjectStates<S>(Mutex<HashMap<Key, Box<ObjectState<S>>>>);

/// The state of one object.
#[derive(Debug)]
pub struct ObjectState<S> {
    /// The UID of the object that was reconciled last, if any was.
    uid: Option<Box<str>>,
    /// Its failed reconciles.
    pub retry: Option<Box<Retry>>,
    /// The probe events that were fetched to explain its status.
    pub probe_events: Option<Box<ProbeEvents>>,
    /// Pods of a PodSet that a watch no longer reports, by UID. They may exist, without the label of the set.
    pub lost_pods: BTreeMap<String, PodRef>,
    /// Writes of its status.
    pub status: StatusWrites<S>,
    /// Writes of its children.
    pub child_writes: ChildWrites,
    /// The objects that it was seen to own.
    pub owned_objects: Option<Box<OwnedObjects>>,
    /// The progress of a PodSet.
    pub progress: Option<Box<Progress>>,
    /// What is noted of the ConfigMaps that it uses.
    pub config_notes: Option<Box<ConfigNotes>>,
    /// What is known of the queue of an AppQueue.
    pub external_queue: Option<Box<Memory>>,
}

impl<S> Default for ObjectState<S> {
    fn default() -> Self {
        Self {
            uid: None,
            retry: None,
            probe_events: None,
            lost_pods: BTreeMap::new(),
            status: StatusWrites::default(),
            child_writes: ChildWrites::default(),
            owned_objects: None,
            progress: None,
            config_notes: None,
            external_queue: None,
        }
    }
}

impl<S> Default for ObjectStates<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> ObjectStates<S> {
    /// Begins a reconcile of an object. Nothing that was recorded of an object with another UID applies to it, except what
    /// concerns the name: failures, fetched events and lost pods.
    pub fn begin(&self, key: &Key, uid: &str) {
        let mut all = self.lock();
        let state = all.entry(key.clone()).or_default();
        if state.uid.as_deref() != Some(uid) {
            **state = ObjectState {
                uid: Some(uid.into()),
                retry: state.retry.take(),
                probe_events: state.probe_events.take(),
                lost_pods: std::mem::take(&mut state.lost_pods),
                ..ObjectState::default()
            };
        }
    }

    /// Reads or changes the state of an object. Returns `None` if there is none.
    pub fn with<R>(&self, key: &Key, change: impl FnOnce(&mut ObjectState<S>) -> R) -> Option<R> {
        self.lock().get_mut(key).map(|state| change(state))
    }

    /// Reads or changes the state of an object, which is created if there is none.
    pub fn with_new<R>(&self, key: &Key, change: impl FnOnce(&mut ObjectState<S>) -> R) -> R {
        change(self.lock().entry(key.clone()).or_default())
    }

    /// Removes the state of a deleted object. Its failures are kept until a reconcile succeeds.
    pub fn remove(&self, key: &Key) {
        let mut all = self.lock();
        if let Some(state) = all.remove(key).filter(|state| state.retry.is_some()) {
            let retry = state.retry;
            let state = ObjectState {
                retry,
                ..ObjectState::default()
            };
            all.insert(key.clone(), state.into());
        }
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Box<ObjectState<S>>>> {
        // A panic under the lock leaves each state whole: they are changed by single assignments.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Send> Retries for ObjectStates<S> {
    fn throttled_for(&self, key: &Key) -> Option<Duration> {
        self.with(key, |state| state.retry.as_ref()?.throttled_for())?
    }

    fn requeue_in(&self, key: &Key, result: ReconcileResult, retry_after: Option<Duration>) -> Option<Duration> {
        let mut all = self.lock();
        match retry::of(result) {
            retry::Next::Retry(error) => {
                let retry = &mut all.entry(key.clone()).or_default().retry;
                Some(retry.get_or_insert_default().failed(error, retry_after))
            }
            retry::Next::Requeue(wait) => {
                let is_of_an_object = all.get_mut(key).is_some_and(|state| {
                    state.retry = None;
                    state.uid.is_some() || !state.lost_pods.is_empty()
                });
                if !is_of_an_object {
                    all.remove(key);
                }
                wait
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Error, Requeue};

    fn key() -> Key {
        Key::new("default", "web")
    }

    fn lost() -> (String, PodRef) {
        let pod = PodRef {
            name: "web-0".into(),
            uid: "p1".into(),
        };
        ("p1".to_owned(), pod)
    }

    #[tokio::test(start_paused = true)]
    async fn recreated_object_starts_with_a_new_state() {
        let states = ObjectStates::<&str>::default();
        states.begin(&key(), "u1");
        states.with(&key(), |state| {
            state.status.written(Some("unreadable"));
            state.progress.get_or_insert_default();
            state.owned_objects.get_or_insert_default();
            state.lost_pods.extend([lost()]);
        });
        states.requeue_in(&key(), Err(Error::Failed), None);
        states.begin(&key(), "u1");
        let is_kept = |state: &mut ObjectState<&str>| {
            let of_object = state.status.unreadable().is_some() && state.progress.is_some();
            let of_name = state.retry.is_some() && !state.lost_pods.is_empty();
            (of_object && state.owned_objects.is_some(), of_name)
        };
        assert_eq!(states.with(&key(), is_kept), Some((true, true)));
        states.begin(&key(), "u2");
        assert_eq!(states.with(&key(), is_kept), Some((false, true)));
        assert_eq!(states.with(&key(), |state| state.owned_objects.is_some()), Some(false));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_of_a_deleted_object() {
        let states = ObjectStates::<()>::default();
        states.begin(&key(), "u1");
        states.requeue_in(&key(), Ok(Requeue::Done), None);
        assert_eq!(states.len(), 1);
        states.remove(&key());
        assert!(states.is_empty());
        assert_eq!(states.requeue_in(&key(), Ok(Requeue::Done), None), None);
        assert!(states.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn retries_of_a_deleted_object_back_off_until_they_succeed() {
        let states = ObjectStates::<()>::default();
        states.begin(&key(), "u1");
        let mut waits = Vec::new();
        for _ in 0..5 {
            states.remove(&key());
            let wait = states.requeue_in(&key(), Err(Error::Failed), None).unwrap();
            tokio::time::advance(wait).await;
            waits.push(wait);
        }
        assert!(waits.is_sorted() && waits[4] > Duration::from_secs(3), "{waits:?}");
        assert_eq!(states.with(&key(), |state| state.uid.is_some()), Some(false));
        states.requeue_in(&key(), Ok(Requeue::Done), None);
        assert!(states.is_empty());
    }

    #[test]
    fn lost_pods_are_kept_until_their_set_is_reconciled() {
        let states = ObjectStates::<()>::default();
        states.with_new(&key(), |state| state.lost_pods.extend([lost()]));
        states.requeue_in(&key(), Ok(Requeue::Done), None);
        assert_eq!(states.with(&key(), |state| state.lost_pods.len()), Some(1));
        states.remove(&key());
        assert!(states.is_empty());
    }
}
