//! What somebody does to the children of apps, behind the operator's back.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use kube::Client;
use model::{CHILDREN, ChildKind};
use tokio::time::sleep_until;

use crate::loader::send;
use crate::observer::{Observer, Reached, Test};
use crate::request::{Key, Sent, delete, spoil};
use crate::seen::Seen;
use crate::statistics::Spread;

/// How often in a second something happens: changes of people, not a storm.
pub const PACE: u32 = 20;

/// How long each may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The least number of children that something happens to, so that there is something to count.
const LEAST: usize = 30;

/// One thing that is done to an app, and how it is known that the operator has dealt with it.
pub struct Deed {
    /// The app.
    pub key: Key,
    /// What is sent.
    pub request: Sent,
    /// Whether it is dealt with.
    pub test: Test,
}

/// Returns the apps of which one child is lost or changed: so many that it is one child of a hundred.
#[must_use]
pub fn victims(apps: usize) -> Vec<usize> {
    let count = (apps * 3 / 100).max(LEAST).min(apps);
    (0..count).map(|number| number * apps / count).collect()
}

/// Returns what happens: to each app in turn another kind of child is deleted or changed.
///
/// # Errors
/// When a request can't be written.
pub fn deeds(apps: usize, observer: &Observer) -> Result<Vec<Deed>> {
    let deed = |(number, app): (usize, usize)| {
        let key = Key::of(app);
        let kind = CHILDREN[number % CHILDREN.len()];
        let request = if number % 2 == 0 {
            delete(kind, &key)?
        } else {
            spoil(kind, &key)?
        };
        let before = observer.seen(&key);
        Ok(Deed {
            test: healed(kind, &before),
            key,
            request,
        })
    };
    victims(apps).into_iter().enumerate().map(deed).collect()
}

/// Returns a test that a child was lost or changed, and is as before again.
fn healed(kind: &'static ChildKind, before: &Seen) -> Test {
    let before = before.child(kind).map(str::to_owned);
    let mut was_other = false;
    Box::new(move |seen| {
        let is_other = seen.child(kind) != before.as_deref();
        was_other |= is_other;
        was_other && !is_other
    })
}

/// Does all of it at a steady pace, whatever the operator is at. Returns how long each took from the answer until it was
/// dealt with, in ms, and how many were not.
///
/// # Errors
/// When a request is refused or a watch ends.
pub async fn happen(client: &Client, observer: &Observer, deeds: Vec<Deed>) -> Result<(Spread, usize)> {
    let count = deeds.len();
    let (tests, requests): (Vec<_>, Vec<_>) = deeds
        .into_iter()
        .map(|deed| ((deed.key.clone(), deed.test), (deed.key, deed.request)))
        .unzip();
    let pending = observer.expect(tests);
    let begin = Instant::now();
    let sent = requests
        .into_iter()
        .zip(0_u32..)
        .map(|((key, request), number)| async move {
            sleep_until((begin + number * Duration::from_secs(1) / PACE).into()).await;
            send(client, key, request).await
        });
    let answers = try_join_all(sent).await?;
    let reached = observer.wait(pending, PATIENCE).await?;
    let times = answers
        .iter()
        .filter_map(|answer| millis(&reached, &answer.key, answer.at));
    let spread = Spread::of(times.collect());
    Ok((spread, count - spread.count))
}

/// Returns how long it took an app from a moment on. A watch may be ahead of the answer to the request that it tells of.
#[must_use]
pub fn millis(reached: &Reached, key: &Key, since: Instant) -> Option<f64> {
    let at = reached.get(key)?;
    Some(at.saturating_duration_since(since).as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use model::children::INGRESS;

    use super::*;
    use crate::seen::Object;

    #[test]
    fn something_happens_to_each_app_once_at_most() {
        for apps in [10, 100, 1000, 10_000] {
            let victims = victims(apps);
            let different: BTreeSet<usize> = victims.iter().copied().collect();
            assert_eq!(different.len(), victims.len());
            assert!(victims.iter().all(|victim| *victim < apps));
        }
        assert_eq!(
            [10, 100, 1000, 10_000].map(|apps| victims(apps).len()),
            [10, 30, 30, 300]
        );
    }

    #[test]
    fn a_child_has_healed_when_it_was_other_and_is_as_before() {
        let ingress = |host: &str| -> Object {
            let object = json!({"metadata": {"name": "a"}, "spec": {"rules": [{"host": host}]}});
            serde_json::from_value(object).unwrap()
        };
        let kind = &INGRESS;
        let mut seen = Seen::default();
        seen.apply(Some(kind), &ingress("a"));
        let mut changed = healed(kind, &seen);
        let mut lost = healed(kind, &seen);
        assert!(!changed(&seen));
        seen.apply(Some(kind), &ingress("b"));
        assert!(!changed(&seen));
        seen.apply(Some(kind), &ingress("a"));
        assert!(changed(&seen));
        assert!(!lost(&seen));
        seen.delete(Some(kind));
        assert!(!lost(&seen));
        seen.apply(Some(kind), &ingress("a"));
        assert!(lost(&seen));
    }
}
