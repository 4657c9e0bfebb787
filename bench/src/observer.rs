//! Who is told by watches what becomes of the apps, and when.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Request as HttpRequest;
use kube::Client;
use kube::core::WatchEvent;
use model::{CHILDREN, ChildKind};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::request::{Key, path};
use crate::seen::{Object, Seen};

/// How long a kind that is new may refuse to be watched.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether an app has come to where it is waited for. It is asked after each change, in their order, and never again
/// after it said so.
pub type Test = Box<dyn FnMut(&Seen) -> bool + Send>;

/// When each app came to where it is waited for.
pub type Reached = HashMap<Key, Instant>;

/// Watches of the apps and their children, which end when this is dropped.
pub struct Observer {
    book: Arc<Mutex<Book>>,
    watches: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Book {
    apps: HashMap<Key, Seen>,
    goals: Vec<Goal>,
    /// How many goals there were so far.
    numbers: u64,
    /// Why nothing more is told.
    broken: Option<String>,
}

struct Goal {
    number: u64,
    pending: HashMap<Key, Test>,
    reached: Reached,
    done: oneshot::Sender<Reached>,
}

/// What is waited for.
#[must_use = "a goal is reached behind one's back"]
pub struct Pending {
    number: u64,
    reached: oneshot::Receiver<Reached>,
    count: usize,
}

impl Observer {
    /// Begins to watch, and returns when each watch has begun.
    ///
    /// # Errors
    /// When a kind can't be watched.
    pub async fn start(client: &Client) -> Result<Self> {
        let book = Arc::new(Mutex::new(Book::default()));
        let kinds = [None].into_iter().chain(CHILDREN.iter().copied().map(Some));
        let mut watches = Vec::new();
        for kind in kinds {
            let (begun, begins) = oneshot::channel();
            watches.push(tokio::spawn(watch(client.clone(), kind, Arc::clone(&book), begun)));
            if timeout(PATIENCE, begins).await.is_err() {
                bail!("failed to watch {}", path(kind));
            }
        }
        Ok(Self { book, watches })
    }

    /// Begins to wait until each of these apps passes its test. One that does already has passed now.
    pub fn expect(&self, tests: impl IntoIterator<Item = (Key, Test)>) -> Pending {
        let (done, receiver) = oneshot::channel();
        let mut book = lock(&self.book);
        book.numbers += 1;
        let number = book.numbers;
        let mut goal = Goal {
            number,
            pending: tests.into_iter().collect(),
            reached: Reached::new(),
            done,
        };
        let count = goal.pending.len();
        let now = Instant::now();
        let absent = Seen::default();
        let passed: Vec<Key> = goal
            .pending
            .iter_mut()
            .filter_map(|(key, test)| test(book.apps.get(key).unwrap_or(&absent)).then(|| key.clone()))
            .collect();
        for key in passed {
            goal.pending.remove(&key);
            goal.reached.insert(key, now);
        }
        book.goals.push(goal);
        book.settle();
        Pending {
            number,
            reached: receiver,
            count,
        }
    }

    /// Returns what is known of an app.
    #[must_use]
    pub fn seen(&self, key: &Key) -> Seen {
        lock(&self.book).apps.get(key).cloned().unwrap_or_default()
    }

    /// Waits until all have come to where they are waited for, and returns when each did; without those that did not
    /// in time.
    ///
    /// # Errors
    /// When a watch has ended.
    pub async fn wait(&self, mut pending: Pending, patience: Duration) -> Result<Reached> {
        if let Ok(Ok(reached)) = timeout(patience, &mut pending.reached).await {
            return Ok(reached);
        }
        let mut book = lock(&self.book);
        if let Some(broken) = &book.broken {
            bail!("{broken}");
        }
        match book.goals.iter().position(|goal| goal.number == pending.number) {
            Some(at) => Ok(book.goals.swap_remove(at).reached),
            // The last has come between the end of the time and here.
            None => Ok(pending.reached.try_recv()?),
        }
    }

    /// The same where one that does not come is an error, and where only the last matters.
    ///
    /// # Errors
    /// Says how many have not come.
    pub async fn wait_for_all(&self, pending: Pending, patience: Duration) -> Result<Reached> {
        let count = pending.count;
        let reached = self.wait(pending, patience).await?;
        if reached.len() < count {
            bail!(
                "{} of {count} did not come within {} s",
                count - reached.len(),
                patience.as_secs()
            );
        }
        Ok(reached)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        for watch in &self.watches {
            watch.abort();
        }
    }
}

impl Book {
    fn take(&mut self, kind: Option<&'static ChildKind>, event: WatchEvent<Object>) -> Result<()> {
        let now = Instant::now();
        let (object, gone) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => return Ok(()),
            WatchEvent::Error(status) => bail!("{}", status.message),
        };
        let key = object.key();
        let seen = self.apps.entry(key.clone()).or_default();
        if gone {
            seen.delete(kind);
        } else {
            seen.apply(kind, &object);
        }
        for goal in &mut self.goals {
            if goal.pending.get_mut(&key).is_some_and(|test| test(seen)) {
                goal.pending.remove(&key);
                goal.reached.insert(key.clone(), now);
            }
        }
        self.settle();
        Ok(())
    }

    /// Lets those go on whose apps are all where they are waited for.
    fn settle(&mut self) {
        for goal in self.goals.extract_if(.., |goal| goal.pending.is_empty()) {
            // Whoever waited may have gone.
            let _ = goal.done.send(goal.reached);
        }
    }
}

async fn watch(client: Client, kind: Option<&'static ChildKind>, book: Arc<Mutex<Book>>, begun: oneshot::Sender<()>) {
    let Err(error) = follow(&client, kind, &book, begun).await;
    let mut book = lock(&book);
    book.broken = Some(format!("the watch of {} is over: {error:#}", path(kind)));
    // Nobody waits any longer for what can't be told.
    book.goals.clear();
}

/// Follows a kind for ever. An API server ends the watch of who is slow to read; the next one goes on where it was.
async fn follow(
    client: &Client,
    kind: Option<&'static ChildKind>,
    book: &Mutex<Book>,
    begun: oneshot::Sender<()>,
) -> Result<Infallible> {
    let mut version = "0".to_owned();
    let mut events = begin(client, kind, &version).await?;
    // Who no longer waits for it need not be told.
    let _ = begun.send(());
    loop {
        while let Some(event) = events.next().await {
            let event = event?;
            if let Some(newer) = version_of(&event) {
                newer.clone_into(&mut version);
            }
            lock(book).take(kind, event)?;
        }
        events = begin(client, kind, &version).await?;
    }
}

/// Begins to watch behind a version; a kind that is new is not served at once.
async fn begin(
    client: &Client,
    kind: Option<&'static ChildKind>,
    version: &str,
) -> Result<BoxStream<'static, kube::Result<WatchEvent<Object>>>> {
    let path = path(kind);
    let uri = format!("{path}?watch=1&resourceVersion={version}&allowWatchBookmarks=1&timeoutSeconds=86400");
    let started = Instant::now();
    loop {
        match client.request_events(HttpRequest::get(&uri).body(Vec::new())?).await {
            Ok(events) => return Ok(events.boxed()),
            Err(_) if started.elapsed() < PATIENCE => sleep(Duration::from_millis(100)).await,
            Err(error) => return Err(error.into()),
        }
    }
}

fn version_of(event: &WatchEvent<Object>) -> Option<&str> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            Some(&object.metadata.resource_version)
        }
        WatchEvent::Bookmark(bookmark) => Some(&bookmark.metadata.resource_version),
        WatchEvent::Error(_) => None,
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}
