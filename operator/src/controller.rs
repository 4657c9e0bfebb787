//! The trait of controllers. A controller watches some kinds, and reconciles the objects of one.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use model::Failure;

use crate::informer::Informer;
use crate::key::Key;
use crate::object_state::retry::Retries;
use crate::primary::ReadyState;
use crate::queue::Queue;
use crate::result::ReconcileResult;

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

    /// Returns when its objects are reconciled again: the states of its objects.
    fn retries(&self) -> &dyn Retries;

    /// Returns what it watches; the objects that it reconciles come first. Called once.
    fn informers(&self) -> Vec<Informer>;

    /// Whether an object is new, and can be reconciled before all kinds were listed: only
    /// [`Informer::for_new_objects`] must have. Its children may exist nevertheless, so they must be written in a way that does not
    /// depend on what is cached. Default: objects are reconciled after all lists.
    fn is_new(&self, _key: &Key) -> bool {
        false
    }

    /// Returns all objects that are known.
    fn keys(&self) -> Vec<Key>;

    /// Returns the state of each object that is known, by its status.
    fn ready_states(&self) -> Vec<ReadyState>;

    /// Brings one object closer to its spec, and writes its status.
    ///
    /// # Errors
    /// Returns how it is retried.
    async fn reconcile(&self, key: Key) -> ReconcileResult;

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

    /// Waits until it is an informer's turn to list for the first time: until at most one of those before it has neither listed nor
    /// failed to. Those that new objects wait for come first, and do not wait.
    pub async fn turn(&self, informer: usize) {
        let is_first = |index: &usize| self.informers[*index].is_for_new_objects();
        if is_first(&informer) {
            return;
        }
        let before = |index: &usize| is_first(index) || *index < informer;
        let before = (0..self.informers.len()).filter(before);
        let mut tried: FuturesUnordered<_> = before.map(|index| self.informers[index].health().tried()).collect();
        while tried.len() > 1 {
            tried.next().await;
        }
    }
}
