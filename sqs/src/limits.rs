//! The limits of an endpoint: concurrent calls, a rate, and a circuit breaker.

mod breaker;
mod rate;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::error::Error;
use breaker::{Admission, Breaker};
use rate::Rate;

/// The limits of each endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// The most concurrent calls.
    pub concurrency: usize,
    /// How many calls a second are sent, in the long run.
    pub rate: u32,
    /// How many calls are sent without a pause after a quiet time.
    pub burst: u32,
    /// The longest time that a call waits for its turn.
    pub wait: Duration,
    /// The longest time from the start of a call, after its turn has come, to the end of its answer.
    pub timeout: Duration,
    /// After how many consecutive calls without a usable answer the circuit breaker opens.
    pub failures: u32,
    /// How long the breaker stays open the first time. The time doubles with each failed probe.
    pub open: Duration,
    /// The longest time that the breaker stays open.
    pub longest_open: Duration,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            concurrency: 8,
            rate: 50,
            burst: 100,
            wait: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            failures: 5,
            open: Duration::from_secs(5),
            longest_open: Duration::from_secs(60),
        }
    }
}

/// What a call showed about its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server answered, whatever the answer was.
    Answered,
    /// The server answered that there were too many calls, and perhaps how long to pause.
    Throttled(Option<Duration>),
    /// There was no usable answer. The server may have sent how long to pause.
    Failed(Option<Duration>),
}

/// The limits of one endpoint.
#[derive(Debug)]
pub(crate) struct Limits {
    settings: LimitSettings,
    slots: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rate: Rate,
    breaker: Breaker,
    last_failure: String,
}

/// The permission to send one call. Dropping it without an outcome is an abandoned call.
#[derive(Debug)]
pub(crate) struct Permit {
    limits: Arc<Limits>,
    admission: Admission,
    finished: bool,
    _slot: OwnedSemaphorePermit,
}

impl Limits {
    pub(crate) fn new(settings: LimitSettings) -> Self {
        let now = Instant::now().into_std();
        Self {
            slots: Arc::new(Semaphore::new(settings.concurrency.max(1))),
            state: Mutex::new(State {
                rate: Rate::new(settings.rate, settings.burst, now),
                breaker: Breaker::new(settings.failures, settings.open, settings.longest_open),
                last_failure: String::new(),
            }),
            settings,
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Waits for the turn of a call.
    ///
    /// # Errors
    /// When the breaker is open, or the turn would not come in time. Nothing was sent.
    pub(crate) async fn enter(self: &Arc<Self>) -> Result<Permit, Error> {
        let started = Instant::now();
        // Fails immediately, without a place in the line, while the breaker is open.
        self.state().check(started)?;
        let Ok(Ok(slot)) = timeout(self.settings.wait, self.slots.clone().acquire_owned()).await else {
            return Err(Error::Unavailable {
                why: format!("{} calls are waiting for an answer", self.settings.concurrency),
                retry_after: None,
            });
        };
        let left = self.settings.wait.saturating_sub(started.elapsed());
        let wait = self.state().reserve(Instant::now(), left)?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        // Other calls may have opened it in the meantime.
        let admission = self.state().admit(Instant::now())?;
        Ok(Permit {
            limits: self.clone(),
            admission,
            finished: false,
            _slot: slot,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_open(&self, left: Duration) -> Error {
        Error::Unavailable {
            why: format!(
                "calls are held back for {} s after consecutive failures, the last one: {}",
                left.as_secs() + 1,
                self.last_failure
            ),
            retry_after: Some(left),
        }
    }

    fn check(&self, now: Instant) -> Result<(), Error> {
        match self.breaker.open_for(now.into_std()) {
            Some(left) => Err(self.is_open(left)),
            None => Ok(()),
        }
    }

    fn admit(&mut self, now: Instant) -> Result<Admission, Error> {
        self.breaker.admit(now.into_std()).map_err(|left| self.is_open(left))
    }

    fn reserve(&mut self, now: Instant, longest: Duration) -> Result<Duration, Error> {
        self.rate.reserve(now.into_std(), longest).map_err(|wait| {
            if self.rate.is_paused(now.into_std()) {
                Error::Throttled {
                    retry_after: Some(wait),
                }
            } else {
                Error::Unavailable {
                    why: "too many calls are waiting for the rate limit of the endpoint".to_owned(),
                    retry_after: Some(wait),
                }
            }
        })
    }
}

impl Permit {
    /// Records the outcome of the call; `why` is the reason of a failure. Returns how long other calls are paused.
    pub(crate) fn finish(mut self, outcome: Outcome, why: &str) -> Option<Duration> {
        self.finished = true;
        let now = Instant::now().into_std();
        let mut state = self.limits.state();
        let failed = matches!(outcome, Outcome::Failed(_));
        state.breaker.record(self.admission, failed, now);
        if failed {
            why.clone_into(&mut state.last_failure);
        }
        match outcome {
            Outcome::Answered => state.rate.succeed(),
            Outcome::Throttled(retry_after) => return Some(state.rate.throttle(retry_after, now)),
            Outcome::Failed(Some(retry_after)) => return Some(state.rate.throttle(Some(retry_after), now)),
            Outcome::Failed(None) => {}
        }
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.finished {
            self.limits.state().breaker.abandon(self.admission);
        }
    }
}

#[cfg(test)]
mod tests;
