//! The health of the watches of one kind, by namespace: one namespace may not be readable while others are.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::time::Instant;

/// An error that did not occur for this long is over. This is longer than the longest backoff.
const ERROR_LASTS: Duration = Duration::from_secs(60);

/// How long the start waits for lists that fail: longer than the longest backoff, so that each kind was tried.
const START_TIMEOUT: Duration = Duration::from_secs(45);

/// How long lists must be denied until this counts. A server that has just started denies for a moment what its rules allow.
const DENIAL: Duration = Duration::from_secs(20);

/// The namespace of a watch; `None` for all.
pub type Scope = Option<Box<str>>;

/// The health of the watches that feed one cache.
#[derive(Debug)]
pub struct Health(channel::Sender<Conditions>);

#[derive(Debug, Default)]
struct Conditions {
    /// Of the watch of all namespaces, if there is one.
    everywhere: Option<Condition>,
    /// Of the watches of namespaces.
    namespaces: BTreeMap<Box<str>, Condition>,
    errors: u64,
    lists: u64,
    /// How many of the errors said that the server does not serve the kind.
    not_served: u64,
    /// How often the server stopped to serve the kind.
    removals: u64,
}

/// The state of one watch.
#[derive(Debug, Default)]
struct Condition {
    /// When the newest of its complete lists began.
    listed: Option<Instant>,
    /// A list that began before this time is not current enough: another replica led until then.
    demanded: Option<Instant>,
    trouble: Option<Trouble>,
}

/// An error that keeps a watch from working.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    last: Instant,
    text: String,
    obstacle: Obstacle,
}

/// What keeps a watch from working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The server does not answer correctly, which may pass.
    Server,
    /// The operator has no right to. An administrator must grant it.
    Denied,
    /// The server does not know the kind. An administrator must install it.
    NotServed,
}

impl Conditions {
    fn all(&self) -> impl Iterator<Item = &Condition> {
        self.everywhere.iter().chain(self.namespaces.values())
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Condition> {
        self.everywhere.iter_mut().chain(self.namespaces.values_mut())
    }

    /// Returns the state of the watch that covers a namespace.
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

    /// Whether there are watches, and `is_so` is true of all.
    fn are_all(&self, is_so: impl Fn(&Condition) -> bool) -> bool {
        self.all().next().is_some() && self.all().all(is_so)
    }

    fn is_usable(&self) -> bool {
        self.are_all(|one| one.listed.is_some() || one.is_denied()) && self.all().any(|one| one.listed.is_some())
    }

    fn is_current(&self) -> bool {
        self.are_all(|one| one.is_current() || one.is_denied()) && self.all().any(Condition::is_current)
    }
}

impl Condition {
    fn obstacle(&self) -> Option<Obstacle> {
        self.trouble.as_ref().map(|trouble| trouble.obstacle)
    }

    fn is_denied(&self) -> bool {
        self.obstacle() == Some(Obstacle::Denied)
    }

    /// Whether it has listed, since the time that was demanded, if any.
    fn is_current(&self) -> bool {
        self.listed.is_some() && self.listed >= self.demanded
    }

    /// Whether it has listed since the demanded time, or will not list soon.
    fn is_settled(&self) -> bool {
        let hopeless = |trouble: &Trouble| {
            let since = self
                .demanded
                .map_or(trouble.since, |demanded| demanded.max(trouble.since));
            trouble.obstacle != Obstacle::Server || trouble.last.saturating_duration_since(since) > START_TIMEOUT
        };
        self.is_current() || self.trouble.as_ref().is_some_and(hopeless)
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
    /// Announces the watches that feed the cache, before the first begins.
    pub fn expect(&self, scopes: &[Option<&str>]) {
        self.0.send_modify(|conditions| {
            for scope in scopes {
                conditions.of_mut(*scope);
            }
        });
    }

    /// Returns the namespaces of the watches.
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
        self.0.borrow().are_all(|one| one.listed.is_some())
    }

    /// Waits until everything was listed.
    pub async fn synced(&self) {
        self.until(|conditions| conditions.are_all(|one| one.listed.is_some()))
            .await;
    }

    /// Demands lists that begin at this time or later. Watches whose newest list is older list again, and what waits for
    /// lists waits for these.
    pub fn demand(&self, since: Instant) {
        self.0.send_modify(|conditions| {
            for condition in conditions.all_mut() {
                condition.demanded = Some(since);
            }
        });
    }

    /// Waits until a newer list than the newest one is demanded.
    pub(super) async fn list_demanded(&self, scope: Option<&str>) {
        let is_old = |one: &Condition| one.listed.is_some() && !one.is_current();
        self.until(|conditions| conditions.of(scope).is_some_and(is_old)).await;
    }

    /// Whether a namespace was listed, and only those are missing that must not be read: the others do not wait until an
    /// administrator grants the right.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.0.borrow().is_usable()
    }

    /// Waits until [`Health::is_usable`], by lists that are not older than demanded.
    pub async fn usable(&self) {
        self.until(Conditions::is_current).await;
    }

    /// Waits until everything was listed, or can't be. It waits for a server that does not answer: after an outage, one kind is
    /// listed before another, and objects that are not listed yet do exist.
    pub async fn settled(&self) {
        self.until(|conditions| conditions.are_all(Condition::is_settled)).await;
    }

    /// Waits until each namespace was listed, or its first list has failed.
    pub async fn tried(&self) {
        self.until(|conditions| conditions.are_all(|one| one.listed.is_some() || one.trouble.is_some()))
            .await;
    }

    /// Waits until the objects of a namespace were listed, or can't be.
    pub async fn settled_in(&self, scope: Option<&str>) {
        self.until(|conditions| conditions.of(scope).is_some_and(Condition::is_settled))
            .await;
    }

    /// Whether the objects of a namespace were listed.
    #[must_use]
    pub fn is_listed(&self, scope: Option<&str>) -> bool {
        self.0.borrow().of(scope).is_some_and(|one| one.listed.is_some())
    }

    /// Waits until the objects of a namespace were listed, by a list that is not older than demanded.
    pub async fn listed_in(&self, scope: Option<&str>) {
        self.until(|conditions| conditions.of(scope).is_some_and(Condition::is_current))
            .await;
    }

    /// Whether the first list of a namespace has neither ended nor failed.
    #[must_use]
    pub fn is_pending(&self, namespace: &str) -> bool {
        let conditions = self.0.borrow();
        let condition = conditions.of(Some(namespace));
        condition.is_some_and(|one| one.listed.is_none() && one.trouble.is_none())
    }

    /// Returns why a namespace was not listed; `None` if it was.
    #[must_use]
    pub fn unseen(&self, namespace: &str) -> Option<String> {
        let conditions = self.0.borrow();
        let condition = conditions.of(Some(namespace));
        if condition.is_some_and(|one| one.listed.is_some()) {
            return None;
        }
        let trouble = condition.and_then(Condition::present_trouble);
        Some(trouble.map_or_else(|| "not listed yet".to_owned(), |trouble| trouble.text.clone()))
    }

    /// Returns why the cached objects of a namespace may have changed or been deleted: it can no longer be read. A server that does
    /// not answer is not such a reason: no client can change objects in the meantime, and after the outage the watch reports changes.
    #[must_use]
    pub fn outdated(&self, scope: Option<&str>) -> Option<String> {
        let conditions = self.0.borrow();
        let trouble = conditions
            .of(scope)
            .filter(|one| one.listed.is_some())?
            .present_trouble()?;
        (trouble.obstacle == Obstacle::Denied && trouble.lasts() >= DENIAL).then(|| trouble.text.clone())
    }

    /// Returns an error that keeps a watch from working.
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

    /// Returns how often a list or a watch has failed while the server served the kind.
    #[must_use]
    pub fn errors_while_served(&self) -> u64 {
        let conditions = self.0.borrow();
        conditions.errors - conditions.not_served
    }

    /// Returns how often a list has succeeded.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.0.borrow().lists
    }

    /// Returns how often the server stopped to serve the kind.
    #[must_use]
    pub fn removals(&self) -> u64 {
        self.0.borrow().removals
    }

    /// Whether the server does not know the kind.
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        let conditions = self.0.borrow();
        conditions.all().any(|one| one.obstacle() == Some(Obstacle::NotServed))
    }

    /// Records that the kind is not watched, because the operator has no right to.
    pub fn denied(&self, why: &str) {
        self.failed(None, why.to_owned(), Obstacle::Denied);
    }

    /// Records that a list has succeeded that began at this time.
    pub(crate) fn listed(&self, scope: Option<&str>, began: Instant) {
        self.0.send_modify(|conditions| {
            conditions.lists += 1;
            let condition = conditions.of_mut(scope);
            condition.listed = Some(began);
            condition.trouble = None;
        });
    }

    /// Records that a watch has received an event: it works.
    pub(super) fn received(&self, scope: Option<&str>) {
        let is_stuck = |conditions: &Conditions| conditions.of(scope).is_some_and(|one| one.trouble.is_some());
        if is_stuck(&self.0.borrow()) {
            self.0.send_modify(|conditions| conditions.of_mut(scope).trouble = None);
        }
    }

    /// Records an error of a watch. Returns whether it is another error than before.
    pub(super) fn failed(&self, scope: Option<&str>, text: String, obstacle: Obstacle) -> bool {
        let mut news = true;
        self.0.send_modify(|conditions| {
            conditions.errors += 1;
            conditions.not_served += u64::from(obstacle == Obstacle::NotServed);
            let last = Instant::now();
            let condition = conditions.of_mut(scope);
            let known = condition.trouble.take();
            let was_served = known.as_ref().is_none_or(|known| known.obstacle != Obstacle::NotServed);
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
            if was_served && obstacle == Obstacle::NotServed {
                conditions.removals += 1;
            }
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
    async fn unreadable_namespace_does_not_delay_others() {
        let health = of_both();
        deny(&health, BLOG);
        assert!(!health.is_usable() && !is_settled(&health), "shop is not known yet");
        health.listed(SHOP, Instant::now());
        assert!(health.is_usable() && is_settled(&health) && !health.is_synced());
        assert_eq!(health.unseen("shop"), None);
        assert_eq!(health.unseen("blog"), Some("no right".into()));
        health.listed(BLOG, Instant::now());
        assert!(health.is_synced() && health.unseen("blog").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn kind_without_readable_namespaces_is_not_usable() {
        let health = of_both();
        deny(&health, SHOP);
        deny(&health, BLOG);
        assert!(is_settled(&health) && !health.is_usable());
        assert!(!Health::default().is_usable() && !is_settled(&Health::default()));
    }

    #[tokio::test(start_paused = true)]
    async fn start_waits_for_a_failing_server_for_a_limited_time() {
        let health = of_both();
        health.listed(SHOP, Instant::now());
        let fails = || health.failed(BLOG, "busy".into(), Obstacle::Server);
        assert!(fails());
        for _ in 0..2 {
            assert!(!is_settled(&health) && !health.is_usable());
            advance(Duration::from_secs(30)).await;
            assert!(!fails(), "the same error");
        }
        assert!(is_settled(&health) && !health.is_usable());
    }

    #[tokio::test(start_paused = true)]
    async fn newer_lists_are_awaited_when_they_are_demanded() {
        let health = of_both();
        let is_demanded = |scope| health.list_demanded(scope).now_or_never().is_some();
        let is_usable = || health.usable().now_or_never().is_some();
        let list = |scope| health.listed(scope, Instant::now());
        list(SHOP);
        list(BLOG);
        assert!(is_usable() && !is_demanded(SHOP));
        advance(Duration::from_secs(1)).await;
        let began = Instant::now();
        advance(Duration::from_secs(1)).await;
        health.demand(Instant::now());
        assert!(is_demanded(SHOP) && is_demanded(BLOG));
        assert!(!is_usable() && !is_settled(&health));
        assert!(health.is_usable() && health.is_synced(), "the operator stays ready");
        health.listed(SHOP, began);
        assert!(is_demanded(SHOP), "that list began before the demand");
        list(SHOP);
        assert!(!is_demanded(SHOP) && health.listed_in(SHOP).now_or_never().is_some());
        assert!(!is_usable() && health.listed_in(BLOG).now_or_never().is_none());
        deny(&health, BLOG);
        assert!(is_usable() && is_settled(&health), "it does not delay others");
        assert!(health.listed_in(BLOG).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn errors_before_a_demand_do_not_shorten_the_wait_for_the_list() {
        let health = Health::default();
        health.listed(None, Instant::now());
        let fails = || health.failed(None, "away".into(), Obstacle::Server);
        fails();
        for _ in 0..2 {
            advance(Duration::from_secs(30)).await;
            fails();
        }
        health.demand(Instant::now());
        for _ in 0..2 {
            assert!(!is_settled(&health));
            advance(Duration::from_secs(30)).await;
            fails();
        }
        assert!(is_settled(&health));
    }

    #[tokio::test(start_paused = true)]
    async fn cache_is_outdated_while_lists_are_denied() {
        let health = of_both();
        health.listed(SHOP, Instant::now());
        health.listed(BLOG, Instant::now());
        let outdated = || health.outdated(SHOP).is_some();
        health.failed(SHOP, "away".into(), Obstacle::Server);
        advance(DENIAL).await;
        deny(&health, SHOP);
        assert!(!outdated(), "a server that has just come up denies");
        advance(DENIAL).await;
        deny(&health, SHOP);
        assert!(outdated() && health.outdated(BLOG).is_none());
        assert!(health.unseen("shop").is_none(), "cached objects are still used");
        health.received(SHOP);
        assert!(!outdated());

        deny(&health, SHOP);
        advance(DENIAL).await;
        deny(&health, SHOP);
        assert!(outdated());
        advance(ERROR_LASTS).await;
        assert!(!outdated(), "it did not occur since");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_of_all_namespaces_covers_each_namespace() {
        let health = Health::default();
        health.expect(&[None]);
        assert_eq!(health.unseen("shop"), Some("not listed yet".into()));
        health.listed(None, Instant::now());
        assert!(health.unseen("shop").is_none() && health.is_listed(SHOP) && health.is_usable());
        assert_eq!(health.scopes(), [None]);
        assert_eq!(of_both().scopes(), [Some("blog".into()), Some("shop".into())]);
    }
}
