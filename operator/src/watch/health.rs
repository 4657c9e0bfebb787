//! How the watches of one kind are doing, namespace by namespace: one may be out of reach while the others are not. There is
//! a function for each question that somebody has.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::time::Instant;

/// An error counts as over when nothing was heard of it for longer than the longest wait between two tries.
const ERROR_LASTS: Duration = Duration::from_secs(60);

/// How long a server that fails at lists is waited for at the start: longer than the longest wait between two
/// tries, so that each kind has had its turn.
const PATIENCE: Duration = Duration::from_secs(45);

/// How long a denial has to last until it is taken for what it is. A server that has just come up denies for a moment what
/// its rules allow.
const DENIAL: Duration = Duration::from_secs(20);

/// Where a watch looks: into a namespace, or everywhere.
pub type Scope = Option<Box<str>>;

/// How the watches that feed one cache are doing.
#[derive(Debug)]
pub struct Health(channel::Sender<Conditions>);

#[derive(Debug, Default)]
struct Conditions {
    /// Of the watch of everything, where there is one.
    everywhere: Option<Condition>,
    /// Of the watches of namespaces.
    namespaces: BTreeMap<Box<str>, Condition>,
    errors: u64,
    lists: u64,
}

/// How one watch is doing.
#[derive(Debug, Default)]
struct Condition {
    /// It has completed a list.
    listed: bool,
    trouble: Option<Trouble>,
}

/// An error that a watch is stuck at.
#[derive(Debug)]
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

impl Conditions {
    fn all(&self) -> impl Iterator<Item = &Condition> {
        self.everywhere.iter().chain(self.namespaces.values())
    }

    /// Returns that of the watch that shows a namespace.
    fn of(&self, scope: Option<&str>) -> Option<&Condition> {
        let own = scope.and_then(|namespace| self.namespaces.get(namespace));
        own.or(self.everywhere.as_ref())
    }

    fn of_mut(&mut self, scope: Option<&str>) -> &mut Condition {
        match scope {
            Some(namespace) => self.namespaces.entry(namespace.into()).or_default(),
            None => self.everywhere.get_or_insert_default(),
        }
    }

    /// Whether there are watches, and all of them are so.
    fn are_all(&self, is_so: impl Fn(&Condition) -> bool) -> bool {
        self.all().next().is_some() && self.all().all(is_so)
    }

    fn is_usable(&self) -> bool {
        self.are_all(|one| one.listed || one.obstacle() == Some(Obstacle::Denied)) && self.all().any(|one| one.listed)
    }
}

impl Condition {
    fn obstacle(&self) -> Option<Obstacle> {
        self.trouble.as_ref().map(|trouble| trouble.obstacle)
    }

    /// Whether it has listed, or will not soon.
    fn is_settled(&self) -> bool {
        let hopeless = |trouble: &Trouble| trouble.obstacle != Obstacle::Server || trouble.lasts() > PATIENCE;
        self.listed || self.trouble.as_ref().is_some_and(hopeless)
    }

    fn present_trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref().filter(|trouble| trouble.is_present())
    }
}

impl Trouble {
    fn is_present(&self) -> bool {
        self.last.elapsed() < ERROR_LASTS
    }

    fn lasts(&self) -> Duration {
        self.last - self.since
    }
}

impl Default for Health {
    fn default() -> Self {
        Self(channel::Sender::new(Conditions::default()))
    }
}

impl Health {
    /// Says which watches feed the cache, before the first begins.
    pub fn expect(&self, scopes: &[Option<&str>]) {
        self.0.send_modify(|conditions| {
            for scope in scopes {
                conditions.of_mut(*scope);
            }
        });
    }

    /// Returns where the watches look.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        let conditions = self.0.borrow();
        let everywhere = conditions.everywhere.iter().map(|_| None);
        everywhere
            .chain(conditions.namespaces.keys().cloned().map(Some))
            .collect()
    }

    /// Whether everything was listed once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0.borrow().are_all(|one| one.listed)
    }

    /// Waits until everything was listed.
    pub async fn synced(&self) {
        self.until(|conditions| conditions.are_all(|one| one.listed)).await;
    }

    /// Whether something was listed, and nothing is missing but what may not be read: that would be waited for until
    /// somebody grants it, and is no reason to keep the rest waiting.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.0.borrow().is_usable()
    }

    /// Waits until something was listed, and nothing is missing but what may not be read.
    pub async fn usable(&self) {
        self.until(Conditions::is_usable).await;
    }

    /// Waits until everything was listed, or can't be. A server that is away is waited for: when it is back, it
    /// answers for one kind before it answers for another, and what is not listed yet is not missing.
    pub async fn settled(&self) {
        self.until(|conditions| conditions.are_all(Condition::is_settled)).await;
    }

    /// Waits until the objects of a namespace were listed, or can't be.
    pub async fn settled_in(&self, scope: Option<&str>) {
        self.until(|conditions| conditions.of(scope).is_some_and(Condition::is_settled))
            .await;
    }

    /// Whether the objects of a namespace were listed.
    #[must_use]
    pub fn is_listed(&self, scope: Option<&str>) -> bool {
        self.0.borrow().of(scope).is_some_and(|one| one.listed)
    }

    /// Waits until the objects of a namespace were listed.
    pub async fn listed_in(&self, scope: Option<&str>) {
        self.until(|conditions| conditions.of(scope).is_some_and(|one| one.listed))
            .await;
    }

    /// Returns why nothing is known of a namespace; `None` if it was listed.
    #[must_use]
    pub fn unseen(&self, namespace: &str) -> Option<String> {
        let conditions = self.0.borrow();
        let condition = conditions.of(Some(namespace));
        if condition.is_some_and(|one| one.listed) {
            return None;
        }
        let trouble = condition.and_then(Condition::present_trouble);
        Some(trouble.map_or_else(|| "not listed yet".to_owned(), |trouble| trouble.text.clone()))
    }

    /// Returns why what was seen of a namespace may be gone or another by now: it may not be read any more. A server that
    /// is away is no such reason. Nobody could be told meanwhile, and when it is back, it says what has changed.
    #[must_use]
    pub fn outdated(&self, scope: Option<&str>) -> Option<String> {
        let conditions = self.0.borrow();
        let trouble = conditions.of(scope).filter(|one| one.listed)?.present_trouble()?;
        (trouble.obstacle == Obstacle::Denied && trouble.lasts() >= DENIAL).then(|| trouble.text.clone())
    }

    /// Returns an error that a watch is stuck at.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        let conditions = self.0.borrow();
        let mut troubles = conditions.all().filter_map(Condition::present_trouble);
        troubles.next().map(|trouble| trouble.text.clone())
    }

    /// Returns how often a list or a watch has failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.0.borrow().errors
    }

    /// Returns how often a list has succeeded.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.0.borrow().lists
    }

    /// Whether the server has no such kind.
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        let conditions = self.0.borrow();
        conditions.all().any(|one| one.obstacle() == Some(Obstacle::NotServed))
    }

    /// Says that nobody watches, because nobody may.
    pub fn expect_deletion(&self, why: &str) {
        self.failed(None, why.to_owned(), Obstacle::Denied);
    }

    pub(crate) fn listed(&self, scope: Option<&str>) {
        self.0.send_modify(|conditions| {
            conditions.lists += 1;
            *conditions.of_mut(scope) = Condition {
                listed: true,
                trouble: None,
            };
        });
    }

    /// Takes in that a watch has told something: it is stuck no more.
    pub(super) fn heard(&self, scope: Option<&str>) {
        let is_stuck = |conditions: &Conditions| conditions.of(scope).is_some_and(|one| one.trouble.is_some());
        if is_stuck(&self.0.borrow()) {
            self.0.send_modify(|conditions| conditions.of_mut(scope).trouble = None);
        }
    }

    /// Returns whether this is news.
    pub(super) fn failed(&self, scope: Option<&str>, text: String, obstacle: Obstacle) -> bool {
        let mut news = true;
        self.0.send_modify(|conditions| {
            conditions.errors += 1;
            let last = Instant::now();
            let condition = conditions.of_mut(scope);
            let known = condition.trouble.take();
            news = known.as_ref().is_none_or(|known| known.text != text);
            let since = known
                .filter(|known| known.is_present() && known.obstacle == obstacle)
                .map_or(last, |known| known.since);
            condition.trouble = Some(Trouble {
                since,
                last,
                text,
                obstacle,
            });
        });
        news
    }

    async fn until(&self, is_so: impl Fn(&Conditions) -> bool) {
        let mut changes = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = changes.wait_for(|conditions| is_so(conditions)).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    const SHOP: Option<&str> = Some("shop");
    const BLOG: Option<&str> = Some("blog");

    fn of_both() -> Health {
        let health = Health::default();
        health.expect(&[SHOP, BLOG]);
        health
    }

    fn is_settled(health: &Health) -> bool {
        health.settled().now_or_never().is_some()
    }

    fn deny(health: &Health, scope: Option<&str>) -> bool {
        health.failed(scope, "no right".into(), Obstacle::Denied)
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_may_not_be_read_keeps_no_other_waiting() {
        let health = of_both();
        deny(&health, BLOG);
        assert!(!health.is_usable() && !is_settled(&health), "shop is not known yet");
        health.listed(SHOP);
        assert!(health.is_usable() && is_settled(&health) && !health.is_synced());
        assert_eq!(health.unseen("shop"), None);
        assert_eq!(health.unseen("blog"), Some("no right".into()));
        health.listed(BLOG);
        assert!(health.is_synced() && health.unseen("blog").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_usable_of_which_nothing_may_be_read() {
        let health = of_both();
        deny(&health, SHOP);
        deny(&health, BLOG);
        assert!(is_settled(&health) && !health.is_usable());
        assert!(!Health::default().is_usable() && !is_settled(&Health::default()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_is_waited_for_but_not_for_ever() {
        let health = of_both();
        health.listed(SHOP);
        let fails = || health.failed(BLOG, "busy".into(), Obstacle::Server);
        assert!(fails());
        for _ in 0..2 {
            assert!(!is_settled(&health) && !health.is_usable());
            advance(Duration::from_secs(30)).await;
            assert!(!fails(), "the same is no news");
        }
        assert!(is_settled(&health) && !health.is_usable());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_denied_for_a_while_is_outdated_until_something_is_heard() {
        let health = of_both();
        health.listed(SHOP);
        health.listed(BLOG);
        let outdated = || health.outdated(SHOP).is_some();
        health.failed(SHOP, "away".into(), Obstacle::Server);
        advance(DENIAL).await;
        deny(&health, SHOP);
        assert!(!outdated(), "a server that has just come up denies");
        advance(DENIAL).await;
        deny(&health, SHOP);
        assert!(outdated() && health.outdated(BLOG).is_none());
        assert!(health.unseen("shop").is_none(), "what was seen is still planned by");
        health.heard(SHOP);
        assert!(!outdated());

        deny(&health, SHOP);
        advance(DENIAL).await;
        deny(&health, SHOP);
        assert!(outdated());
        advance(ERROR_LASTS).await;
        assert!(!outdated(), "nothing was heard of it since");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_of_everything_shows_each_namespace() {
        let health = Health::default();
        health.expect(&[None]);
        assert_eq!(health.unseen("shop"), Some("not listed yet".into()));
        health.listed(None);
        assert!(health.unseen("shop").is_none() && health.is_listed(SHOP) && health.is_usable());
        assert_eq!(health.scopes(), [None]);
        assert_eq!(of_both().scopes(), [Some("blog".into()), Some("shop".into())]);
    }
}
