//! What a controller is: it watches some kinds, and reconciles the objects of one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::Failure;

use crate::informer::Informer;
use crate::key::Key;
use crate::metrics::State;
use crate::queue::Queue;

/// When an object is reconciled again, if nothing changes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Not at all.
    Done,
    /// Immediately: there is more to do.
    Now,
    /// When this time has passed.
    After(Duration),
}

/// Why a reconcile failed. What it was is in the status already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Cached objects were outdated and have been corrected: it is retried immediately, and with backoff if that repeats.
    #[error("cached objects were outdated")]
    Stale,
    /// It is retried with backoff.
    #[error("it is retried with backoff")]
    Failed,
    /// Only a change of the object helps.
    #[error("it waits for a change of the object")]
    Terminal,
}

/// Reconciles the objects of one kind. A new controller is an implementation of this, and a line in
/// [`controllers`](crate::run::controllers): queues, watches, metrics, probes and shutdown iterate over that list.
#[async_trait]
pub trait Controller: Send + Sync + 'static {
    /// Returns the kind of the objects, as in `AppDeploy`.
    fn kind(&self) -> &'static str;

    /// Returns its name in metrics, as in `appdeploy`.
    fn name(&self) -> &'static str;

    /// Returns the queue of the objects to reconcile.
    fn queue(&self) -> &Arc<Queue<Key>>;

    /// Returns what it watches; the objects that it reconciles come first. Called once.
    fn informers(&self) -> Vec<Informer>;

    /// Returns all objects that are known.
    fn keys(&self) -> Vec<Key>;

    /// Returns the state of each object that is known, by its status.
    fn states(&self) -> Vec<State>;

    /// Brings one object closer to its spec, and writes its status.
    ///
    /// # Errors
    /// Says how it is retried.
    async fn reconcile(&self, key: Key) -> Result<Requeue, Error>;

    /// Writes the status of an object whose reconcile panicked or timed out.
    async fn report(&self, key: &Key, failure: Failure);
}

/// A controller together with what it watches.
pub struct Registered {
    /// The controller.
    pub controller: Arc<dyn Controller>,
    /// What it watches.
    pub informers: Vec<Informer>,
}

impl Registered {
    /// Registers a controller.
    #[must_use]
    pub fn new(controller: Arc<dyn Controller>) -> Self {
        let informers = controller.informers();
        Self { controller, informers }
    }
}
