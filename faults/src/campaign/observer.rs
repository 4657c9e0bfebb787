//! Observes every change directly from the API server, independently of the operator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use tokio::runtime::Handle;

use super::history::{ObjectVersion, text};
use super::kind::{Kind, LEASE, OBSERVED};
use super::leadership::{self, Leadership};
use super::tenant;

/// The history of a namespace.
#[derive(Debug, Default)]
struct NamespaceHistory {
    versions: Vec<ObjectVersion>,
    leaderships: Vec<Leadership>,
}

/// The histories of all namespaces.
#[derive(Debug, Default)]
struct Histories {
    by_namespace: Mutex<BTreeMap<String, NamespaceHistory>>,
    changed: Condvar,
}

/// Watches a whole cluster until it is dropped.
#[derive(Debug)]
pub struct Observer {
    histories: Arc<Histories>,
    watches: Vec<tokio::task::JoinHandle<()>>,
}

impl Observer {
    /// Starts to watch.
    #[must_use]
    pub fn start(runtime: &Handle, client: &Client) -> Self {
        let histories = Arc::new(Histories::default());
        let watches = OBSERVED.iter().chain([&LEASE]).map(|kind| {
            let api = Api::all_with(client.clone(), &kind.resource());
            runtime.spawn(watch(api, *kind, Arc::clone(&histories)))
        });
        Self {
            watches: watches.collect(),
            histories,
        }
    }

    /// Returns the history of a namespace.
    #[must_use]
    pub fn history(&self, namespace: &str) -> Vec<ObjectVersion> {
        let histories = self.histories.lock();
        histories
            .get(namespace)
            .map(|history| history.versions.clone())
            .unwrap_or_default()
    }

    /// Returns the leaders in a namespace, in the order in which they held the Lease.
    #[must_use]
    pub fn leaderships(&self, namespace: &str) -> Vec<Leadership> {
        let histories = self.histories.lock();
        histories
            .get(namespace)
            .map(|history| history.leaderships.clone())
            .unwrap_or_default()
    }

    /// Returns the history of the children in all other namespaces.
    #[must_use]
    pub fn elsewhere(&self, namespace: &str) -> Vec<ObjectVersion> {
        let histories = self.histories.lock();
        let others = histories.iter().filter(|(other, _)| *other != namespace);
        let children = others
            .flat_map(|(_, history)| &history.versions)
            .filter(|seen| !seen.controllers().is_empty());
        children.cloned().collect()
    }

    /// Drops the history of a namespace.
    pub fn forget(&self, namespace: &str) {
        self.histories.lock().remove(namespace);
    }

    /// Waits until the history of a namespace satisfies a condition; returns whether it did.
    pub fn wait_for(&self, namespace: &str, timeout: Duration, condition: impl Fn(&[ObjectVersion]) -> bool) -> bool {
        self.wait(namespace, timeout, |history| condition(&history.versions))
    }

    /// Waits until the leaders in a namespace satisfy a condition; returns whether they did.
    pub fn wait_for_leaderships(
        &self,
        namespace: &str,
        timeout: Duration,
        condition: impl Fn(&[Leadership]) -> bool,
    ) -> bool {
        self.wait(namespace, timeout, |history| condition(&history.leaderships))
    }

    fn wait(&self, namespace: &str, timeout: Duration, condition: impl Fn(&NamespaceHistory) -> bool) -> bool {
        let empty = NamespaceHistory::default();
        let is_unmet =
            |histories: &mut BTreeMap<String, NamespaceHistory>| !condition(histories.get(namespace).unwrap_or(&empty));
        let outcome = self
            .histories
            .changed
            .wait_timeout_while(self.histories.lock(), timeout, is_unmet);
        !outcome.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Waits until there was no event in a namespace for `quiet`, at most for `timeout`.
    pub fn until_quiet(&self, namespace: &str, quiet: Duration, timeout: Duration) {
        let started = Instant::now();
        let mut before = self.history(namespace).len();
        while self.wait_for(namespace, quiet, |history| history.len() > before) && started.elapsed() < timeout {
            before = self.history(namespace).len();
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        for watch in &self.watches {
            watch.abort();
        }
    }
}

impl Histories {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, NamespaceHistory>> {
        self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, kind: Kind, object: DynamicObject, deleted: bool) {
        let Ok(mut object) = serde_json::to_value(object) else {
            return;
        };
        object["kind"] = kind.name().into();
        // The tenant's namespace is part of a run.
        let namespace = tenant::run_of(text(&object, "/metadata/namespace")).to_owned();
        let mut histories = self.lock();
        let history = histories.entry(namespace).or_default();
        if kind == LEASE {
            leadership::record_holder(&mut history.leaderships, &object);
        } else {
            history.versions.push(ObjectVersion {
                resource: kind.plural(),
                object,
                deleted,
            });
        }
        drop(histories);
        self.changed.notify_all();
    }
}

async fn watch(api: Api<DynamicObject>, kind: Kind, histories: Arc<Histories>) {
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    let mut known: BTreeMap<String, DynamicObject> = BTreeMap::new();
    let mut listed: BTreeSet<String> = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let uid = object.metadata.uid.clone().unwrap_or_default();
                listed.insert(uid.clone());
                let before = known.insert(uid, object.clone());
                if before.is_none_or(|before| before.metadata.resource_version != object.metadata.resource_version) {
                    histories.write(kind, object, false);
                }
            }
            Ok(Event::Delete(object)) => {
                known.remove(object.metadata.uid.as_deref().unwrap_or_default());
                histories.write(kind, object, true);
            }
            // Objects that a new list does not have were deleted in the meantime.
            Ok(Event::InitDone) => {
                let deleted: Vec<String> = known.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for object in deleted.iter().filter_map(|uid| known.remove(uid)) {
                    histories.write(kind, object, true);
                }
            }
            // The watcher restarts automatically, with a backoff.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
