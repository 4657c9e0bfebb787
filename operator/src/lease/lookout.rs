//! Watches the Lease for a follower, which would otherwise notice only at its next read that the leader has released it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Client;
use kube::Resource as _;
use kube::api::ListParams;
use kube::client::Body;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::{NAME, record};
use crate::reduced::read;
use crate::watch::{Collection, Event, EventStream, WatchError};

/// When a watch that has ended begins again. Until then, reads show the Lease.
const AGAIN: Duration = Duration::from_secs(30);

/// A watch of the Lease. It only makes reads earlier, so its errors have no other effect.
pub(super) struct Lookout {
    leases: Collection,
    events: Option<EventStream<Body>>,
    begins: Instant,
}

impl Lookout {
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            leases: Collection {
                client,
                url: Lease::url_path(&(), Some(namespace)),
                only_metadata: false,
                // The operator may watch no other Lease.
                selectors: ListParams::default().fields(&format!("metadata.name={NAME}")),
            },
            events: None,
            begins: Instant::now(),
        }
    }

    /// Waits until the Lease has no holder. A watch that has not begun begins after this version. May be dropped and called again.
    pub async fn released(&mut self, version: &str) {
        loop {
            sleep_until(self.begins).await;
            match self.reports_release(version).await {
                Ok(Some(true)) => return,
                Ok(Some(false)) => {}
                ended => {
                    debug!(?ended, "the Lease is not watched");
                    self.end();
                    self.begins = Instant::now() + AGAIN;
                }
            }
        }
    }

    /// Ends the watch.
    pub fn end(&mut self) {
        self.events = None;
    }

    /// Waits for an event, and returns whether the Lease was released; `None` at the end of the watch.
    async fn reports_release(&mut self, version: &str) -> Result<Option<bool>, WatchError> {
        let events = match &mut self.events {
            Some(events) => events,
            none => none.insert(self.leases.watch(version, false).await?),
        };
        let Some(line) = events.next().await? else {
            return Ok(None);
        };
        Ok(Some(match Event::parse(line)? {
            Event::Changed(lease) => {
                let spec: Option<LeaseSpec> = lease.parts.spec.map(read).transpose().map_err(WatchError::new)?;
                let metadata = lease.parts.meta;
                record(Lease { metadata, spec }).holder.is_none()
            }
            Event::Deleted(_) => true,
            Event::Bookmark(_) => false,
            Event::Failed(status) => return Err((*status).into()),
        }))
    }
}
