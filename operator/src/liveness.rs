//! Detects loops that are stuck, for the liveness probe.
//!
//! A loop beats in each iteration, and while it waits for an event that may take long. A loop that is blocked, waits for a lock that is
//! never released, or hangs in a future without a deadline does not. An API server that is slow or does not answer is not a reason: each
//! request has a deadline, after which the loop continues.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long an iteration may take. Requests have 10 s, reconciles 25 s and lists 30 s.
const LIMIT: Duration = Duration::from_secs(120);

/// The loops of a part of the operator. Cheap to copy; all copies are one.
#[derive(Clone, Debug)]
pub struct Liveness(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: Duration,
    loops: Mutex<Loops>,
}

#[derive(Debug, Default)]
struct Loops {
    next: u64,
    running: BTreeMap<u64, (String, Instant)>,
}

/// A loop that runs until this is dropped.
#[derive(Debug)]
pub struct Pulse {
    liveness: Liveness,
    id: u64,
}

impl Default for Liveness {
    fn default() -> Self {
        Self::within(LIMIT)
    }
}

impl Liveness {
    /// Returns a liveness whose loops must beat within `limit`.
    #[must_use]
    pub fn within(limit: Duration) -> Self {
        Self(Arc::new(Inner {
            limit,
            loops: Mutex::default(),
        }))
    }

    /// Adds a loop.
    #[must_use]
    pub fn join(&self, name: String) -> Pulse {
        let mut loops = self.loops();
        let id = loops.next;
        loops.next += 1;
        loops.running.insert(id, (name, Instant::now()));
        Pulse {
            liveness: self.clone(),
            id,
        }
    }

    /// Returns the names of the loops that are stuck, each with the seconds since its last beat.
    #[must_use]
    pub fn stuck(&self) -> Vec<(String, u64)> {
        let loops = self.loops();
        let stuck = loops.running.values().filter(|(_, beat)| beat.elapsed() > self.0.limit);
        stuck
            .map(|(name, beat)| (name.clone(), beat.elapsed().as_secs()))
            .collect()
    }

    // Nothing that can panic runs under the lock.
    fn loops(&self) -> MutexGuard<'_, Loops> {
        self.0.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pulse {
    /// Records that the loop runs.
    pub fn beat(&self) {
        if let Some((_, beat)) = self.liveness.loops().running.get_mut(&self.id) {
            *beat = Instant::now();
        }
    }

    /// Waits for an event without a time limit.
    pub async fn beating<T>(&self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = pin!(awaited);
        loop {
            self.beat();
            tokio::select! {
                value = &mut awaited => {
                    self.beat();
                    return value;
                }
                () = sleep(self.liveness.0.limit / 4) => {}
            }
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.liveness.loops().running.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::mpsc;

    use http::{Request, Response};
    use k8s_openapi::api::networking::v1::IngressClass;
    use kube::api::ListParams;
    use kube::client::Body;
    use kube::discovery::ApiResource;
    use kube::{Api, Client};
    use tokio::time::{advance, timeout};
    use tower::service_fn;

    use super::*;
    use crate::key::Key;
    use crate::queue::Reason;
    use crate::stores::{Classes, Store};
    use crate::watch::Watch;

    #[tokio::test(start_paused = true)]
    async fn loop_without_a_beat_is_stuck() {
        let liveness = Liveness::default();
        let pulse = liveness.join("the loop".to_owned());
        advance(LIMIT).await;
        assert_eq!(liveness.stuck(), []);
        advance(Duration::from_secs(1)).await;
        assert_eq!(liveness.stuck(), [("the loop".to_owned(), 121)]);
        pulse.beat();
        assert_eq!(liveness.stuck(), []);
        drop(pulse);
        advance(LIMIT * 2).await;
        assert_eq!(liveness.stuck(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn loop_that_waits_is_not_stuck() {
        let liveness = Liveness::default();
        let pulse = liveness.join("the loop".to_owned());
        let waiting = pulse.beating(sleep(LIMIT * 10));
        let looking = async {
            for _ in 0..50 {
                sleep(LIMIT / 5).await;
                assert_eq!(liveness.stuck(), []);
            }
        };
        tokio::join!(waiting, looking);
    }

    type Wake = Box<dyn Fn(Vec<Key>, Reason) + Send + Sync>;

    /// Starts a watch of IngressClasses. The caches of tests are never dropped.
    fn watch(client: Client, limit: Duration, wake: Wake) -> &'static Store<bool> {
        let kind: &'static Store<bool> = Box::leak(Box::new(Store {
            liveness: Liveness::within(limit),
            ..Store::default()
        }));
        let wake: &'static Wake = Box::leak(Box::new(wake));
        tokio::spawn(async move {
            let watch = Watch::<Classes> {
                resource: "ingressclasses",
                api: Api::all_with(client, &ApiResource::erase::<IngressClass>(&())),
                scope: None,
                config: ListParams::default(),
                resync: Duration::from_secs(3600),
                kind,
                wake,
                on_vanish: None,
                definition: None,
            };
            watch.run().await;
        });
        kind
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn watch_that_an_event_blocks_is_stuck() {
        let list = r#"{"kind": "IngressClassList", "apiVersion": "networking.k8s.io/v1", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "nginx", "resourceVersion": "7"}}]}"#;
        let server = service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(Body::from(list.as_bytes().to_vec())))
        });
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let wake = move |_: Vec<Key>, _: Reason| {
            let _ = blocked.lock().unwrap().recv();
        };
        let kind = watch(
            Client::new(server, "default"),
            Duration::from_millis(300),
            Box::new(wake),
        );
        let until = async |is_stuck: bool| {
            while kind.liveness.stuck().is_empty() == is_stuck {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(20), until(true)).await.unwrap();
        assert_eq!(kind.liveness.stuck()[0].0, "the watch of ingressclasses");
        drop(release);
        timeout(Duration::from_secs(20), until(false)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn watch_of_a_server_that_does_not_answer_is_not_stuck() {
        let server = service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
        let kind = watch(Client::new(server, "default"), LIMIT, Box::new(|_, _| {}));
        for _ in 0..100 {
            sleep(Duration::from_secs(10)).await;
            assert_eq!(kind.liveness.stuck(), []);
        }
    }
}
