//! Waiting for a state of the cluster, until a deadline.

use std::time::Duration;

use kube::Api;
use tokio::time::{Instant, sleep};

use crate::cluster::connection::Cluster;
use crate::cluster::watch::{Watched, follow_object};
use crate::error::Result;
use crate::output::duration;
use crate::terminal::ui::Ui;

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
    timeout: Duration,
}

impl Deadline {
    /// Returns the deadline that is `timeout` from now.
    pub fn after(timeout: Duration) -> Self {
        /// The maximum: a clock can't represent all longer times.
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
        let now = Instant::now();
        Self {
            end: now.checked_add(timeout).unwrap_or(now + LONGEST),
            timeout,
        }
    }

    /// Returns the length of the wait, such as `1m30s`.
    pub fn text(self) -> String {
        duration::text(self.timeout)
    }

    /// Returns the earlier of two deadlines.
    pub fn min(self, other: Self) -> Self {
        if other.end < self.end { other } else { self }
    }

    /// Runs `work` until the deadline. Returns `None` after it.
    pub async fn bound<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.end, work).await.ok()
    }
}

/// Waits until an object is deleted. Returns its last state after the deadline.
pub async fn until_deleted<K>(
    cluster: &Cluster,
    api: Api<K>,
    name: &str,
    uid: Option<&str>,
    deadline: Deadline,
    ui: &mut Ui,
) -> Result<Option<K>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut changes = follow_object(cluster, api.clone(), name);
    let mut last = None;
    let deleted = until(&mut changes, deadline, ui, async |object: Option<K>, _| {
        match object {
            // Another object has the name now: this one was deleted.
            Some(object) if uid.is_none() || object.meta().uid.as_deref() == uid => last = Some(object),
            _ => return Ok(Some(())),
        }
        Ok(None)
    });
    if deleted.await?.is_some() {
        return Ok(None);
    }
    // The timeout can be too short for the first event of the watch.
    let seen = match last {
        Some(last) => Some(last),
        None => cluster.call(api.get_opt(name)).await?,
    };
    Ok(seen.filter(|object| uid.is_none() || object.meta().uid.as_deref() == uid))
}

/// Waits until `step` returns a value for a change that a watch reports. Returns `None` after the deadline.
pub async fn until<T, R>(
    changes: &mut Watched<T>,
    deadline: Deadline,
    ui: &mut Ui,
    mut step: impl AsyncFnMut(T, &mut Ui) -> Result<Option<R>>,
) -> Result<Option<R>> {
    while let Some(change) = deadline.bound(changes.next(ui)).await.transpose()?.flatten() {
        if let Some(done) = step(change, ui).await? {
            return Ok(Some(done));
        }
    }
    Ok(None)
}

/// Calls `check` every `interval` until it returns a value. Returns `None` after the deadline.
pub async fn poll<R>(
    interval: Duration,
    deadline: Deadline,
    mut check: impl AsyncFnMut() -> Result<Option<R>>,
) -> Result<Option<R>> {
    loop {
        if let Some(done) = check().await? {
            return Ok(Some(done));
        }
        if deadline.bound(sleep(interval)).await.is_none() {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn poll_ends_with_a_value_or_at_the_deadline() {
        let deadline = || Deadline::after(Duration::from_secs(10));
        let mut checked = 0;
        let found = poll(Duration::from_secs(1), deadline(), async || {
            checked += 1;
            Ok((checked == 3).then_some(checked))
        });
        assert_eq!(found.await.ok(), Some(Some(3)));
        let never = poll(Duration::from_secs(1), deadline(), async || Ok(None::<()>));
        assert_eq!(never.await.ok(), Some(None));
    }

    #[tokio::test]
    async fn longest_deadline_does_not_overflow() {
        let deadline = Deadline::after(Duration::from_secs(u64::MAX));
        assert_eq!(deadline.bound(std::future::ready(1)).await, Some(1));
    }
}
