//! Observes every change directly from the API server, independently of the operator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use tokio::runtime::Handle;

use super::history::{Seen, text};
use super::kind::{Kind, LEASE, OBSERVED};
use super::leadership::{self, Leadership};
use super::tenant;

/// The history of a namespace.
#[derive(Debug, Default)]
struct NamespaceHistory {
    seen: Vec<Seen>,
    leaderships: Vec<Leadership>,
}

/// The histories of all namespaces.
#[derive(Debug, Default)]
struct Histories {
    pages: Mutex<BTreeMap<String, NamespaceHistory>>,
    written: Condvar,
}

/// An observer of a whole cluster, which stops when this is dropped.
#[derive(Debug)]
pub struct Observer {
    book: Arc<Histories>,
    watches: Vec<tokio::task::JoinHandle<()>>,
}

impl Observer {
    /// Starts to watch.
    #[must_use]
    pub fn start(runtime: &Handle, client: &Client) -> Self {
        let book = Arc::new(Histories::default());
        let watches = OBSERVED.iter().chain([&LEASE]).map(|kind| {
            let api = Api::all_with(client.clone(), &kind.resource());
            runtime.spawn(watch(api, *kind, Arc::clone(&book)))
        });
        Self {
            watches: watches.collect(),
            book,
        }
    }

    /// Returns the history of a namespace.
    #[must_use]
    pub fn history(&self, namespace: &str) -> Vec<Seen> {
        let book = self.book.lock();
        book.get(namespace).map(|page| page.seen.clone()).unwrap_or_default()
    }

    /// Returns the leaders in a namespace, in their order.
    #[must_use]
    pub fn leaderships(&self, namespace: &str) -> Vec<Leadership> {
        let book = self.book.lock();
        book.get(namespace)
            .map(|page| page.leaderships.clone())
            .unwrap_or_default()
    }

    /// Returns the history of the children in all other namespaces.
    #[must_use]
    pub fn elsewhere(&self, namespace: &str) -> Vec<Seen> {
        let book = self.book.lock();
        let others = book.iter().filter(|(other, _)| *other != namespace);
        let children = others
            .flat_map(|(_, page)| &page.seen)
            .filter(|seen| !seen.controllers().is_empty());
        children.cloned().collect()
    }

    /// Drops the history of a namespace.
    pub fn forget(&self, namespace: &str) {
        self.book.lock().remove(namespace);
    }

    /// Waits until the history of a namespace satisfies a condition; returns whether it did.
    pub fn wait_for(&self, namespace: &str, patience: Duration, wanted: impl Fn(&[Seen]) -> bool) -> bool {
        self.wait(namespace, patience, |page| wanted(&page.seen))
    }

    /// Waits until the leaders in a namespace satisfy a condition; returns whether they did.
    pub fn wait_for_leaderships(
        &self,
        namespace: &str,
        patience: Duration,
        wanted: impl Fn(&[Leadership]) -> bool,
    ) -> bool {
        self.wait(namespace, patience, |page| wanted(&page.leaderships))
    }

    fn wait(&self, namespace: &str, patience: Duration, wanted: impl Fn(&NamespaceHistory) -> bool) -> bool {
        let blank = NamespaceHistory::default();
        let unwanted = |pages: &mut BTreeMap<String, NamespaceHistory>| !wanted(pages.get(namespace).unwrap_or(&blank));
        let outcome = self
            .book
            .written
            .wait_timeout_while(self.book.lock(), patience, unwanted);
        !outcome.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Waits until there was no event in a namespace for `quiet`, but not for longer than `patience`.
    pub fn until_quiet(&self, namespace: &str, quiet: Duration, patience: Duration) {
        let started = Instant::now();
        let mut before = self.history(namespace).len();
        while self.wait_for(namespace, quiet, |history| history.len() > before) && started.elapsed() < patience {
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
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, kind: Kind, object: DynamicObject, gone: bool) {
        let Ok(mut object) = serde_json::to_value(object) else {
            return;
        };
        object["kind"] = kind.name().into();
        // The tenant's namespace is part of a run.
        let namespace = tenant::run_of(text(&object, "/metadata/namespace")).to_owned();
        let mut pages = self.lock();
        let page = pages.entry(namespace).or_default();
        if kind == LEASE {
            leadership::record_holder(&mut page.leaderships, &object);
        } else {
            page.seen.push(Seen {
                resource: kind.plural(),
                object,
                gone,
            });
        }
        drop(pages);
        self.written.notify_all();
    }
}

async fn watch(api: Api<DynamicObject>, kind: Kind, book: Arc<Histories>) {
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
                    book.write(kind, object, false);
                }
            }
            Ok(Event::Delete(object)) => {
                known.remove(object.metadata.uid.as_deref().unwrap_or_default());
                book.write(kind, object, true);
            }
            // Objects that a new list does not have were deleted in the meantime.
            Ok(Event::InitDone) => {
                let gone: Vec<String> = known.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for object in gone.iter().filter_map(|uid| known.remove(uid)) {
                    book.write(kind, object, true);
                }
            }
            // The watcher restarts automatically, with a backoff.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
