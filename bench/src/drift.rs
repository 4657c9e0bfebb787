//! Changes of apps and their children at a constant rate, and the time until the operator has handled each.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use kube::Client;
use model::ChildKind;
use tokio::time::sleep_until;

use crate::loader::send;
use crate::observer::{Observer, Reached, Test};
use crate::request::{Key, Sent, delete, relabel};
use crate::seen::{CHILDREN, Seen};
use crate::statistics::Spread;

/// The number of changes per second.
pub const RATE: u32 = 20;

/// How long the operator may take for the last change.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The minimum number of children that are changed.
const LEAST: usize = 30;

/// What happens to a child.
#[derive(Clone, Copy)]
pub enum Drift {
    /// Its label changes.
    Changed,
    /// It is deleted.
    Deleted,
}

/// A change of an app or its child.
pub struct Change {
    /// The app.
    pub key: Key,
    /// The request.
    pub request: Sent,
    /// Whether the operator has handled it.
    pub test: Test,
}

/// Returns the numbers of the apps with a changed child: one child of a hundred, if each app has three.
#[must_use]
pub fn affected(apps: usize) -> Vec<usize> {
    let count = (apps * 3 / 100).max(LEAST).min(apps);
    (0..count).map(|number| number * apps / count).collect()
}

/// Returns the changes of children. The kinds alternate.
///
/// # Errors
/// When a request can't be built.
pub fn changes(apps: usize, drift: Drift, observer: &Observer) -> Result<Vec<Change>> {
    let change = |(number, app): (usize, usize)| {
        let key = Key::of(app);
        let kind = CHILDREN[number % CHILDREN.len()];
        let request = match drift {
            Drift::Changed => relabel(kind, &key)?,
            Drift::Deleted => delete(kind, &key)?,
        };
        let before = observer.seen(&key);
        Ok(Change {
            test: restored(kind, &before),
            key,
            request,
        })
    };
    affected(apps).into_iter().enumerate().map(change).collect()
}

/// Returns a test that a child was deleted or changed, and then restored.
fn restored(kind: &'static ChildKind, before: &Seen) -> Test {
    let before = before.label(kind).map(str::to_owned);
    let mut was_different = false;
    Box::new(move |seen| {
        let is_different = seen.label(kind) != before.as_deref();
        was_different |= is_different;
        was_different && !is_different
    })
}

/// Sends changes at a constant rate. Returns the times in ms from each response until the operator had handled the change,
/// and the number of changes that it did not handle.
///
/// # Errors
/// When a request is rejected or a watch ends.
pub async fn send_all(client: &Client, observer: &Observer, changes: Vec<Change>) -> Result<(Spread, usize)> {
    let count = changes.len();
    let (tests, requests): (Vec<_>, Vec<_>) = changes
        .into_iter()
        .map(|change| ((change.key.clone(), change.test), (change.key, change.request)))
        .unzip();
    let pending = observer.expect(tests);
    let begin = Instant::now();
    let sent = requests
        .into_iter()
        .zip(0_u32..)
        .map(|((key, request), number)| async move {
            sleep_until((begin + number * Duration::from_secs(1) / RATE).into()).await;
            send(client, key, request).await
        });
    let answers = try_join_all(sent).await?;
    let reached = observer.wait(pending, TIMEOUT).await?;
    let times = answers
        .iter()
        .filter_map(|answer| millis(&reached, &answer.key, answer.at));
    let spread = Spread::of(times.collect());
    Ok((spread, count - spread.count))
}

/// Returns the time in ms until an app passed its test. The event of a watch may arrive before the response.
#[must_use]
pub fn millis(reached: &Reached, key: &Key, since: Instant) -> Option<f64> {
    let at = reached.get(key)?;
    Some(at.saturating_duration_since(since).as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::seen::Object;

    #[test]
    fn each_app_is_changed_at_most_once() {
        for apps in [10, 100, 1000, 10_000] {
            let affected = affected(apps);
            let different: BTreeSet<usize> = affected.iter().copied().collect();
            assert_eq!(different.len(), affected.len());
            assert!(affected.iter().all(|app| *app < apps));
        }
        assert_eq!(
            [10, 100, 1000, 10_000].map(|apps| affected(apps).len()),
            [10, 30, 30, 300]
        );
    }

    #[test]
    fn child_is_restored_after_it_was_changed_or_deleted() {
        let object = |label: &str| -> Object {
            let object = json!({"metadata": {"name": "a", "labels": {crd::label::NAME: label}}});
            serde_json::from_value(object).unwrap()
        };
        for kind in CHILDREN {
            let mut seen = Seen::default();
            seen.apply(Some(kind), &object("a"));
            let mut changed = restored(kind, &seen);
            let mut deleted = restored(kind, &seen);
            assert!(!changed(&seen));
            seen.apply(Some(kind), &object("b"));
            assert!(!changed(&seen));
            seen.apply(Some(kind), &object("a"));
            assert!(changed(&seen));
            assert!(!deleted(&seen));
            seen.delete(Some(kind));
            assert!(!deleted(&seen));
            seen.apply(Some(kind), &object("a"));
            assert!(deleted(&seen));
        }
    }
}
