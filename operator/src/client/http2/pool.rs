//! The open connections. Each request reserves a stream, and holds it until its response has ended or was dropped.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::sync::Notify;

use super::connection::{ConnectError, Connection, Connector};
use super::room::{Choice, Load, Traffic, choose};

/// A connection that is being opened, for all requests that wait for it.
type Opening = Shared<BoxFuture<'static, Result<Arc<Connection>, ConnectError>>>;

/// The open connections.
pub struct Pool {
    connector: Connector,
    state: Mutex<State>,
    /// Notified when a stream of a request has ended.
    freed: Notify,
}

#[derive(Default)]
struct State {
    /// Connections that take requests. One that the server shuts down ends with its last stream.
    connections: Vec<Arc<Connection>>,
    opening: Vec<(Traffic, Opening)>,
}

impl State {
    fn of(&self, traffic: Traffic) -> impl Iterator<Item = &Arc<Connection>> {
        self.connections
            .iter()
            .filter(move |connection| connection.traffic == traffic)
    }

    /// Closes connections that are idle and no longer needed, such as those that replaced one that was silent for a moment.
    fn close_spare(&mut self, traffic: Traffic) {
        let mut kept = 0;
        self.connections.retain(|connection| {
            let is_needed = connection.traffic != traffic || kept < traffic.kept() || connection.load().streams > 0;
            kept += usize::from(connection.traffic == traffic && !connection.is_silent());
            is_needed
        });
    }

    fn finish(&mut self, traffic: Traffic) {
        self.opening.retain(|(of, _)| *of != traffic);
    }
}

/// The reservation of a stream.
#[derive(Clone)]
pub struct Slot(Arc<Reserved>);

struct Reserved {
    connection: Arc<Connection>,
    pool: Arc<Pool>,
    /// The stream has ended, with or without an error.
    has_ended: AtomicBool,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.connection.release();
        if !self.has_ended.load(Ordering::Relaxed) {
            self.connection.verify();
        }
        self.pool.freed.notify_waiters();
    }
}

impl Slot {
    pub(super) fn connection(&self) -> &Connection {
        &self.0.connection
    }

    /// Ends the reservation of a stream that has ended. If the reservation is dropped without this, a PING shows whether
    /// the server still answers: a request that gets no answer costs further ones no more than that.
    pub(super) fn end(self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}

enum Next {
    Reserved(Slot),
    Opening(Opening),
    Unverified(Arc<Connection>),
    Full,
}

impl Pool {
    /// Returns a pool without connections; they are opened when they are needed.
    pub(super) fn new(connector: Connector) -> Arc<Self> {
        Arc::new(Self {
            connector,
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Reserves a stream. Opens a connection if none has room, and waits if there are as many as allowed.
    pub(super) async fn reserve(self: &Arc<Self>, traffic: Traffic) -> Result<Slot, ConnectError> {
        loop {
            let mut freed = pin!(self.freed.notified());
            // From now on, so that a stream that ends in the meantime is not missed.
            freed.as_mut().enable();
            match self.next(traffic) {
                Next::Reserved(slot) => return Ok(slot),
                Next::Full => freed.await,
                Next::Unverified(connection) => connection.verified().await,
                Next::Opening(opening) => {
                    // Its first requests use it although it may be closed again: otherwise a server that closes each connection
                    // would keep them here.
                    let connection = opening.await?;
                    if connection.reserve() {
                        return Ok(self.slot(connection));
                    }
                }
            }
        }
    }

    fn next(self: &Arc<Self>, traffic: Traffic) -> Next {
        let mut state = self.state();
        state.connections.retain(|connection| connection.is_open());
        state.close_spare(traffic);
        let connections: Vec<&Arc<Connection>> =
            state.of(traffic).filter(|connection| !connection.is_silent()).collect();
        let loads: Vec<Load> = connections.iter().map(|connection| connection.load()).collect();
        match choose(traffic, &loads) {
            Choice::Wait => Next::Full,
            Choice::Open => Next::Opening(self.open(&mut state, traffic)),
            Choice::Use(index) => {
                let connection = connections[index].clone();
                if connection.is_unverified() {
                    return Next::Unverified(connection);
                }
                // Streams of new connections are reserved without the lock.
                if connection.reserve() {
                    Next::Reserved(self.slot(connection))
                } else {
                    drop(state);
                    self.next(traffic)
                }
            }
        }
    }

    /// Opens a connection, unless one is being opened. It is opened even if the first request is canceled.
    fn open(self: &Arc<Self>, state: &mut State, traffic: Traffic) -> Opening {
        let known = state.opening.iter().find(|(of, _)| *of == traffic);
        // One that is complete is left from a task that panicked.
        if let Some((_, opening)) = known.filter(|(_, opening)| opening.peek().is_none()) {
            return opening.clone();
        }
        state.finish(traffic);
        let pool = self.clone();
        let task = tokio::spawn(async move {
            let opened = pool.connector.open(traffic).await.map(Arc::new);
            let mut state = pool.state();
            state.finish(traffic);
            state.connections.extend(opened.iter().cloned());
            opened
        });
        let opening = task.map(|ended| ended.unwrap_or_else(|panic| Err(ConnectError::Failed(Arc::new(panic)))));
        let opening = opening.boxed().shared();
        state.opening.push((traffic, opening.clone()));
        opening
    }

    fn slot(self: &Arc<Self>, connection: Arc<Connection>) -> Slot {
        let pool = self.clone();
        Slot(Arc::new(Reserved {
            connection,
            pool,
            has_ended: AtomicBool::new(false),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
