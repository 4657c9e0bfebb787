//! Watches the apps and their children, and records when each app passes a test.

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
use model::ChildKind;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::request::{Key, path};
use crate::seen::{CHILDREN, Object, Seen};

/// How long a watch may fail to start: the API server does not serve a new kind immediately.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns whether an app has the expected state. Called after each change of the app, until it returns true.
pub type Test = Box<dyn FnMut(&Seen) -> bool + Send>;

/// The time at which each app passed its test.
pub type Reached = HashMap<Key, Instant>;

/// Watches of the apps and their children, which end when this is dropped.
pub struct Observer {
    state: Arc<Mutex<State>>,
    watches: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    apps: HashMap<Key, Seen>,
    goals: Vec<Goal>,
    /// The number of goals so far.
    numbers: u64,
    /// The error that ended a watch.
    broken: Option<String>,
}

struct Goal {
    number: u64,
    pending: HashMap<Key, Test>,
    reached: Reached,
    done: oneshot::Sender<Reached>,
}

/// Tests that are pending, for [`Observer::wait`].
#[must_use = "only `wait` returns the result"]
pub struct Pending {
    number: u64,
    reached: oneshot::Receiver<Reached>,
    count: usize,
}

impl Observer {
    /// Starts the watches, and returns when all have started.
    ///
    /// # Errors
    /// When a kind can't be watched.
    pub async fn start(client: &Client) -> Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let kinds = [None].into_iter().chain(CHILDREN.iter().copied().map(Some));
        let mut watches = Vec::new();
        for kind in kinds {
            let (started, start) = oneshot::channel();
            watches.push(tokio::spawn(watch(client.clone(), kind, Arc::clone(&state), started)));
            if timeout(TIMEOUT, start).await.is_err() {
                bail!("failed to watch {}", path(kind));
            }
        }
        Ok(Self { state, watches })
    }

    /// Starts to test these apps. An app that passes its test already has passed it now.
    pub fn expect(&self, tests: impl IntoIterator<Item = (Key, Test)>) -> Pending {
        let (done, receiver) = oneshot::channel();
        let mut state = lock(&self.state);
        state.numbers += 1;
        let number = state.numbers;
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
            .filter_map(|(key, test)| test(state.apps.get(key).unwrap_or(&absent)).then(|| key.clone()))
            .collect();
        for key in passed {
            goal.pending.remove(&key);
            goal.reached.insert(key, now);
        }
        state.goals.push(goal);
        state.settle();
        Pending {
            number,
            reached: receiver,
            count,
        }
    }

    /// Returns the state of an app.
    #[must_use]
    pub fn seen(&self, key: &Key) -> Seen {
        lock(&self.state).apps.get(key).cloned().unwrap_or_default()
    }

    /// Waits until all apps have passed their tests, and returns the time of each. Apps that do not pass in time are left out.
    ///
    /// # Errors
    /// When a watch has ended.
    pub async fn wait(&self, mut pending: Pending, limit: Duration) -> Result<Reached> {
        if let Ok(Ok(reached)) = timeout(limit, &mut pending.reached).await {
            return Ok(reached);
        }
        let mut state = lock(&self.state);
        if let Some(broken) = &state.broken {
            bail!("{broken}");
        }
        match state.goals.iter().position(|goal| goal.number == pending.number) {
            Some(at) => Ok(state.goals.swap_remove(at).reached),
            // The last app passed its test after the timeout.
            None => Ok(pending.reached.try_recv()?),
        }
    }

    /// Waits until all apps have passed their tests, and returns the time of each.
    ///
    /// # Errors
    /// When an app does not pass in time, or a watch has ended.
    pub async fn wait_for_all(&self, pending: Pending, limit: Duration) -> Result<Reached> {
        let count = pending.count;
        let reached = self.wait(pending, limit).await?;
        if reached.len() < count {
            bail!(
                "{} of {count} apps did not converge within {} s",
                count - reached.len(),
                limit.as_secs()
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

impl State {
    fn apply(&mut self, kind: Option<&'static ChildKind>, event: WatchEvent<Object>) -> Result<()> {
        let now = Instant::now();
        let (object, is_deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => return Ok(()),
            WatchEvent::Error(status) => bail!("{}", status.message),
        };
        let key = object.key();
        let seen = self.apps.entry(key.clone()).or_default();
        if is_deleted {
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

    /// Completes the goals whose apps have all passed.
    fn settle(&mut self) {
        for goal in self.goals.extract_if(.., |goal| goal.pending.is_empty()) {
            // The caller may have stopped waiting.
            let _ = goal.done.send(goal.reached);
        }
    }
}

async fn watch(
    client: Client,
    kind: Option<&'static ChildKind>,
    state: Arc<Mutex<State>>,
    started: oneshot::Sender<()>,
) {
    let Err(error) = follow(&client, kind, &state, started).await;
    let mut state = lock(&state);
    state.broken = Some(format!("the watch of {} ended: {error:#}", path(kind)));
    // Ends all waits.
    state.goals.clear();
}

/// Watches a kind until there is an error. When the API server ends a watch, the next one continues at the last version.
async fn follow(
    client: &Client,
    kind: Option<&'static ChildKind>,
    state: &Mutex<State>,
    started: oneshot::Sender<()>,
) -> Result<Infallible> {
    let mut version = "0".to_owned();
    let mut events = start_watch(client, kind, &version).await?;
    // The caller may have stopped waiting.
    let _ = started.send(());
    loop {
        while let Some(event) = events.next().await {
            let event = event?;
            if let Some(newer) = version_of(&event) {
                newer.clone_into(&mut version);
            }
            lock(state).apply(kind, event)?;
        }
        events = start_watch(client, kind, &version).await?;
    }
}

/// Starts a watch after a version.
async fn start_watch(
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
            Err(_) if started.elapsed() < TIMEOUT => sleep(Duration::from_millis(100)).await,
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

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
