//! Lists the kubelet's Events about a pod that is not healthy or does not start: nothing else says why.
//!
//! There are too many Events to watch them. Those of one pod are listed, and only when the status of an object depends on them. No
//! reconcile waits for the answer, which requeues the object. Without an answer, the object is requeued after a while, and the
//! Events are listed again if it is still not healthy.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::core::{ObjectList, Request, Resource as _};
use model::pod::EventQuery;
use tokio::sync::Semaphore;
use tracing::debug;

use crate::call::Caller;
use crate::key::Key;
use crate::object_state::ObjectStates;
use crate::queue::{Priority, Queue};

/// How many lists run concurrently. When a whole cluster is not healthy, many are needed.
const CONCURRENCY: usize = 4;

/// How many Events of a pod are listed. The kubelet counts Events that say the same instead of creating more.
const MAX_EVENTS: u32 = 20;

/// Fetches probe events for the objects of one kind.
pub struct ProbeEventFetcher<S> {
    caller: Caller,
    states: Arc<ObjectStates<S>>,
    queue: Arc<Queue<Key>>,
    slots: Semaphore,
}

impl<S: Send + 'static> ProbeEventFetcher<S> {
    /// Returns a fetcher that requeues objects in this queue.
    #[must_use]
    pub fn new(caller: Caller, states: Arc<ObjectStates<S>>, queue: Arc<Queue<Key>>) -> Self {
        Self {
            caller,
            states,
            queue,
            slots: Semaphore::new(CONCURRENCY),
        }
    }

    /// Fetches the events that answer a question about an object, unless they are known. Without a question, what was known is
    /// dropped.
    pub fn ask(self: &Arc<Self>, key: &Key, question: Option<EventQuery>) {
        if !self.states.need_probe_events(key, question.as_ref()) {
            // Of the times at which an object is requeued, a reconcile drops all.
            if let Some(wait) = self.states.probe_events_due_in(key) {
                self.queue.add_after(key.clone(), wait);
            }
            return;
        }
        if let Some(question) = question {
            let (fetcher, key) = (self.clone(), key.clone());
            tokio::spawn(async move { fetcher.fetch(key, question).await });
        }
    }

    async fn fetch(&self, key: Key, question: EventQuery) {
        // It is never closed.
        let Ok(_slot) = self.slots.acquire().await else { return };
        let params = ListParams::default().fields(&question.selector()).limit(MAX_EVENTS);
        let request = Request::new(Event::url_path(&(), Some(&key.namespace))).list(&params);
        let answer = match self.caller.send::<ObjectList<Event>>("list", "events", request).await {
            Ok(events) => question.read(&events.items),
            // The status does not have the answer then.
            Err(error) => {
                debug!(%error, "failed to list the events of a pod");
                None
            }
        };
        if let Some(answer) = answer {
            if self.states.found_probe_events(&key, &question, answer) {
                self.queue.add(key, Priority::Related);
            }
        } else if let Some(wait) = self.states.missed_probe_events(&key, &question) {
            self.queue.add_after(key, wait);
        }
    }
}
