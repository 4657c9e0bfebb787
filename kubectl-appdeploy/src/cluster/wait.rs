//! Waiting for an object, until a deadline.

use std::time::Duration;

use kube::Api;
use tokio::time::Instant;

use crate::cluster::connection::Cluster;
use crate::cluster::watch::follow_object;
use crate::error::Result;
use crate::output::duration;
use crate::terminal::ui::Ui;

/// A time by which something has to be done.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
    patience: Duration,
}

impl Deadline {
    /// Returns the deadline that starts to run now.
    pub fn after(patience: Duration) -> Self {
        /// What is longer than a clock can count to is as good as this.
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
        let now = Instant::now();
        Self {
            end: now.checked_add(patience).unwrap_or(now + LONGEST),
            patience,
        }
    }

    /// Returns how long it was, as a person says it.
    pub fn text(self) -> String {
        duration::text(self.patience)
    }

    /// Waits for something; `None` when the time is over.
    pub async fn bound<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.end, work).await.ok()
    }
}

/// Waits until an object is deleted. Returns its last state after the deadline.
pub async fn gone<K>(
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
    loop {
        let Some(next) = deadline.bound(changes.next(ui)).await else {
            // The time can be too short for even one answer of the watch.
            let seen = match last {
                Some(last) => Some(last),
                None => cluster.call(api.get_opt(name)).await?,
            };
            return Ok(seen.filter(|object| uid.is_none() || object.meta().uid.as_deref() == uid));
        };
        match next?.flatten() {
            // Another object has the name now: ours was deleted.
            Some(object) if uid.is_none() || object.meta().uid.as_deref() == uid => last = Some(object),
            _ => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_time_is_too_long() {
        let deadline = Deadline::after(Duration::from_secs(u64::MAX));
        assert_eq!(deadline.bound(std::future::ready(1)).await, Some(1));
    }
}
