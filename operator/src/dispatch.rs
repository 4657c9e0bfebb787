//! Takes keys from the queue and reconciles them: a limited number at a time, each with its own backoff. A panic or a
//! timeout fails one key only.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use model::Failure;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, Span, error, error_span, field, warn};

use crate::attempt::{Attempt, DEADLINE};
use crate::controller::Controller;
use crate::key::Key;
use crate::metrics::{Counted, Outcome};
use crate::open_namespaces::OpenNamespaces;
use crate::queue::Priority;
use crate::result::{Error, ReconcileResult};

/// How long the report about a reconcile that panicked or timed out may take.
const REPORT_DEADLINE: Duration = Duration::from_secs(4);

/// Held by running work. Its receiver ends when all work has ended or was dropped.
pub type Running = mpsc::Sender<Infallible>;

/// Reconciles the objects in the queue of a controller until it is closed, then waits for the reconciles that have begun.
/// When it is dropped, they are aborted.
pub async fn dispatch(
    controller: Arc<dyn Controller>,
    open: Arc<OpenNamespaces>,
    concurrency: u16,
    metrics: Counted,
    running: Running,
) {
    let (kind, queue) = (controller.kind(), controller.queue().clone());
    let metrics = Arc::new(metrics);
    let slots = Arc::new(Semaphore::new(usize::from(concurrency)));
    let pulse = queue.liveness().join(format!("the dispatcher of {kind}s"));
    let mut tasks = JoinSet::new();
    loop {
        pulse.beat();
        // The slot first, so that a key is taken only when it can be reconciled: until then, all events for it are one reconcile.
        let Ok(slot) = slots.clone().acquire_owned().await else {
            break;
        };
        let Some(key) = pulse.beating(queue.next()).await else {
            break;
        };
        while tasks.try_join_next().is_some() {}
        let is_early = !open.holds(&key);
        if is_early && !controller.is_new(&key) && open.hold_back(&key) {
            queue.done(&key);
            continue;
        }
        if let Some(wait) = controller.retries().throttled_for(&key) {
            queue.add_after(key.clone(), wait);
            queue.done(&key);
            continue;
        }
        let reconcile = queue.liveness().join(format!("a reconcile of {kind}s"));
        let (queue, controller) = (queue.clone(), controller.clone());
        let (metrics, running, open) = (metrics.clone(), running.clone(), open.clone());
        let span = span(kind, &key);
        let work = async move {
            let start = Instant::now();
            let attempt = Attempt::begin();
            let (result, outcome) = attempt_one(&*controller, &attempt, &key).await;
            metrics.reconciled(outcome, start.elapsed());
            record(&Span::current(), outcome);
            // What was listed since then may belong in its status. One that has failed is retried anyway, after its backoff.
            if is_early && result.is_ok() && !open.hold_back(&key) {
                queue.add(key.clone(), Priority::Resync);
            }
            if let Some(wait) = controller.retries().requeue_in(&key, result, attempt.retry_after()) {
                if result.is_err() {
                    metrics.retried();
                }
                queue.add_after(key.clone(), wait);
            }
            queue.done(&key);
            drop((slot, running, reconcile));
        };
        tasks.spawn(work.instrument(span));
    }
    drop(pulse);
    while tasks.join_next().await.is_some() {}
}

/// Reconciles an object once. After a panic or a timeout, its status is written here.
async fn attempt_one(controller: &dyn Controller, attempt: &Attempt, key: &Key) -> (ReconcileResult, Outcome) {
    let guarded = AssertUnwindSafe(attempt.run(async { controller.reconcile(key.clone()).await })).catch_unwind();
    let (failure, outcome) = match timeout(DEADLINE, guarded).await {
        Ok(Ok(result)) => return (result, Outcome::of(result)),
        Ok(Err(_)) => {
            error!("the reconcile panicked; this is a bug, please report it");
            (Failure::Panicked, Outcome::Panic)
        }
        Err(_) => {
            let seconds = DEADLINE.as_secs();
            error!("the reconcile took longer than {seconds} s and was given up");
            (Failure::TimedOut { seconds }, Outcome::Timeout)
        }
    };
    let report = AssertUnwindSafe(async { controller.report(key, failure).await }).catch_unwind();
    if !matches!(timeout(REPORT_DEADLINE, report).await, Ok(Ok(()))) {
        warn!("the status could not be written");
    }
    (Err(Error::Failed), outcome)
}

/// Returns the span of a reconcile. It adds the object to each log line, and is exported if traces are. Its level is that of errors, so
/// that it is part of lines at each log level.
fn span(kind: &'static str, key: &Key) -> Span {
    error_span!(
        "reconcile",
        kind = %kind,
        namespace = %key.namespace,
        name = %key.name,
        generation = field::Empty,
        reconcileID = %format_args!("{:016x}", fastrand::u64(..)),
        result = field::Empty,
        otel.status_code = field::Empty,
    )
}

fn record(span: &Span, outcome: Outcome) {
    span.record("result", outcome.as_str());
    if outcome != Outcome::Success {
        span.record("otel.status_code", "error");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::informer::Informer;
    use crate::metrics::Metrics;
    use crate::object_state::ObjectStates;
    use crate::object_state::retry::Retries;
    use crate::primary::ReadyState;
    use crate::queue::Queue;
    use crate::result::Requeue;

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    struct Started {
        open: Arc<OpenNamespaces>,
        queue: Arc<Queue<Key>>,
        task: tokio::task::JoinHandle<()>,
        reports: Arc<Mutex<Vec<(String, Failure)>>>,
        ended: mpsc::Receiver<Infallible>,
    }

    impl Started {
        fn open(&self) {
            for key in self.open.open(None) {
                self.queue.add(key, Priority::Resync);
            }
        }
    }

    struct Work<W> {
        reconcile: W,
        states: ObjectStates<()>,
        queue: Arc<Queue<Key>>,
        reports: Arc<Mutex<Vec<(String, Failure)>>>,
    }

    #[async_trait]
    impl<W, F> Controller for Work<W>
    where
        W: Fn(Key) -> F + Send + Sync + 'static,
        F: Future<Output = ReconcileResult> + Send + 'static,
    {
        fn kind(&self) -> &'static str {
            "Work"
        }

        fn name(&self) -> &'static str {
            "work"
        }

        fn queue(&self) -> &Arc<Queue<Key>> {
            &self.queue
        }

        fn retries(&self) -> &dyn Retries {
            &self.states
        }

        fn informers(&self) -> Vec<Informer> {
            Vec::new()
        }

        fn is_new(&self, key: &Key) -> bool {
            key.name.starts_with("new")
        }

        fn keys(&self) -> Vec<Key> {
            Vec::new()
        }

        fn ready_states(&self) -> Vec<ReadyState> {
            Vec::new()
        }

        async fn reconcile(&self, key: Key) -> ReconcileResult {
            (self.reconcile)(key).await
        }

        async fn report(&self, key: &Key, failure: Failure) {
            self.reports.lock().unwrap().push((key.name.to_string(), failure));
        }
    }

    fn start<W, F>(concurrency: u16, keys: &[String], work: W) -> Started
    where
        W: Fn(Key) -> F + Send + Sync + 'static,
        F: Future<Output = ReconcileResult> + Send + 'static,
    {
        let started = start_closed(concurrency, keys, work);
        started.open();
        started
    }

    /// Starts before the namespaces are opened.
    fn start_closed<W, F>(concurrency: u16, keys: &[String], work: W) -> Started
    where
        W: Fn(Key) -> F + Send + Sync + 'static,
        F: Future<Output = ReconcileResult> + Send + 'static,
    {
        let queue = Arc::new(Queue::default());
        for name in keys {
            queue.add(key(name), Priority::Related);
        }
        let (running, ended) = mpsc::channel(1);
        let reports = Arc::default();
        let controller = Arc::new(Work {
            reconcile: work,
            states: ObjectStates::default(),
            queue: queue.clone(),
            reports: Arc::clone(&reports),
        });
        let open = Arc::new(OpenNamespaces::default());
        let metrics = Metrics::default().controller("work");
        let task = tokio::spawn(dispatch(controller, open.clone(), concurrency, metrics, running));
        Started {
            open,
            queue,
            task,
            reports,
            ended,
        }
    }

    /// Without the guard, one panic would end the whole loop: kube's Controller does.
    #[tokio::test(start_paused = true)]
    async fn panic_fails_only_one_key() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let log = done.clone();
        let names = ["poison", "a", "b"].map(String::from);
        let running = start(1, &names, move |key| {
            let log = log.clone();
            async move {
                assert!(&*key.name != "poison", "poison");
                log.lock().unwrap().push(key.name.to_string());
                Ok(Requeue::Done)
            }
        });
        while done.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        running.queue.add(key("later"), Priority::Related);
        while done.lock().unwrap().len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(*done.lock().unwrap(), ["a", "b", "later"]);
        assert!(
            running
                .reports
                .lock()
                .unwrap()
                .contains(&("poison".to_owned(), Failure::Panicked))
        );
        running.queue.close();
        running.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn concurrency_is_limited() {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let names: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
        let running = start(64, &names, |_| async {
            MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            NOW.fetch_sub(1, Ordering::SeqCst);
            DONE.fetch_add(1, Ordering::SeqCst);
            Ok(Requeue::Done)
        });
        while DONE.load(Ordering::SeqCst) < 2000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(MOST.load(Ordering::SeqCst), 64);
        running.queue.close();
        running.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_of_a_key_does_not_delay_others() {
        let tries = Arc::new(Mutex::new(Vec::new()));
        let log = tries.clone();
        let begin = Instant::now();
        let running = start(1, &["bad".to_owned()], move |key| {
            let log = log.clone();
            async move {
                log.lock().unwrap().push((key.name.to_string(), begin.elapsed()));
                if &*key.name == "bad" {
                    Err(Error::Failed)
                } else {
                    Ok(Requeue::Done)
                }
            }
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        running.queue.add(key("good"), Priority::Related);
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

    /// New objects don't wait until everything was listed. The end of the lists shortens no backoff.
    #[tokio::test(start_paused = true)]
    async fn opening_reconciles_what_was_held_back_and_what_succeeded_before() {
        let tries = Arc::new(Mutex::new(Vec::new()));
        let log = tries.clone();
        let begin = Instant::now();
        let names = ["old", "new", "new-bad"].map(String::from);
        let running = start_closed(3, &names, move |key| {
            let log = log.clone();
            async move {
                log.lock()
                    .unwrap()
                    .push((key.name.to_string(), begin.elapsed().as_millis()));
                match &*key.name {
                    "new-bad" if begin.elapsed() < Duration::from_millis(100) => Err(Error::Failed),
                    _ => Ok(Requeue::Done),
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut early = tries.lock().unwrap().clone();
        early.sort();
        assert_eq!(early, [("new".to_owned(), 0), ("new-bad".to_owned(), 0)]);
        tries.lock().unwrap().clear();
        running.open();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let mut late = tries.lock().unwrap().clone();
        late.sort();
        let names: Vec<&str> = late.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["new", "new-bad", "old"]);
        assert_eq!((late[0].1, late[2].1), (50, 50));
        assert!(late[1].1 >= 200, "without its backoff: {late:?}");
        running.task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn closing_waits_for_running_reconciles() {
        let done = Arc::new(AtomicUsize::new(0));
        let log = done.clone();
        let running = start(2, &["a".to_owned()], move |_| {
            let log = log.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                log.store(1, Ordering::SeqCst);
                Ok(Requeue::Done)
            }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.queue.close();
        running.task.await.unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn dispatcher_that_waits_is_not_stuck() {
        let idle = start(1, &[], |_| async { Ok(Requeue::Done) });
        tokio::time::sleep(Duration::from_secs(1000)).await;
        assert_eq!(idle.queue.liveness().stuck(), []);
        let names = ["a", "b"].map(String::from);
        let blocked = start(1, &names, |_| async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(Requeue::Done)
        });
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(blocked.queue.liveness().stuck(), []);
        idle.task.abort();
        blocked.task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn reconcile_that_hangs_is_aborted() {
        let tries = Arc::new(AtomicUsize::new(0));
        let log = tries.clone();
        let running = start(1, &["stuck".to_owned()], move |_| {
            let log = log.clone();
            async move {
                log.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<ReconcileResult>().await
            }
        });
        tokio::time::sleep(DEADLINE * 3).await;
        assert!(tries.load(Ordering::SeqCst) >= 2);
        let timed_out = ("stuck".to_owned(), Failure::TimedOut { seconds: 25 });
        assert!(running.reports.lock().unwrap().contains(&timed_out));
        running.task.abort();
    }

    /// Before the Lease is released, nothing may be left that writes.
    #[tokio::test(start_paused = true)]
    async fn aborted_work_has_ended_when_its_receiver_ends() {
        struct Dropped(Arc<AtomicUsize>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (log, end) = (begun.clone(), ended.clone());
        let names = ["a", "b"].map(String::from);
        let mut running = start(2, &names, move |_| {
            log.fetch_add(1, Ordering::SeqCst);
            let dropped = Dropped(end.clone());
            async move {
                let _dropped = dropped;
                std::future::pending::<ReconcileResult>().await
            }
        });
        while begun.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        running.task.abort();
        assert_eq!(running.ended.recv().await, None);
        assert_eq!(ended.load(Ordering::SeqCst), 2);
    }

    /// An API server that is overloaded says how long to wait. It counts for the key that was refused only.
    #[tokio::test(start_paused = true)]
    async fn throttled_key_waits_as_long_as_the_api_server_asked() {
        let tries = Arc::new(Mutex::new(Vec::new()));
        let log = tries.clone();
        let begin = Instant::now();
        let running = start(1, &["busy".to_owned()], move |key| {
            let log = log.clone();
            async move {
                log.lock()
                    .unwrap()
                    .push((key.name.to_string(), begin.elapsed().as_secs()));
                if &*key.name == "busy" && begin.elapsed() < Duration::from_secs(5) {
                    crate::attempt::throttled(Duration::from_secs(7));
                    return Err(Error::Failed);
                }
                Ok(Requeue::Done)
            }
        });
        tokio::time::sleep(Duration::from_secs(3)).await;
        running.queue.add(key("busy"), Priority::Related);
        running.queue.add(key("other"), Priority::Related);
        tokio::time::sleep(Duration::from_secs(20)).await;
        let expected = [("busy", 0), ("other", 3), ("busy", 7)].map(|(name, at)| (name.to_owned(), at));
        assert_eq!(*tries.lock().unwrap(), expected);
        running.task.abort();
    }
}
