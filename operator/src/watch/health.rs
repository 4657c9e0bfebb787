//! How the watches of one kind are doing.

use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::time::Instant;

/// An error counts as over when nothing was heard of it for longer than the longest wait between two tries.
const ERROR_LASTS: Duration = Duration::from_secs(60);

/// How long a server that fails at lists is waited for at the start: longer than the longest wait between two
/// tries, so that each kind has had its turn.
const PATIENCE: Duration = Duration::from_secs(45);

/// How a watch, or several of one kind, is doing.
#[derive(Debug)]
pub struct Health(channel::Sender<Condition>);

#[derive(Clone, Debug)]
struct Condition {
    /// Watches that have not completed their first list.
    pending: usize,
    errors: u64,
    lists: u64,
    error: Option<Trouble>,
}

/// An error that a watch is stuck at.
#[derive(Clone, Debug)]
struct Trouble {
    since: Instant,
    last: Instant,
    text: String,
    obstacle: Obstacle,
}

/// What a watch is stuck at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The server does not answer as it should. It will.
    Server,
    /// We may not. Only a person can change that.
    Denied,
    /// The server has no such kind. Only a person can change that.
    NotServed,
}

impl Default for Health {
    fn default() -> Self {
        Self(channel::Sender::new(Condition {
            pending: 1,
            errors: 0,
            lists: 0,
            error: None,
        }))
    }
}

impl Health {
    /// Says how many watches feed the cache, before the first begins.
    pub fn expect(&self, watches: usize) {
        self.0.send_modify(|condition| condition.pending = watches);
    }

    /// Whether everything was listed once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0.borrow().pending == 0
    }

    /// Returns the error that the watch is stuck at.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        let condition = self.0.borrow();
        condition
            .error
            .as_ref()
            .filter(|error| error.last.elapsed() < ERROR_LASTS)
            .map(|error| error.text.clone())
    }

    /// Returns how often a list or a watch has failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.0.borrow().errors
    }

    /// Returns how often everything was listed.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.0.borrow().lists
    }

    /// Whether the server has no such kind.
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        let condition = self.0.borrow();
        condition
            .error
            .as_ref()
            .is_some_and(|error| error.obstacle == Obstacle::NotServed)
    }

    /// Waits until everything was listed, or can't be. A server that is away is waited for: when it is back, it
    /// answers for one kind before it answers for another, and what is not listed yet is not missing.
    pub async fn settled(&self) {
        let mut changes = self.0.subscribe();
        let given_up = |condition: &Condition| {
            let hopeless = |error: &Trouble| error.obstacle != Obstacle::Server || error.last - error.since > PATIENCE;
            condition.pending == 0 || condition.error.as_ref().is_some_and(hopeless)
        };
        // The sender lives as long as `self`.
        let _ = changes.wait_for(given_up).await;
    }

    /// Waits until everything was listed.
    pub async fn synced(&self) {
        let mut changes = self.0.subscribe();
        let _ = changes.wait_for(|condition| condition.pending == 0).await;
    }

    /// Says that nobody watches, because nobody may.
    pub fn give_up(&self, why: &str) {
        self.failed(why.to_owned(), Obstacle::Denied);
    }

    pub(super) fn listed(&self, first: bool) {
        self.0.send_modify(|condition| {
            condition.pending = condition.pending.saturating_sub(usize::from(first));
            condition.lists += 1;
            condition.error = None;
        });
    }

    /// Returns whether this is news.
    pub(super) fn failed(&self, text: String, obstacle: Obstacle) -> bool {
        let mut news = true;
        self.0.send_modify(|condition| {
            let last = Instant::now();
            condition.errors += 1;
            let known = condition.error.take();
            news = known.as_ref().is_none_or(|known| known.text != text);
            let since = known
                .filter(|known| known.last.elapsed() < ERROR_LASTS)
                .map_or(last, |known| known.since);
            condition.error = Some(Trouble {
                since,
                last,
                text,
                obstacle,
            });
        });
        news
    }
}
