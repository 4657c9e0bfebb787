//! Lists the kubelet's Events about a pod that is not healthy or does not start: only they say why.
//!
//! They are too many to be watched, so those of one pod are listed, and only when the status of an object depends on them. Nothing waits for the answer: it wakes the object. Where there is none, the object is
//! looked at again after a while, and asked for again if it is still not healthy.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::core::{ObjectList, Request, Resource as _};
use model::pod::Question;
use tokio::sync::Semaphore;
use tracing::debug;

use crate::call::Caller;
use crate::key::Key;
use crate::queue::{Priority, Queue};
use crate::stores::Stores;

/// How many questions are asked at a time. When a whole cluster is not healthy, there are many.
const CONCURRENCY: usize = 4;

/// How many Events of a pod are looked at. The kubelet counts those that say the same instead of making more.
const FEW: u32 = 20;

/// Asks for the objects of one kind.
#[derive(Clone)]
pub struct ProbeEventFetcher {
    kind: crd::Kind,
    caller: Caller,
    stores: Arc<Stores>,
    queue: Arc<Queue<Key>>,
    slots: Arc<Semaphore>,
}

impl ProbeEventFetcher {
    /// Makes one that wakes objects through this queue.
    #[must_use]
    pub fn new(kind: crd::Kind, caller: Caller, stores: Arc<Stores>, queue: Arc<Queue<Key>>) -> Self {
        Self {
            kind,
            caller,
            stores,
            queue,
            slots: Arc::new(Semaphore::new(CONCURRENCY)),
        }
    }

    /// Asks, unless it is known; where nothing is asked, forgets what was known.
    pub fn ask(&self, key: &Key, question: Option<Question>) {
        let probe_events = &self.stores.probe_events;
        if !probe_events.wants(self.kind, key, question.as_ref()) {
            // Of what is planned for an object, the first look takes away the others.
            if let Some(wait) = probe_events.asked_again_in(self.kind, key) {
                self.queue.add_after(key.clone(), wait);
            }
            return;
        }
        if let Some(question) = question {
            let (probe_event_fetcher, key) = (self.clone(), key.clone());
            tokio::spawn(async move { probe_event_fetcher.find_out(key, question).await });
        }
    }

    async fn find_out(self, key: Key, question: Question) {
        // It is never closed.
        let Ok(_slot) = self.slots.acquire().await else { return };
        let params = ListParams::default().fields(&question.selector()).limit(FEW);
        let request = Request::new(Event::url_path(&(), Some(&key.namespace))).list(&params);
        let answer = match self.caller.send::<ObjectList<Event>>("list", "events", request).await {
            Ok(events) => question.read(&events.items),
            // The status goes without it.
            Err(error) => {
                debug!(%error, "failed to list the events of a pod");
                None
            }
        };
        let probe_events = &self.stores.probe_events;
        if let Some(answer) = answer {
            if probe_events.tell(self.kind, &key, &question, answer) {
                self.queue.add(key, Priority::Change);
            }
        } else if let Some(wait) = probe_events.miss(self.kind, &key, &question) {
            self.queue.add_after(key, wait);
        }
    }
}
