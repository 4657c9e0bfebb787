//! Takes keys from the queue and has them worked on: so many at a time, each with a backoff of its own, and
//! none able to take the others down.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use model::backoff;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, Span, error, error_span, field};

use crate::key::Key;
use crate::metrics::{Metrics, Outcome};
use crate::queue::Queue;
use crate::seeded::{self, Bug};

/// The longest that work on one key may take. Well below the 30 s that Kubernetes gives a pod to end.
pub const DEADLINE: Duration = Duration::from_secs(25);

/// What came of the work on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is left to do until something changes.
    Settled,
    /// It was done, and there is more to do: at once again.
    Onward,
    /// What was believed was wrong and has been set right: at once again, but not for ever at once.
    Again,
    /// It failed, and trying again can help.
    Failed,
    /// It failed, and only a change can help.
    GaveUp,
}

/// Works on the objects of a kind that are in a queue until it is closed, then waits for the work that has begun.
pub async fn dispatch<W, F>(kind: crd::Kind, queue: Arc<Queue<Key>>, concurrency: u16, metrics: Arc<Metrics>, work: W)
where
    W: Fn(Key) -> F + Send + Sync + 'static,
    F: Future<Output = Verdict> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(usize::from(concurrency)));
    let work = Arc::new(work);
    let failures = Arc::new(Failures::default());
    let pulse = queue.liveness().join(format!("the dispatcher of {kind}s"));
    loop {
        pulse.beat();
        // The slot first, so that a key is taken when it can be worked on and not before: what arrives
        // meanwhile for the same key is then one piece of work.
        let Ok(slot) = slots.clone().acquire_owned().await else {
            break;
        };
        let Some(key) = pulse.beating(queue.next()).await else {
            break;
        };
        let running = queue.liveness().join(format!("a reconcile of {kind}s"));
        let (queue, work, failures, metrics) = (queue.clone(), work.clone(), failures.clone(), metrics.clone());
        let span = span(kind, &key);
        let work = async move {
            let start = Instant::now();
            let guarded = AssertUnwindSafe(async { work(key.clone()).await }).catch_unwind();
            let (verdict, outcome) = match timeout(DEADLINE, guarded).await {
                Ok(Ok(verdict)) => (verdict, Outcome::of(verdict)),
                Ok(Err(_)) => {
                    error!("the reconcile panicked; this is a bug, please report it");
                    (Verdict::Failed, Outcome::Panic)
                }
                Err(_) => {
                    error!(
                        "the reconcile took longer than {} s and was given up",
                        DEADLINE.as_secs()
                    );
                    (Verdict::Failed, Outcome::Timeout)
                }
            };
            metrics.reconciled(kind, outcome, start.elapsed());
            say(&Span::current(), outcome);
            if let Some(wait) = failures.wait(&key, verdict) {
                if verdict != Verdict::Onward {
                    metrics.retried(kind);
                }
                queue.add_after(key.clone(), wait);
            }
            queue.done(&key);
            drop((slot, running));
        };
        tokio::spawn(work.instrument(span));
    }
    drop(pulse);
    // All slots are free once all work has ended.
    let _ = slots.acquire_many(u32::from(concurrency)).await;
}

/// Makes what surrounds the work on a key: it tells in each log line what the line is about, and is a span where traces are
/// made. Its level is that of errors, so that no log is so quiet that its lines lack this.
fn span(kind: crd::Kind, key: &Key) -> Span {
    error_span!(
        "reconcile",
        %kind,
        namespace = %key.namespace,
        name = %key.name,
        generation = field::Empty,
        reconcileID = %format_args!("{:016x}", fastrand::u64(..)),
        result = field::Empty,
        otel.status_code = field::Empty,
    )
}

fn say(span: &Span, outcome: Outcome) {
    span.record("result", outcome.as_str());
    if outcome != Outcome::Success {
        span.record("otel.status_code", "error");
    }
}

/// How often each key has failed in a row, and when it is to be tried again. What fails before that was asked for by an
/// event, and makes nobody wait longer.
#[derive(Debug, Default)]
struct Failures(Mutex<HashMap<Key, (u32, Instant)>>);

impl Failures {
    /// Returns how long to wait before the next try, if there is to be one.
    fn wait(&self, key: &Key, verdict: Verdict) -> Option<Duration> {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if verdict == Verdict::Failed && seeded::is(Bug::GivesUp) {
            return None;
        }
        if matches!(verdict, Verdict::Settled | Verdict::Onward | Verdict::GaveUp) {
            failures.remove(key);
            return (verdict == Verdict::Onward).then_some(Duration::ZERO);
        }
        let now = Instant::now();
        let (count, due) = failures.entry(key.clone()).or_insert((0, now));
        if now >= *due {
            *count = count.saturating_add(1);
        }
        let wait = match (verdict, *count) {
            (Verdict::Again, 1) => Duration::ZERO,
            (_, count) => backoff::delay(count, fastrand::f64()),
        };
        *due = now + wait;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::queue::Urgency;

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    struct Running {
        queue: Arc<Queue<Key>>,
        task: tokio::task::JoinHandle<()>,
    }

    fn start<W, F>(concurrency: u16, keys: &[String], work: W) -> Running
    where
        W: Fn(Key) -> F + Send + Sync + 'static,
        F: Future<Output = Verdict> + Send + 'static,
    {
        let queue = Arc::new(Queue::default());
        for name in keys {
            queue.add(key(name), Urgency::Change);
        }
        let metrics = Arc::new(Metrics::default());
        let task = tokio::spawn(dispatch(
            crd::Kind::AppDeploy,
            queue.clone(),
            concurrency,
            metrics,
            work,
        ));
        Running { queue, task }
    }

    /// Without the guard, one panic would end the whole loop: kube's Controller does.
    #[tokio::test(start_paused = true)]
    async fn a_panic_fails_one_key_and_no_other() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let log = done.clone();
        let names = ["poison", "a", "b"].map(String::from);
        let running = start(1, &names, move |key| {
            let log = log.clone();
            async move {
                assert!(&*key.name != "poison", "poison");
                log.lock().unwrap().push(key.name.to_string());
                Verdict::Settled
            }
        });
        while done.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        running.queue.add(key("later"), Urgency::Change);
        while done.lock().unwrap().len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(*done.lock().unwrap(), ["a", "b", "later"]);
        running.queue.close();
        running.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_at_a_time_than_allowed() {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let names: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
        let running = start(64, &names, |_| async {
            MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            NOW.fetch_sub(1, Ordering::SeqCst);
            DONE.fetch_add(1, Ordering::SeqCst);
            Verdict::Settled
        });
        while DONE.load(Ordering::SeqCst) < 2000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(MOST.load(Ordering::SeqCst), 64);
        running.queue.close();
        running.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_key_backs_off_alone() {
        let tries = Arc::new(Mutex::new(Vec::new()));
        let log = tries.clone();
        let begin = Instant::now();
        let running = start(1, &["bad".to_owned()], move |key| {
            let log = log.clone();
            async move {
                log.lock().unwrap().push((key.name.to_string(), begin.elapsed()));
                if &*key.name == "bad" {
                    Verdict::Failed
                } else {
                    Verdict::Settled
                }
            }
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        running.queue.add(key("good"), Urgency::Change);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let tries = tries.lock().unwrap().clone();
        let bad: Vec<_> = tries
            .iter()
            .filter(|(name, _)| name == "bad")
            .map(|(_, at)| at.as_secs())
            .collect();
        // 0.25, 0.5, 1, 2, 4, … seconds apart, each up to a fifth less.
        assert!((8..=10).contains(&bad.len()), "{bad:?}");
        let good = tries
            .iter()
            .find(|(name, _)| name == "good")
            .map(|(_, at)| *at)
            .unwrap();
        assert!(good < Duration::from_millis(100_010), "{good:?}");
        running.queue.close();
        running.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn again_is_at_once_only_the_first_time() {
        let failures = Failures::default();
        let longest = (0..50)
            .filter_map(|_| failures.wait(&key("busy"), Verdict::Failed))
            .max();
        assert!(longest <= Some(backoff::delay(1, 0.0)), "events alone: {longest:?}");
        assert_eq!(failures.wait(&key("a"), Verdict::Again), Some(Duration::ZERO));
        assert!(failures.wait(&key("a"), Verdict::Again) > Some(Duration::from_millis(300)));
        assert_eq!(failures.wait(&key("a"), Verdict::Settled), None);
        assert_eq!(failures.wait(&key("a"), Verdict::Again), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn closing_waits_for_what_has_begun() {
        let done = Arc::new(AtomicUsize::new(0));
        let log = done.clone();
        let running = start(2, &["a".to_owned()], move |_| {
            let log = log.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                log.store(1, Ordering::SeqCst);
                Verdict::Settled
            }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.queue.close();
        running.task.await.unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dispatcher_that_waits_for_work_or_for_a_slot_is_not_stuck() {
        let idle = start(1, &[], |_| async { Verdict::Settled });
        tokio::time::sleep(Duration::from_secs(1000)).await;
        assert_eq!(idle.queue.liveness().stuck(), []);
        let names = ["a", "b"].map(String::from);
        let blocked = start(1, &names, |_| async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Verdict::Settled
        });
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(blocked.queue.liveness().stuck(), []);
        idle.task.abort();
        blocked.task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_given_up() {
        let tries = Arc::new(AtomicUsize::new(0));
        let log = tries.clone();
        let running = start(1, &["stuck".to_owned()], move |_| {
            let log = log.clone();
            async move {
                log.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<Verdict>().await
            }
        });
        tokio::time::sleep(DEADLINE * 3).await;
        assert!(tries.load(Ordering::SeqCst) >= 2);
        running.task.abort();
    }
}
