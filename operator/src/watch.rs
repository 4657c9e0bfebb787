//! Watches one kind: lists it, follows its events, and stores the objects.
//!
//! kube's watcher implements the protocol. This module adds a deadline for lists, a backoff for each kind, so that a kind that must
//! not be read does not delay the others, a new list after the server has dropped the position of the watch, and a periodic list,
//! which finds changes that no event reported.

mod backoff;
mod health;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::cache::Vanished;
use crate::client::DEADLINE;
use crate::key::Key;
use crate::liveness::Pulse;
use crate::queue::Priority;
use crate::reduced::{Outcome, Reduce, Reduced};
use crate::stores::Store;

use backoff::WatchBackoff;
use health::Obstacle;
pub use health::{Health, Scope};

/// How long to wait for a page of a list.
const LIST_DEADLINE: Duration = Duration::from_secs(30);

/// How many objects are read concurrently after a list.
const READS: usize = 16;

/// Objects per page. A small number, because a page is in memory as text before it is reduced.
pub const PAGE: u32 = 100;

/// A watch of one kind.
pub struct Watch<'a, R: Reduce> {
    /// The plural name of the kind.
    pub resource: &'static str,
    /// Sends the requests.
    pub api: Api<Reduced<R>>,
    /// The namespace, or all.
    pub scope: Option<&'a str>,
    /// Selectors.
    pub config: watcher::Config,
    /// The time between two lists.
    pub resync: Duration,
    /// The store for the objects.
    pub kind: &'a Store<R::Value>,
    /// Receives the owners that an event concerns.
    pub wake: &'a (dyn Fn(Vec<Key>, Priority) + Sync),
    /// Receives objects that have vanished, before their owners are woken. They may still exist, without the label by which the
    /// watch selects: the event is the same. Objects that [`Cache::forget`](crate::cache::Cache::forget) has removed are not
    /// reported.
    pub on_vanish: Option<&'a (dyn Fn(Key, R::Value) + Sync)>,
}

impl<R: Reduce> Watch<'_, R> {
    /// Runs the watch. Never ends; drop it to end it.
    pub async fn run(self) {
        let mut backoff = WatchBackoff::new();
        let pulse = self.kind.liveness.join(format!("the watch of {}", self.resource));
        loop {
            match self.list_and_follow(&pulse).await {
                End::Due => backoff.worked(),
                End::Lost => backoff.failed().await,
            }
        }
    }

    /// Lists and follows until a new list is needed.
    async fn list_and_follow(&self, pulse: &Pulse) -> End {
        let mut stream = pin!(watcher(self.api.clone(), self.config.clone()));
        let mut listed = HashSet::new();
        let mut newest = 0;
        let mut relist_at = None;
        let mut backoff = WatchBackoff::new();
        loop {
            pulse.beat();
            let event = match relist_at {
                None => {
                    let Ok(event) = timeout(LIST_DEADLINE, stream.next()).await else {
                        self.report(
                            &format!("no answer to a list within {} s", LIST_DEADLINE.as_secs()),
                            Obstacle::Server,
                        );
                        return End::Lost;
                    };
                    event
                }
                Some(at) => tokio::select! {
                    event = pulse.beating(stream.next()) => event,
                    () = sleep_until(at) => {
                        debug!(resource = self.resource, "listing again");
                        return End::Due;
                    }
                },
            };
            match event {
                Some(Ok(event)) => {
                    // The begin of a list, or its first page, does not show that it succeeds.
                    if !matches!(event, Event::Init | Event::InitApply(_)) {
                        backoff.worked();
                        self.kind.health.received(self.scope);
                    }
                    match event {
                        Event::Init => {
                            listed.clear();
                            newest = self.kind.cache.newest();
                            relist_at = None;
                        }
                        Event::InitApply(object) => {
                            listed.extend(self.store(object, newest, Priority::Resync));
                        }
                        Event::InitDone => {
                            let mut deleted = self.deleted_since(&listed, newest).await;
                            // No event has reported that these objects were deleted.
                            let mut vanished = self.kind.cache.retain(self.scope, &listed, newest);
                            vanished.append(&mut deleted);
                            self.remove(vanished);
                            info!(resource = self.resource, objects = listed.len(), "listed");
                            listed = HashSet::new();
                            relist_at = Some(Instant::now() + self.resync.mul_f64(1.0 - 0.1 * fastrand::f64()));
                            self.kind.health.listed(self.scope);
                        }
                        Event::Apply(object) => {
                            self.store(object, 0, Priority::Change);
                        }
                        Event::Delete(object) => {
                            let meta = object.meta();
                            let version = meta.resource_version.as_deref().unwrap_or_default();
                            self.remove(self.kind.cache.remove(&Key::of(meta), version));
                        }
                    }
                }
                Some(Err(error)) => {
                    self.report(&self.explain(&error), obstacle(&error));
                    if is_expired(&error) {
                        return End::Lost;
                    }
                    backoff.failed().await;
                }
                None => return End::Lost,
            }
        }
    }

    /// Reads cached objects that a list does not contain, and returns the deleted ones. Without this, an object that was created
    /// and deleted before the list would stay cached, and one that was created after the list would be created again: kube does not
    /// report the version of the list.
    async fn deleted_since(&self, listed: &HashSet<Key>, newest: u64) -> Vec<Vanished<R::Value>> {
        let unlisted = self.kind.cache.unlisted(self.scope, listed, newest);
        let read = stream::iter(unlisted).map(async |key| (self.exists(&key).await, key));
        let deleted = read
            .buffer_unordered(READS)
            .filter_map(async |(exists, key)| (!exists).then_some(key));
        let deleted: Vec<Key> = deleted.collect().await;
        deleted.iter().filter_map(|key| self.kind.cache.forget(key)).collect()
    }

    /// Reads one object with the rights and the selector of the list. One that can't be read counts as deleted, and its
    /// owner is reconciled.
    async fn exists(&self, key: &Key) -> bool {
        let named = format!("metadata.name={},metadata.namespace={}", key.name, key.namespace);
        let mut params = ListParams::default().fields(&named);
        params.label_selector = self.config.label_selector.clone();
        let read = timeout(DEADLINE, self.api.list_metadata(&params)).await;
        matches!(read, Ok(Ok(list)) if !list.items.is_empty())
    }

    /// Stores an object, unless a newer version above `outdated` is cached. Returns its name, if objects like it are kept.
    fn store(&self, object: Reduced<R>, outdated: u64, priority: Priority) -> Option<Key> {
        let key = Key::of(object.meta());
        let item = match object.outcome {
            Outcome::Kept(item) => item,
            Outcome::Ignored => return None,
            // It exists and can't be read: the cached version stays.
            Outcome::Failed => return Some(key),
        };
        let touched = self.kind.cache.upsert_listed(item, outdated);
        if !touched.is_empty() {
            (self.wake)(touched, priority);
        }
        Some(key)
    }

    fn remove(&self, vanished: impl IntoIterator<Item = Vanished<R::Value>>) {
        let mut touched = Vec::new();
        for Vanished { key, owners, value } in vanished {
            touched.extend(owners);
            if let Some(on_vanish) = self.on_vanish {
                on_vanish(key, value);
            }
        }
        if !touched.is_empty() {
            (self.wake)(touched, Priority::Change);
        }
    }

    fn report(&self, error: &str, obstacle: Obstacle) {
        let (resource, namespace) = (self.resource, self.scope);
        // Once for each error, not for each attempt.
        if self.kind.health.failed(self.scope, error.to_owned(), obstacle) {
            warn!(resource, namespace, error, "the watch failed, and is retried");
        } else {
            debug!(resource, namespace, error, "the watch failed again");
        }
    }

    fn explain(&self, error: &watcher::Error) -> String {
        match status_code(error) {
            Some((404, message)) => match crd::Names::ALL.into_iter().find(|names| names.plural == self.resource) {
                Some(crd::Names { kind, .. }) => format!(
                    "the {kind} API is not installed in this cluster; run: kubectl appdeploy install (or make install)"
                ),
                None => message,
            },
            Some((_, message)) => message,
            None => chain(error),
        }
    }
}

/// Why a new list is needed.
enum End {
    /// The resync period has passed.
    Due,
    /// The position in the stream is lost, or the server does not answer.
    Lost,
}

/// Whether the server answers that the position in the stream of events has expired. If an event says so, kube lists again. If the
/// answer to the watch says so, or its body without the envelope of an event, as from proxies and aggregated servers, kube would
/// request the same position indefinitely.
fn is_expired(error: &watcher::Error) -> bool {
    use watcher::Error::{WatchFailed, WatchStartFailed};
    matches!(error, WatchStartFailed(_) | WatchFailed(_)) && matches!(status_code(error), Some((410, _)))
}

fn obstacle(error: &watcher::Error) -> Obstacle {
    match status_code(error) {
        Some((401 | 403, _)) => Obstacle::Denied,
        Some((404, _)) => Obstacle::NotServed,
        _ => Obstacle::Server,
    }
}

fn status_code(error: &watcher::Error) -> Option<(u16, String)> {
    let (watcher::Error::WatchError(status)
    | watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))) = error
    else {
        return None;
    };
    Some((status.code, status.message.clone()))
}

/// Returns an error with all its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}
