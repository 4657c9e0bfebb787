//! Watches one kind: lists it, follows its events, and stores the objects.
//!
//! A list is read in pages, which are as current as the server's storage, and the watch begins at its version. A watch that ends
//! continues where it was. A new list is needed only after the server has dropped this position, and when this replica becomes the leader
//! ([`Health::demand`]). Another one follows every resync period, while the watch continues, and finds changes that no event reported
//! (docs/adr/0002). While a watch continues, first only versions are listed, since all objects are probably cached in their newest one.
//! Each kind has its own backoff, so that a kind that must not be read does not delay the others.

mod backoff;
mod collection;
mod error;
mod event;
mod health;
mod stream;
#[cfg(test)]
mod tests;
mod versions;

use std::collections::HashSet;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use kube::client::Body;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use crate::cache::Vanished;
use crate::key::Key;
use crate::liveness::Pulse;
use crate::protobuf;
use crate::queue::{Priority, Reason};
use crate::reduced::{Outcome, Reduce, Reduced, reduce};
use crate::stores::Store;
use crate::stores::definition::Definition;

use backoff::WatchBackoff;
pub(crate) use collection::Collection;
pub(crate) use error::Error as WatchError;
use error::Error;
pub use error::chain;
pub(crate) use event::Event;
use event::{Object, PageMeta, read_message_page, read_page};
use health::Obstacle;
pub use health::{Health, Scope};
pub(crate) use stream::EventStream;
use stream::Framing;
use versions::VersionPage;

/// A watch of one kind.
pub struct Watch<'a, R: Reduce> {
    /// The plural name of the kind.
    pub resource: &'static str,
    /// Sends the requests.
    pub api: Api<Reduced<R>>,
    /// The namespace, or all.
    pub scope: Option<&'a str>,
    /// The selectors.
    pub config: ListParams,
    /// The time between two lists.
    pub resync: Duration,
    /// The store for the objects.
    pub kind: &'a Store<R::Value>,
    /// Receives the owners that an event concerns.
    pub wake: &'a (dyn Fn(Vec<Key>, Reason) + Sync),
    /// Receives objects that have vanished, before their owners are woken. They may still exist, without the label by which the
    /// watch selects: the event is the same. Objects that [`Cache::forget`](crate::cache::Cache::forget) has removed are not
    /// reported.
    pub on_vanish: Option<&'a (dyn Fn(Key, R::Value) + Sync)>,
    /// The definition of the kind, if not every cluster has it. While it is absent, only this is watched.
    pub definition: Option<&'a Definition>,
}

/// A watch after its list.
struct Position {
    /// The version up to which everything was reported.
    version: String,
    /// The events after it, if the watch has begun.
    events: Option<EventStream<Body>>,
}

/// A list that has not ended.
struct Listing {
    began: Instant,
    /// The newest cached version when it began.
    newest: u64,
    listed: HashSet<Key>,
}

impl<R: Reduce> Watch<'_, R> {
    /// Runs the watch. Never ends; drop it to end it.
    pub async fn run(self) {
        let collection = Collection {
            client: self.api.clone().into_client(),
            url: self.api.resource_url().to_owned(),
            only_metadata: R::ONLY_METADATA,
            selectors: self.config.clone(),
        };
        let pulse = self.kind.liveness.join(format!("the watch of {}", self.resource));
        let mut backoff = WatchBackoff::new();
        let mut position = self.list(&collection, &pulse).await;
        loop {
            tokio::select! {
                () = self.follow(&collection, &mut position, &pulse) => {
                    backoff.failed().await;
                    position = self.list(&collection, &pulse).await;
                }
                () = self.until_list_is_due() => {
                    debug!(resource = self.resource, "listing again");
                    backoff.worked();
                    position = self.list_again(&collection, position, &pulse).await;
                }
            }
        }
    }

    async fn until_list_is_due(&self) {
        tokio::select! {
            () = sleep(self.resync.mul_f64(1.0 - 0.1 * fastrand::f64())) => {}
            () = self.kind.health.list_demanded(self.scope) => {}
        }
    }

    /// Lists while a watch continues, which the new one then replaces.
    async fn list_again(&self, collection: &Collection, mut position: Position, pulse: &Pulse) -> Position {
        let mut again = std::pin::pin!(async {
            match self.compare(collection, pulse).await {
                Ok(Some(position)) => return position,
                Ok(None) => debug!(resource = self.resource, "objects have changed without an event"),
                // If the server does not answer, the list reports that.
                Err(error) => debug!(resource = self.resource, ?error, "failed to list versions"),
            }
            self.list(collection, pulse).await
        });
        tokio::select! {
            position = &mut again => return position,
            () = self.follow(collection, &mut position, pulse) => {}
        }
        again.await
    }

    /// Lists until that succeeds.
    async fn list(&self, collection: &Collection, pulse: &Pulse) -> Position {
        let mut backoff = WatchBackoff::new();
        loop {
            pulse.beat();
            match self.list_once(collection, pulse).await {
                Ok(position) => return position,
                Err(error) => self.failed(&error, &mut backoff, pulse).await,
            }
        }
    }

    /// Records that a list has failed, and waits until it is to be tried again. Where the operator may not read the definition of an
    /// optional kind, it asks for the kind once in each resync period.
    async fn failed(&self, error: &Error, backoff: &mut WatchBackoff, pulse: &Pulse) {
        self.report(error);
        backoff.failed().await;
        if let Some(definition) = self.definition.filter(|_| error.obstacle() == Obstacle::NotServed) {
            let _ = pulse.beating(timeout(self.resync, definition.exists())).await;
        }
    }

    /// Lists all objects. Nothing is concluded from a list before its end.
    async fn list_once(&self, collection: &Collection, pulse: &Pulse) -> Result<Position, Error> {
        let mut listing = self.begin_list();
        let descriptor = self.kind.encoding.descriptor(R::descriptor());
        let mut pages = collection.pages(descriptor.is_some());
        loop {
            pulse.beat();
            let page = pages.next().await?;
            let mut has_more = false;
            let begin = |page: &PageMeta| has_more = pages.request(page.next());
            let (listed, newest) = (&mut listing.listed, listing.newest);
            let mut unreadable = None;
            let store = |object: Object<'_>| match self.store(object, newest, Priority::Resync) {
                Ok(key) => listed.extend(key),
                Err(error) => unreadable = Some(error),
            };
            let page = aside(|| match descriptor.zip(protobuf::Answer::of(&page)) {
                Some((descriptor, page)) => page
                    .and_then(|page| read_message_page(page, descriptor, begin, store))
                    .map_err(|error| self.unreadable(error)),
                None => read_page(&page, begin, store).map_err(Error::from),
            })?;
            if let Some(error) = unreadable {
                return Err(error);
            }
            if !has_more {
                let version = page.resource_version;
                self.end_list(&listing, &version);
                return Ok(Position { version, events: None });
            }
        }
    }

    /// Lists the versions of all objects, for which the server needs a third of the time of a list. Returns the position after it if
    /// all are cached.
    async fn compare(&self, collection: &Collection, pulse: &Pulse) -> Result<Option<Position>, Error> {
        let mut listing = self.begin_list();
        let mut news = Vec::new();
        let mut pages = collection.version_pages();
        loop {
            pulse.beat();
            let page = VersionPage::parse(&pages.next().await?)?;
            let has_more = pages.request(page.meta.next());
            for (key, version) in page.objects {
                if self.kind.cache.is_news(&key, &version, listing.newest) {
                    news.push((key.clone(), version));
                }
                listing.listed.insert(key);
            }
            if !has_more {
                // The watch may have reported them since.
                news.retain(|(key, version)| self.kind.cache.is_news(key, version, listing.newest));
                if !news.is_empty() {
                    return Ok(None);
                }
                let version = page.meta.resource_version;
                self.end_list(&listing, &version);
                return Ok(Some(Position { version, events: None }));
            }
        }
    }

    fn begin_list(&self) -> Listing {
        Listing {
            began: Instant::now(),
            newest: self.kind.cache.newest(),
            listed: HashSet::new(),
        }
    }

    /// Removes what the list lacks: no event has reported that these objects were deleted.
    fn end_list(&self, listing: &Listing, version: &str) {
        let Listing { began, newest, listed } = listing;
        let vanished = self.kind.cache.retain(self.scope, listed, *newest, version);
        self.remove(vanished);
        info!(resource = self.resource, objects = listed.len(), "listed");
        self.kind.health.listed(self.scope, *began);
    }

    /// Follows the events after a position until it has expired. May be dropped and called again.
    async fn follow(&self, collection: &Collection, position: &mut Position, pulse: &Pulse) {
        let mut backoff = WatchBackoff::new();
        let mut is_silent = false;
        loop {
            let error = match self.next_event(collection, position, pulse).await {
                Ok(true) => {
                    is_silent = false;
                    backoff.worked();
                    self.kind.health.received(self.scope);
                    continue;
                }
                // Connections are closed from time to time.
                Ok(false) => None,
                Err(error) if error.is_cut() => None,
                Err(error) => Some(error),
            };
            position.events = None;
            if let Some(error) = &error {
                self.report(error);
                // With the definition of a kind, all of its objects were deleted.
                if error.is_expired() || error.obstacle() == Obstacle::NotServed && self.definition.is_some() {
                    return;
                }
            }
            if error.is_some() || std::mem::replace(&mut is_silent, true) {
                backoff.failed().await;
            }
        }
    }

    /// Waits for an event, and stores it. Returns whether there was one before the watch ended.
    async fn next_event(&self, collection: &Collection, position: &mut Position, pulse: &Pulse) -> Result<bool, Error> {
        let events = match &mut position.events {
            Some(events) => events,
            none => {
                let descriptor = self.kind.encoding.descriptor(R::descriptor());
                let watch = collection.watch(&position.version, descriptor.is_some());
                none.insert(pulse.beating(watch).await?)
            }
        };
        let descriptor = R::descriptor().filter(|_| events.framing() == Framing::Lengths);
        let Some(event) = pulse.beating(events.next()).await? else {
            return Ok(false);
        };
        let event = match descriptor {
            Some(descriptor) => Event::parse_message(event, descriptor).map_err(|error| self.unreadable(error))?,
            None => Event::parse(event)?,
        };
        position.version = match event {
            Event::Changed(object) => {
                let version = object.version.clone();
                self.store(object, 0, Priority::Related)?;
                version
            }
            Event::Deleted(object) => {
                self.remove(self.kind.cache.remove(&object.key, &object.version));
                object.version
            }
            Event::Bookmark(version) => version,
            Event::Failed(status) => return Err((*status).into()),
        };
        Ok(true)
    }

    /// Stores an object, unless a newer version above `outdated` is cached. Its spec and its status are parsed only if it is news.
    /// Returns its name, if objects like it are kept.
    fn store(&self, object: Object<'_>, outdated: u64, priority: Priority) -> Result<Option<Key>, Error> {
        let Object { key, version, parts } = object;
        let cache = &self.kind.cache;
        if !cache.is_news(&key, &version, outdated) {
            return Ok(Some(key));
        }
        parts.check().map_err(|error| self.unreadable(error))?;
        match reduce::<R>(parts) {
            Outcome::Kept(item) => {
                let reason = Reason {
                    priority,
                    version: version.parse().ok(),
                };
                self.wake(cache.upsert_listed(item, outdated), reason);
                Ok(Some(key))
            }
            Outcome::Ignored => Ok(None),
            // It exists and can't be reduced: the cached version stays.
            Outcome::Failed => Ok(Some(key)),
        }
    }

    /// The object is requested again, as JSON.
    fn unreadable(&self, error: protobuf::Error) -> Error {
        self.kind.encoding.fall_back(self.resource, &error);
        error.into()
    }

    fn remove(&self, vanished: impl IntoIterator<Item = Vanished<R::Value>>) {
        let mut touched = Vec::new();
        for Vanished { key, owners, value } in vanished {
            touched.extend(owners);
            if let Some(on_vanish) = self.on_vanish {
                on_vanish(key, value);
            }
        }
        self.wake(touched, Priority::Related.into());
    }

    fn wake(&self, owners: Vec<Key>, reason: Reason) {
        if !owners.is_empty() {
            (self.wake)(owners, reason);
        }
    }

    fn report(&self, error: &Error) {
        let (resource, namespace) = (self.resource, self.scope);
        let is_optional = error.obstacle() == Obstacle::NotServed && self.definition.is_some();
        let is_expected = error.is_of_a_new_kind() || is_optional;
        let (obstacle, error) = (error.obstacle(), error.message(resource));
        // Once for each error, not for each attempt.
        if self.kind.health.failed(self.scope, error.clone(), obstacle) && !is_expected {
            warn!(resource, namespace, error, "the watch failed, and is retried");
        } else {
            debug!(resource, namespace, error, "the watch is retried");
        }
    }
}

/// Does work that takes milliseconds, while another thread continues with the other tasks. A current-thread runtime, as unit tests
/// have, can start no other thread for them.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        _ => work(),
    }
}
