//! Leader election by a Lease: of several replicas one writes, the others only fill their caches.
//!
//! The rules are those of client-go, with a monotonic clock. In addition, each write passes a [`Fence`] that closes by the clock: a
//! process that was suspended does not write before it has read the Lease.

pub mod election;
pub mod fence;
mod lookout;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{GetParams, PostParams};
use kube::core::Request;
use kube::{Client, Resource as _};
use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::call::{CallError, Caller};
use crate::metrics::Metrics;
use election::{Candidate, Move, Record, Timings};
pub use fence::{Fence, Fenced};
use lookout::Lookout;

/// The name of the Lease.
pub const NAME: &str = "appdeploy-operator";

/// How often the release of the Lease is attempted if the Lease changes in between.
const RELEASE_TRIES: u32 = 3;

/// The role of a replica in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Its first attempt to acquire the Lease has not ended.
    Starting,
    /// It watches, and does not write.
    Follower,
    /// It writes, since this time.
    Leader(Instant),
    /// It has led and must end: its cached objects may be outdated.
    Deposed,
}

/// Whether this replica leads.
#[derive(Clone, Debug)]
pub struct Leadership(channel::Receiver<Role>);

impl Leadership {
    /// Returns the leadership of an operator without an election.
    #[must_use]
    pub fn alone() -> Self {
        Self(channel::channel(Role::Leader(Instant::now())).1)
    }

    /// Waits until the first attempt to acquire the Lease has ended, with or without success.
    pub async fn attempted(&self) {
        self.until(|role| (role != Role::Starting).then_some(())).await;
    }

    /// Waits until this replica leads. Returns since when: no other replica has written after this time.
    pub async fn acquired(&self) -> Instant {
        let since = |role| match role {
            Role::Leader(since) => Some(since),
            Role::Starting | Role::Follower | Role::Deposed => None,
        };
        self.until(since).await
    }

    /// Waits until this replica has led and no longer leads.
    pub async fn lost(&self) {
        self.until(|role| (role == Role::Deposed).then_some(())).await;
    }

    /// Waits until the role is as wanted, and returns what `wanted` reads of it.
    async fn until<T>(&self, wanted: impl Fn(Role) -> Option<T>) -> T {
        let mut changes = self.0.clone();
        let role = changes.wait_for(|role| wanted(*role).is_some()).await.map(|role| *role);
        match role.ok().and_then(wanted) {
            Some(found) => found,
            // The sender was dropped: the role no longer changes.
            None => std::future::pending().await,
        }
    }
}

/// Takes part in an election.
pub struct Elector {
    client: Client,
    caller: Caller,
    namespace: String,
    name: String,
    timings: Timings,
    fence: Fence,
    role: channel::Sender<Role>,
    start: Instant,
}

/// The outcome of a write of the Lease.
enum Written {
    Done(Record),
    /// Another replica was faster.
    Beaten,
    Failed(String),
}

impl Elector {
    /// Returns a candidate with this name, which opens this fence while it leads.
    #[must_use]
    pub fn new(
        client: Client,
        metrics: Arc<Metrics>,
        namespace: String,
        name: String,
        timings: Timings,
        fence: Fence,
    ) -> (Self, Leadership) {
        let (role, roles) = channel::channel(Role::Starting);
        let elector = Self {
            // Requests for the Lease open the fence, and do not pass it.
            caller: Caller::new(client.clone(), metrics, Fence::open()),
            client,
            namespace,
            name,
            timings,
            fence,
            role,
            start: Instant::now(),
        };
        (elector, Leadership(roles))
    }

    /// Takes part in the election until it was elected and has lost the Lease.
    pub async fn run(&self) {
        let mut candidate = Candidate::new(self.name.clone());
        let mut held: Option<Record> = None;
        let mut lookout = Lookout::new(self.client.clone(), &self.namespace);
        loop {
            let (begun, begun_at) = (Instant::now(), self.fence.now());
            // A leader does not read what it has written itself.
            let (seen, read) = match held.take() {
                Some(record) => (Ok(Some(record)), false),
                None => (self.read().await, true),
            };
            let version = seen.as_ref().ok().and_then(Option::as_ref);
            let version = version.map(|record| record.version.clone());
            match seen {
                Err(why) => warn!(why, "the Lease could not be read"),
                Ok(record) => match self.play(candidate.observe(record.clone(), self.start.elapsed())).await {
                    // A leader that reads the name of another replica ends without further checks.
                    None if self.leads() => self.fence.close(),
                    Some(Written::Done(record)) => {
                        self.fence.extend(begun_at + self.timings.renew);
                        if !self.leads() {
                            lookout.end();
                            self.role.send_replace(Role::Leader(Instant::now()));
                            info!(lease = NAME, name = self.name, "leading");
                        }
                        held = Some(record);
                    }
                    Some(Written::Failed(why)) => {
                        warn!(why, "the Lease could not be written");
                        // Unless it was read just now, the known version can be used for the next attempt.
                        held = record.filter(|_| !read);
                    }
                    Some(Written::Beaten) | None => {}
                },
            }
            if self.leads() && !self.fence.is_open() {
                self.role.send_replace(Role::Deposed);
                return;
            }
            self.role.send_if_modified(|role| {
                let is_first = *role == Role::Starting;
                *role = if is_first { Role::Follower } else { *role };
                is_first
            });
            let is_follower = !self.leads();
            tokio::select! {
                () = self.pause(held.is_some(), begun) => {}
                () = lookout.released(version.as_deref().unwrap_or_default()), if is_follower && version.is_some() => {}
            }
        }
    }

    /// Releases the Lease, so that another replica does not wait until it expires. To be called after [`Elector::run`] was aborted: a
    /// renewal that it has sent may still be carried out, and changes the version.
    pub async fn release(&self) {
        if !self.leads() {
            return;
        }
        self.fence.close();
        for _ in 0..RELEASE_TRIES {
            let Ok(Some(record)) = self.read().await else { return };
            if record.holder.as_deref() != Some(&*self.name) {
                return;
            }
            let freed = LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                lease_transitions: Some(record.transitions),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            };
            match self.put(&record.version, freed).await {
                Written::Done(_) => {
                    info!("released the Lease");
                    return;
                }
                Written::Beaten => {}
                Written::Failed(_) => return,
            }
        }
    }

    fn leads(&self) -> bool {
        matches!(*self.role.borrow(), Role::Leader(_))
    }

    async fn play(&self, next: Move) -> Option<Written> {
        match next {
            Move::Wait => None,
            Move::Create => Some(self.create().await),
            Move::Take(record) => {
                info!(from = record.holder, "taking the Lease");
                Some(self.put(&record.version, self.spec(record.transitions + 1, None)).await)
            }
            Move::Renew(record) => {
                let spec = self.spec(record.transitions, record.acquired);
                Some(self.put(&record.version, spec).await)
            }
        }
    }

    /// Waits until the next attempt. Followers wait for different times, so that not all of them send requests when a leader ends. A
    /// leader that has failed to renew tries again soon.
    async fn pause(&self, holds: bool, begun: Instant) {
        let wait = match (self.leads(), holds) {
            (true, false) => self.timings.retry / 5,
            (true, true) => self.timings.retry,
            (false, _) => self.timings.retry.mul_f64(1.0 - 0.2 * fastrand::f64()),
        };
        sleep(wait.saturating_sub(begun.elapsed())).await;
    }

    fn spec(&self, transitions: i32, acquired: Option<Timestamp>) -> LeaseSpec {
        let now = Timestamp::now();
        LeaseSpec {
            holder_identity: Some(self.name.clone()),
            lease_duration_seconds: i32::try_from(self.timings.lease.as_secs()).ok(),
            acquire_time: Some(MicroTime(acquired.unwrap_or(now))),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    async fn read(&self) -> Result<Option<Record>, String> {
        match self
            .send::<Lease>("get", self.collection().get(NAME, &GetParams::default()))
            .await
        {
            Ok(lease) => Ok(Some(record(lease))),
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn create(&self) -> Written {
        let body = self.body(None, self.spec(0, None));
        let request = self.collection().create(&PostParams::default(), body);
        written(self.send("create", request).await)
    }

    async fn put(&self, version: &str, spec: LeaseSpec) -> Written {
        let body = self.body(Some(version.to_owned()), spec);
        let request = self.collection().replace(NAME, &PostParams::default(), body);
        written(self.send("update", request).await)
    }

    fn body(&self, version: Option<String>, spec: LeaseSpec) -> Vec<u8> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(NAME.into()),
                namespace: Some(self.namespace.clone()),
                labels: Some([(crd::label::PART_OF.to_owned(), crd::label::PART_OF_VALUE.to_owned())].into()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            spec: Some(spec),
        };
        // A typed object always serializes: its keys are text.
        serde_json::to_vec(&lease).unwrap_or_default()
    }

    async fn send<T: serde::de::DeserializeOwned>(
        &self,
        verb: &'static str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, CallError> {
        let request_timeout = self.timings.request_timeout;
        match timeout(request_timeout, self.caller.send(verb, "leases", request)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Lost(format!("no answer within {request_timeout:?}"))),
        }
    }

    fn collection(&self) -> Request {
        Request::new(Lease::url_path(&(), Some(&self.namespace)))
    }
}

fn record(lease: Lease) -> Record {
    let spec = lease.spec.unwrap_or_default();
    let lasts = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        version: lease.metadata.resource_version.unwrap_or_default(),
        lasts: Duration::from_secs(lasts.unwrap_or_default()),
        acquired: spec.acquire_time.map(|time| time.0),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

fn written(answer: Result<Lease, CallError>) -> Written {
    match answer {
        Ok(lease) => Written::Done(record(lease)),
        Err(CallError::Refused(status)) if matches!(status.code, 404 | 409) => Written::Beaten,
        Err(error) => Written::Failed(error.to_string()),
    }
}
