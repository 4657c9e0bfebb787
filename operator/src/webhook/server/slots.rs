//! Who is connected, and how long each may take for what it does.
//!
//! There are only so many connections. When one more comes, the one that has been waited for longest has to go: whoever
//! opens connections and says nothing keeps nobody else out. Only what is being answered is not ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch as channel};
use tokio::time::{Instant, timeout_at};

use super::Limits;

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is to become a TLS connection.
    Handshake,
    /// It is to send the head of a request.
    Head,
    /// It is to send the rest of a request.
    Body,
    /// It is being answered.
    Work,
    /// It may send another request.
    Idle,
    /// It has to go.
    Evicted,
}

impl Phase {
    const fn patience(self, limits: &Limits) -> Duration {
        match self {
            Self::Handshake => limits.handshake,
            Self::Head => limits.head,
            // They are told when their time is over. Who does not listen is not waited for.
            Self::Body | Self::Work => limits.request.saturating_add(Duration::from_secs(1)),
            Self::Idle => limits.idle,
            Self::Evicted => Duration::ZERO,
        }
    }
}

type State = channel::Sender<(Phase, Instant)>;

/// All connections.
#[derive(Debug)]
pub struct Slots {
    limits: Limits,
    held: Mutex<Held>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    states: HashMap<u64, Arc<State>>,
}

/// One connection. Its place is free when it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    id: u64,
    state: Arc<State>,
}

impl Slots {
    /// Makes them.
    #[must_use]
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            held: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Takes a place for a new connection, if need be that of another one.
    pub async fn claim(self: &Arc<Self>) -> Slot {
        loop {
            if let Some(slot) = self.try_claim() {
                return slot;
            }
            self.freed.notified().await;
        }
    }

    fn try_claim(self: &Arc<Self>) -> Option<Slot> {
        let mut held = self.held();
        if held.states.len() >= self.limits.connections {
            let waited_for = held.states.iter().map(|(id, state)| (*id, *state.borrow()));
            let waited_for = waited_for.filter(|(_, (phase, _))| *phase != Phase::Work);
            let (oldest, _) = waited_for.min_by_key(|(_, (_, since))| *since)?;
            if let Some(state) = held.states.remove(&oldest) {
                state.send_replace((Phase::Evicted, Instant::now()));
            }
        }
        let id = held.next;
        held.next += 1;
        let state = Arc::new(State::new((Phase::Handshake, Instant::now())));
        held.states.insert(id, state.clone());
        drop(held);
        Some(Slot {
            slots: self.clone(),
            id,
            state,
        })
    }

    // Nothing that can panic runs under the lock.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Says what the connection is at now.
    pub fn enter(&self, phase: Phase) {
        self.state.send_if_modified(|state| {
            let stays = state.0 != Phase::Evicted;
            if stays {
                *state = (phase, Instant::now());
            }
            stays
        });
    }

    /// Says that something has come.
    pub fn heard(&self) {
        if self.state.borrow().0 == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// Waits until the connection has taken too long, or has to go for another one.
    pub async fn overdue(&self) -> Phase {
        let mut changes = self.state.subscribe();
        loop {
            let (phase, since) = *changes.borrow_and_update();
            let until = since + phase.patience(&self.slots.limits);
            if timeout_at(until, changes.changed()).await.is_err() {
                return phase;
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.held().states.remove(&self.id);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    fn slots(connections: usize) -> Arc<Slots> {
        Slots::new(Limits {
            connections,
            ..Limits::default()
        })
    }

    async fn is_evicted(slot: &Slot) -> bool {
        timeout(Duration::ZERO, slot.overdue()).await == Ok(Phase::Evicted)
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_was_waited_for_longest_goes() {
        let slots = slots(3);
        let first = slots.claim().await;
        advance(Duration::from_secs(1)).await;
        let second = slots.claim().await;
        advance(Duration::from_secs(1)).await;
        let third = slots.claim().await;
        first.enter(Phase::Work);
        let fourth = slots.claim().await;
        assert!(is_evicted(&second).await);
        for other in [&first, &third, &fourth] {
            assert!(!is_evicted(other).await);
        }
        second.enter(Phase::Work);
        assert!(is_evicted(&second).await, "it can't come back");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_answered_is_waited_for() {
        let slots = slots(1);
        let first = slots.claim().await;
        first.enter(Phase::Work);
        let second = timeout(Duration::from_secs(1), slots.claim());
        assert!(second.await.is_err());
        let (_second, ()) = tokio::join!(slots.claim(), async move { drop(first) });
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_time() {
        let slots = slots(1);
        let slot = slots.claim().await;
        let begun = Instant::now();
        assert_eq!(slot.overdue().await, Phase::Handshake);
        assert_eq!(begun.elapsed().as_secs(), 5);
        slot.enter(Phase::Idle);
        let late = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            slot.heard();
        };
        let begun = Instant::now();
        let (phase, ()) = tokio::join!(slot.overdue(), late);
        assert_eq!((phase, begun.elapsed().as_secs()), (Phase::Head, 65));
    }
}
