//! Events about objects, for `kubectl describe` and for collectors of Events.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{ListParams, Patch, PostParams};
use kube::core::{ObjectList, Request, Resource as _};
use serde_json::json;
use tokio::time::Instant;
use tracing::debug;
use xxhash_rust::xxh3::xxh3_64;

use crate::call::{CallError, Caller, by_us};

const COMPONENT: &str = "appdeploy-operator";

/// Returns a warning about an object of a kind. Its name is a hash of its content: the same warning again, also from another process,
/// is the same object.
#[must_use]
pub fn warning(kind: crd::Names, object: &ObjectMeta, reason: &str, message: &str, now: Timestamp) -> Event {
    let uid = object.uid.as_deref().unwrap_or_default();
    let name = object.name.as_deref().unwrap_or_default();
    let hash = xxh3_64(format!("{uid}\n{reason}\n{message}").as_bytes());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{hash:016x}")),
            namespace: object.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(format!("{}/{}", crd::GROUP, crd::VERSION)),
            kind: Some(kind.kind.into()),
            name: object.name.clone(),
            namespace: object.namespace.clone(),
            uid: object.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some("Warning".into()),
        reason: Some(reason.to_owned()),
        // The API server takes at most 1024 bytes.
        message: Some(message.chars().take(1000).collect()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        reporting_component: Some(COMPONENT.into()),
        source: Some(EventSource {
            component: Some(COMPONENT.into()),
            host: None,
        }),
        ..Event::default()
    }
}

/// Writes Events and counts those that are repeated.
///
/// kube's `Recorder` has its own client: its writes would not pass the fence, not be counted, and have no deadline.
pub struct Recorder {
    caller: Caller,
    series: Mutex<Series>,
}

impl Recorder {
    /// Returns a recorder that has not written yet.
    #[must_use]
    pub fn new(caller: Caller) -> Self {
        Self {
            caller,
            series: Mutex::default(),
        }
    }

    /// Writes an Event, or counts it if it was written before. It is not retried: the status has the same content.
    pub async fn publish(&self, event: Event) {
        let name = event.metadata.name.clone().unwrap_or_default();
        let next = self.lock().next(&name, Instant::now());
        let written = match next {
            Write::Nothing => return,
            Write::Create => self.create(&event).await,
            Write::Count(count) => match self.count(&event, count).await {
                // It has expired, an hour after it was written.
                Err(CallError::Refused(status)) if status.is_not_found() => {
                    self.lock().begin(&name, 1);
                    self.create(&event).await
                }
                written => written,
            },
        };
        if let Err(error) = written {
            debug!(?error, "an Event could not be written");
        }
    }

    async fn create(&self, event: &Event) -> Result<(), CallError> {
        let url = Event::url_path(&(), event.metadata.namespace.as_deref());
        // An Event is plain data.
        let body = serde_json::to_vec(event).unwrap_or_default();
        let request = Request::new(url).create(&PostParams::default(), body);
        match self.caller.send::<Event>("create", "events", request).await {
            Ok(_) => Ok(()),
            // Another process has written it, or this one has dropped its count.
            Err(CallError::Refused(status)) if status.is_already_exists() => self.count_again(event).await,
            Err(error) => Err(error),
        }
    }

    async fn count_again(&self, event: &Event) -> Result<(), CallError> {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let url = Event::url_path(&(), event.metadata.namespace.as_deref());
        let request = Request::new(url).list(&ListParams::default().fields(&format!("metadata.name={name}")));
        let known = self.caller.send::<ObjectList<Event>>("list", "events", request).await?;
        let count = known.items.first().and_then(|event| event.count).unwrap_or(1);
        let count = count.saturating_add(1);
        self.lock().begin(name, count);
        self.count(event, count).await
    }

    async fn count(&self, event: &Event, count: i32) -> Result<(), CallError> {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let url = Event::url_path(&(), event.metadata.namespace.as_deref());
        let patch = json!({"count": count, "lastTimestamp": event.last_timestamp});
        let request = Request::new(url).patch(name, &by_us(), &Patch::Merge(&patch));
        self.caller.send::<Event>("patch", "events", request).await.map(drop)
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Series> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many counts are kept. Without its count, a repeated Event costs a read.
const MAX_COUNTS: usize = 1000;

/// The shortest time between two writes of one Event. Repetitions in between are counted, and written with the next one.
const INTERVAL: Duration = Duration::from_secs(10);

/// The counts of the Events that were written last, by name.
#[derive(Debug, Default)]
struct Series {
    counts: HashMap<String, Count>,
    /// The names in the order of their first write.
    order: VecDeque<String>,
}

#[derive(Debug)]
struct Count {
    count: i32,
    written: Instant,
}

/// The content of an Event.
#[derive(Debug, PartialEq, Eq)]
enum Write {
    /// The whole Event.
    Create,
    /// Its count.
    Count(i32),
    /// Nothing.
    Nothing,
}

impl Series {
    /// Counts an Event that happens now, and decides what to write.
    fn next(&mut self, name: &str, now: Instant) -> Write {
        let Some(known) = self.counts.get_mut(name) else {
            self.begin(name, 1);
            return Write::Create;
        };
        known.count = known.count.saturating_add(1);
        if now.duration_since(known.written) < INTERVAL {
            return Write::Nothing;
        }
        known.written = now;
        Write::Count(known.count)
    }

    /// Records that an Event is stored with this count.
    fn begin(&mut self, name: &str, count: i32) {
        let written = Instant::now();
        if self.counts.insert(name.to_owned(), Count { count, written }).is_none() {
            self.order.push_back(name.to_owned());
        }
        while self.order.len() > MAX_COUNTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.counts.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn same_warning_is_the_same_object() {
        let app = ObjectMeta {
            name: Some("web".into()),
            uid: Some("u1".into()),
            ..ObjectMeta::default()
        };
        let again = ObjectMeta {
            uid: Some("u2".into()),
            ..app.clone()
        };
        let name = |app: &ObjectMeta, message: &str, second: i64| {
            warning(
                crd::Kind::AppDeploy.names(),
                app,
                "CrashLoop",
                message,
                Timestamp::from_second(second).unwrap(),
            )
            .metadata
            .name
            .unwrap()
        };
        assert_eq!(name(&app, "exit code 1", 0), name(&app, "exit code 1", 99));
        assert_ne!(name(&app, "exit code 1", 0), name(&app, "exit code 2", 0));
        assert_ne!(
            name(&app, "exit code 1", 0),
            name(&again, "exit code 1", 0),
            "a recreated app"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_event_is_counted_and_written_at_intervals() {
        let mut series = Series::default();
        assert_eq!(series.next("web.1", Instant::now()), Write::Create);
        assert_eq!(series.next("web.1", Instant::now()), Write::Nothing);
        advance(INTERVAL).await;
        assert_eq!(series.next("web.1", Instant::now()), Write::Count(3));
        assert_eq!(series.next("web.1", Instant::now()), Write::Nothing);
        assert_eq!(series.next("web.2", Instant::now()), Write::Create);
        advance(INTERVAL).await;
        assert_eq!(series.next("web.1", Instant::now()), Write::Count(5));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_last_counts_are_kept() {
        let mut series = Series::default();
        for number in 0..3 * MAX_COUNTS {
            series.next(&format!("web.{number}"), Instant::now());
        }
        assert_eq!((series.counts.len(), series.order.len()), (MAX_COUNTS, MAX_COUNTS));
        assert_eq!(series.next("web.0", Instant::now()), Write::Create);
    }
}
