//! Open connections: how many, of which source address, and how long each may take for its current phase.
//!
//! When all places are taken, a new connection replaces the one that has waited longest for its client, among those of the
//! source address with the most connections. A client that opens connections and sends nothing so keeps only itself out.
//! A connection whose request is being answered is not replaced; how many these are is bounded for each source.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch as channel};
use tokio::time::{Instant, timeout_at};

use super::Limits;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The TLS handshake.
    Handshake,
    /// Receiving the head of a request.
    Head,
    /// Receiving the rest of a request, or waiting for its turn.
    Body,
    /// Being answered.
    Work,
    /// Between two requests.
    Idle,
    /// Replaced by another connection.
    Evicted,
}

impl Phase {
    const fn timeout(self, limits: &Limits) -> Duration {
        match self {
            Self::Handshake => limits.handshake,
            Self::Head => limits.head,
            // The handler answers when their time is over. A client that does not read the answer is not waited for.
            Self::Body | Self::Work => limits.request.saturating_add(Duration::from_secs(1)),
            Self::Idle => limits.idle,
            Self::Evicted => Duration::ZERO,
        }
    }
}

type State = channel::Sender<(Phase, Instant)>;

/// All connections of a server.
#[derive(Debug)]
pub struct Connections {
    limits: Limits,
    open: Mutex<Open>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    states: HashMap<u64, (IpAddr, Arc<State>)>,
    sources: HashMap<IpAddr, (usize, Arc<Source>)>,
}

/// The share of one source address.
#[derive(Debug)]
pub struct Source {
    /// Turns to be answered.
    pub requests: Semaphore,
    /// Turns to send a large body.
    pub large: Arc<Semaphore>,
}

/// One connection. Its place is free when it is dropped.
#[derive(Debug)]
pub struct Connection {
    connections: Arc<Connections>,
    id: u64,
    address: IpAddr,
    source: Arc<Source>,
    state: Arc<State>,
}

impl Connections {
    /// Creates the places.
    #[must_use]
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            open: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Takes a place for a new connection, if need be that of another one.
    pub async fn claim(self: &Arc<Self>, address: IpAddr) -> Connection {
        loop {
            if let Some(connection) = self.try_claim(address) {
                return connection;
            }
            self.freed.notified().await;
        }
    }

    fn try_claim(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let address = source(address);
        let mut open = self.open();
        if open.states.len() >= self.limits.connections {
            let replaced = open.least_useful()?;
            if let Some((_, state)) = open.states.remove(&replaced) {
                state.send_replace((Phase::Evicted, Instant::now()));
            }
        }
        let id = open.next;
        open.next += 1;
        let state = Arc::new(State::new((Phase::Handshake, Instant::now())));
        open.states.insert(id, (address, state.clone()));
        let (count, source) = open.sources.entry(address).or_insert_with(|| {
            let share = Source {
                requests: Semaphore::new(self.limits.requests_per_source),
                large: Arc::new(Semaphore::new(self.limits.large_per_source)),
            };
            (0, Arc::new(share))
        });
        *count += 1;
        let source = source.clone();
        drop(open);
        Some(Connection {
            connections: self.clone(),
            id,
            address,
            source,
            state,
        })
    }

    // Nothing that can panic runs under the lock.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Returns the connection that waits longest for its client, of the source with the most connections.
    fn least_useful(&self) -> Option<u64> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (address, _) in self.states.values() {
            *counts.entry(*address).or_default() += 1;
        }
        let waiting = self.states.iter().filter_map(|(id, (address, state))| {
            let (phase, since) = *state.borrow();
            (phase != Phase::Work).then_some((*id, counts.get(address).copied(), since))
        });
        waiting
            .max_by_key(|(_, count, since)| (*count, std::cmp::Reverse(*since)))
            .map(|(id, ..)| id)
    }
}

/// Returns the address by which shares are counted. A host usually has a whole /64 network of IPv6 addresses.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

impl Connection {
    /// Enters a phase.
    pub fn enter(&self, phase: Phase) {
        self.state.send_if_modified(|state| {
            let stays = state.0 != Phase::Evicted;
            if stays {
                *state = (phase, Instant::now());
            }
            stays
        });
    }

    /// Notes that bytes have arrived: after an answer, another request begins.
    pub fn received(&self) {
        if self.state.borrow().0 == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// Returns the share of its source address.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Waits until the connection has exceeded the time of a phase, or was replaced. Returns the phase.
    pub async fn overdue(&self) -> Phase {
        let mut changes = self.state.subscribe();
        loop {
            let (phase, since) = *changes.borrow_and_update();
            let until = since + phase.timeout(&self.connections.limits);
            if timeout_at(until, changes.changed()).await.is_err() {
                return phase;
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.states.remove(&self.id);
        if let Some((count, _)) = open.sources.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.sources.remove(&self.address);
            }
        }
        drop(open);
        self.connections.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn connections(count: usize) -> Arc<Connections> {
        Connections::new(Limits {
            connections: count,
            ..Limits::default()
        })
    }

    async fn is_evicted(connection: &Connection) -> bool {
        timeout(Duration::ZERO, connection.overdue()).await == Ok(Phase::Evicted)
    }

    #[tokio::test(start_paused = true)]
    async fn longest_idle_connection_is_replaced() {
        let connections = connections(3);
        let first = connections.claim(HERE).await;
        advance(Duration::from_secs(1)).await;
        let second = connections.claim(HERE).await;
        advance(Duration::from_secs(1)).await;
        let third = connections.claim(HERE).await;
        first.enter(Phase::Work);
        let fourth = connections.claim(HERE).await;
        assert!(is_evicted(&second).await);
        for other in [&first, &third, &fourth] {
            assert!(!is_evicted(other).await);
        }
        second.enter(Phase::Work);
        assert!(is_evicted(&second).await, "it can't come back");
    }

    #[tokio::test(start_paused = true)]
    async fn source_with_many_connections_replaces_its_own() {
        let connections = connections(3);
        let api_server = connections.claim([10, 0, 0, 1].into()).await;
        api_server.enter(Phase::Idle);
        advance(Duration::from_secs(4)).await;
        let stranger: IpAddr = [10, 0, 0, 2].into();
        let first = connections.claim(stranger).await;
        advance(Duration::from_millis(1)).await;
        let mut others = Vec::new();
        for _ in 0..20 {
            others.push(connections.claim(stranger).await);
        }
        assert!(!is_evicted(&api_server).await);
        assert!(is_evicted(&first).await);
        drop((first, others));
        assert_eq!(connections.open().sources.len(), 1);
    }

    #[test]
    fn ipv6_network_is_one_source() {
        let of = |text: &str| source(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_with_a_running_request_is_kept() {
        let connections = connections(1);
        let first = connections.claim(HERE).await;
        first.enter(Phase::Work);
        let second = timeout(Duration::from_secs(1), connections.claim(HERE));
        assert!(second.await.is_err());
        let (_second, ()) = tokio::join!(connections.claim(HERE), async move { drop(first) });
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_time() {
        let connections = connections(1);
        let connection = connections.claim(HERE).await;
        let begun = Instant::now();
        assert_eq!(connection.overdue().await, Phase::Handshake);
        assert_eq!(begun.elapsed().as_secs(), 5);
        connection.enter(Phase::Idle);
        let late = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            connection.received();
        };
        let begun = Instant::now();
        let (phase, ()) = tokio::join!(connection.overdue(), late);
        assert_eq!((phase, begun.elapsed().as_secs()), (Phase::Head, 65));
    }
}
