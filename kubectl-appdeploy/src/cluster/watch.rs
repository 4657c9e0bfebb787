//! Watches that survive a lost connection, and report it.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watch_object, watcher};
use tokio::time::{Instant, sleep};

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};
use crate::terminal::ui::Ui;

/// The pause before the first attempt to connect again, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// How long a command without `--timeout` keeps trying without a connection.
const LIMIT: Duration = Duration::from_secs(60);

/// A change that a watch reports.
#[derive(Debug)]
pub enum Change<T> {
    /// A list begins.
    Begin(T),
    /// Something in the cluster.
    New(T),
    /// The cluster cannot be reached, which this error explains. The watch begins again with a list.
    Lost(Error),
}

impl<T> Change<T> {
    /// Maps the value.
    pub fn map<U>(self, new: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Begin(value) => Change::Begin(new(value)),
            Self::New(value) => Change::New(new(value)),
            Self::Lost(error) => Change::Lost(error),
        }
    }
}

/// The stream of a watch. Only permanent failures are errors.
pub type Changes<T> = BoxStream<'static, Result<Change<T>>>;

/// A watch that prints when the connection to the cluster is lost, and when it is back.
pub struct Watched<T> {
    changes: Changes<T>,
    connection: Connection,
}

impl<T> Watched<T> {
    /// Returns a watch of these changes.
    pub const fn new(changes: Changes<T>, connection: Connection) -> Self {
        Self { changes, connection }
    }

    /// Returns the next change, or `None` at the end. Only permanent failures are errors.
    pub async fn next(&mut self, ui: &mut Ui) -> Result<Option<T>> {
        while let Some(change) = self.changes.next().await {
            if let Some(value) = self.connection.take(change?, ui)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// Follows one object after a change of it: `None` while it does not exist. A lost connection is printed, and does not end it.
pub fn follow_object<K>(cluster: &Cluster, api: Api<K>, name: &str) -> Watched<Option<K>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    Watched::new(follow_one(cluster, api, name), Connection::after_a_change())
}

/// Follows one object: `None` while it does not exist. Reports when the cluster cannot be reached.
pub fn follow_one<K>(cluster: &Cluster, api: Api<K>, name: &str) -> Changes<Option<K>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let name = name.to_owned();
    let start = move || watch_object(api.clone(), &name).default_backoff().boxed();
    follow(cluster, start, |_| true)
}

/// Follows all objects of a selection, and reports when the cluster cannot be reached.
pub fn follow_all<K>(cluster: &Cluster, api: Api<K>, config: watcher::Config) -> Changes<watcher::Event<K>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let start = move || watcher(api.clone(), config.clone()).default_backoff().boxed();
    // The watcher reports a list before it requests it.
    follow(cluster, start, |event| !matches!(event, watcher::Event::Init))
}

type Watch<T> = BoxStream<'static, watcher::Result<T>>;

struct State<T> {
    cluster: Cluster,
    start: Box<dyn Fn() -> Watch<T> + Send>,
    /// Whether this item shows that the cluster has answered.
    is_answer: fn(&T) -> bool,
    /// Nothing after a loss.
    watch: Option<Watch<T>>,
    pause: Duration,
}

fn follow<T: Send + 'static>(
    cluster: &Cluster,
    start: impl Fn() -> Watch<T> + Send + 'static,
    is_answer: fn(&T) -> bool,
) -> Changes<T> {
    let state = State {
        cluster: cluster.clone(),
        watch: Some(start()),
        start: Box::new(start),
        is_answer,
        pause: PAUSES.0,
    };
    stream::unfold(state, next).boxed()
}

async fn next<T>(mut state: State<T>) -> Option<(Result<Change<T>>, State<T>)> {
    loop {
        if state.watch.is_none() {
            sleep(state.pause).await;
            state.pause = (state.pause * 2).min(PAUSES.1);
            // Begin with a list: a resumed watch reports nothing until something changes.
            state.watch = Some((state.start)());
        }
        let told = match &mut state.watch {
            Some(watch) => watch.next().await?,
            None => continue,
        };
        let source = match told {
            Ok(value) if !(state.is_answer)(&value) => return Some((Ok(Change::Begin(value)), state)),
            Ok(value) => {
                state.pause = PAUSES.0;
                return Some((Ok(Change::New(value)), state));
            }
            Err(watcher::Error::InitialListFailed(source) | watcher::Error::WatchStartFailed(source)) => source,
            // A stream that ended: the watcher opens the next one.
            Err(_) => continue,
        };
        if matches!(&source, kube::Error::Api(status) if status.code == 410) {
            continue;
        }
        let is_final = is_final(&source);
        let error = state.cluster.explain(source);
        state.watch = None;
        let told = if is_final { Err(error) } else { Ok(Change::Lost(error)) };
        return Some((told, state));
    }
}

/// Whether a retry would get the same answer.
fn is_final(source: &kube::Error) -> bool {
    matches!(source, kube::Error::Api(status) if matches!(status.code, 400..=407 | 409 | 422))
}

/// Keeps track of the connection of a watch, and reports its loss and its return once each.
#[derive(Debug, Default)]
pub struct Connection {
    has_begun: bool,
    lost: Option<Instant>,
    limit: Option<Duration>,
}

impl Connection {
    /// Returns the connection of a watch that fails if it cannot begin. Without `bounded`, it is retried until the deadline of the
    /// caller.
    pub fn first(bounded: bool) -> Self {
        Self {
            limit: bounded.then_some(LIMIT),
            ..Self::default()
        }
    }

    /// Returns the connection of a watch that follows a change, and is bounded by a time of its own.
    pub fn after_a_change() -> Self {
        Self {
            has_begun: true,
            ..Self::default()
        }
    }

    /// Returns the value. A loss is printed, and is an error if there was no connection before, or none for too long.
    pub fn take<T>(&mut self, change: Change<T>, ui: &mut Ui) -> Result<Option<T>> {
        let (value, said) = self.judge(change)?;
        match said {
            Some(ConnectionEvent::Lost(why)) => ui.warn(&why),
            Some(ConnectionEvent::Restored) => ui.eprintln("connected again"),
            None => {}
        }
        Ok(value)
    }

    /// As [`Self::take`], and returns the event instead of printing it.
    pub fn judge<T>(&mut self, change: Change<T>) -> Result<(Option<T>, Option<ConnectionEvent>)> {
        let error = match change {
            Change::Begin(value) => return Ok((Some(value), None)),
            Change::New(value) => {
                self.has_begun = true;
                return Ok((Some(value), self.lost.take().map(|_| ConnectionEvent::Restored)));
            }
            Change::Lost(error) => error,
        };
        let is_first = self.lost.is_none();
        let since = *self.lost.get_or_insert_with(Instant::now);
        if !self.has_begun || self.limit.is_some_and(|limit| since.elapsed() >= limit) {
            return Err(error);
        }
        Ok((None, is_first.then(|| ConnectionEvent::Lost(lost(&error)))))
    }
}

/// A change of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// It is lost, and why.
    Lost(String),
    /// It is back.
    Restored,
}

fn lost(error: &Error) -> String {
    let why = match error.whys() {
        [] => error.sentence().to_owned(),
        _ => error.reasons(),
    };
    format!("the connection to the cluster is lost, and what was shown may be outdated; trying again ({why})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Change<()> {
        Change::Lost(Error::failed("cannot reach the cluster at x").why("connection refused"))
    }

    #[tokio::test(start_paused = true)]
    async fn loss_and_return_are_reported_once() {
        let mut connection = Connection::first(true);
        assert_eq!(connection.judge(Change::New(())), Ok((Some(()), None)));
        let said = Some(ConnectionEvent::Lost(
            "the connection to the cluster is lost, and what was shown may be outdated; trying again (connection refused)"
                .to_owned(),
        ));
        assert_eq!(connection.judge(failure()), Ok((None, said.clone())));
        sleep(Duration::from_secs(5)).await;
        assert_eq!(connection.judge(failure()), Ok((None, None)));
        assert_eq!(connection.judge(Change::Begin(())), Ok((Some(()), None)));
        assert_eq!(
            connection.judge(Change::New(())),
            Ok((Some(()), Some(ConnectionEvent::Restored)))
        );
        // Another loss is reported again, and has a limit of its own.
        sleep(Duration::from_secs(50)).await;
        assert_eq!(connection.judge(failure()), Ok((None, said)));
        sleep(Duration::from_secs(61)).await;
        assert!(connection.judge(failure()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_cannot_begin_ends_unless_it_has_no_limit() {
        let mut first = Connection::first(false);
        assert!(first.judge(Change::Begin(())).is_ok() && first.judge(failure()).is_err());
        let mut after = Connection::after_a_change();
        for _ in 0..3 {
            assert!(after.judge(failure()).is_ok());
            sleep(Duration::from_secs(1000)).await;
        }
    }
}
