//! A circuit breaker, as a pure state machine: all times are parameters.

use std::time::{Duration, Instant};

/// Opens after consecutive failures, then lets one probe through at a time until one of them succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Breaker {
    threshold: u32,
    open: Duration,
    longest_open: Duration,
    state: State,
    /// Incremented when the state changes between closed and open, so that late outcomes are recognized.
    period: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
        /// Failed probes since it opened.
        probes: u32,
        probing: bool,
    },
}

/// A call that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    period: u64,
    probe: bool,
}

impl Breaker {
    pub(super) fn new(threshold: u32, open: Duration, longest_open: Duration) -> Self {
        Self {
            threshold: threshold.max(1),
            open,
            longest_open,
            state: State::Closed { failures: 0 },
            period: 0,
        }
    }

    /// Returns for how long calls are refused, if they are.
    pub(super) fn open_for(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Open { until, probing, .. } => {
                let left = until.saturating_duration_since(now);
                // The probe's outcome is not known yet: the shortest time is the best guess.
                (probing || !left.is_zero()).then_some(if probing { left.max(self.open) } else { left })
            }
            State::Closed { .. } => None,
        }
    }

    /// Admits a call: any while closed, one at a time when the open time has passed.
    ///
    /// # Errors
    /// With the time for which calls are refused.
    pub(super) fn admit(&mut self, now: Instant) -> Result<Admission, Duration> {
        if let Some(left) = self.open_for(now) {
            return Err(left);
        }
        let probe = match &mut self.state {
            State::Open { probing, .. } => {
                *probing = true;
                true
            }
            State::Closed { .. } => false,
        };
        Ok(Admission {
            period: self.period,
            probe,
        })
    }

    /// Records the outcome of an admitted call. Outcomes of calls from before the last change do not count.
    pub(super) fn record(&mut self, admission: Admission, failed: bool, now: Instant) {
        if admission.period != self.period {
            return;
        }
        match &mut self.state {
            State::Closed { failures } if failed => {
                *failures += 1;
                if *failures >= self.threshold {
                    self.period += 1;
                    self.state = State::Open {
                        until: now + self.open,
                        probes: 0,
                        probing: false,
                    };
                }
            }
            State::Closed { failures } => *failures = 0,
            State::Open { until, probes, probing } if failed => {
                *probes = probes.saturating_add(1);
                *probing = false;
                *until = now + self.open.saturating_mul(1 << (*probes).min(16)).min(self.longest_open);
            }
            State::Open { .. } => {
                self.period += 1;
                self.state = State::Closed { failures: 0 };
            }
        }
    }

    /// Forgets an admitted call without an outcome. If it was the probe, another call may be it.
    pub(super) fn abandon(&mut self, admission: Admission) {
        if let State::Open { probing, .. } = &mut self.state
            && admission.probe
            && admission.period == self.period
        {
            *probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Duration = Duration::from_secs(5);

    fn breaker() -> Breaker {
        Breaker::new(3, OPEN, Duration::from_secs(30))
    }

    /// Lets `count` calls fail one after the other.
    fn fail(breaker: &mut Breaker, count: u32, now: Instant) {
        for _ in 0..count {
            let admission = breaker.admit(now).unwrap();
            breaker.record(admission, true, now);
        }
    }

    #[test]
    fn breaker_opens_after_consecutive_failures_only() {
        let (mut breaker, now) = (breaker(), Instant::now());
        for _ in 0..5 {
            fail(&mut breaker, 2, now);
            let admission = breaker.admit(now).unwrap();
            breaker.record(admission, false, now);
        }
        assert_eq!(breaker.open_for(now), None);
        fail(&mut breaker, 3, now);
        assert_eq!(breaker.admit(now), Err(OPEN));
    }

    #[test]
    fn one_probe_at_a_time_closes_it_or_keeps_it_open_longer() {
        let (mut breaker, mut now) = (breaker(), Instant::now());
        fail(&mut breaker, 3, now);
        for open in [5, 10, 20, 30, 30] {
            let open = Duration::from_secs(open);
            assert_eq!(breaker.admit(now), Err(open));
            assert!(
                breaker
                    .admit(now + open.saturating_sub(Duration::from_nanos(1)))
                    .is_err()
            );
            now += open;
            let probe = breaker.admit(now).unwrap();
            assert!(breaker.admit(now).is_err(), "there is a second probe");
            breaker.record(probe, true, now);
        }
        now += Duration::from_secs(30);
        let probe = breaker.admit(now).unwrap();
        breaker.record(probe, false, now);
        assert_eq!(breaker.open_for(now), None);
        // As many failures as at first open it again, for as long as at first.
        fail(&mut breaker, 3, now);
        assert_eq!(breaker.admit(now), Err(OPEN));
    }

    #[test]
    fn abandoned_probe_lets_another_call_probe() {
        let (mut breaker, now) = (breaker(), Instant::now());
        fail(&mut breaker, 3, now);
        let later = now + OPEN;
        let probe = breaker.admit(later).unwrap();
        breaker.abandon(probe);
        let second = breaker.admit(later).unwrap();
        breaker.record(second, false, later);
        assert_eq!(breaker.open_for(later), None);
    }

    #[test]
    fn late_outcomes_of_earlier_calls_do_not_count() {
        let (mut breaker, now) = (breaker(), Instant::now());
        let calls: Vec<Admission> = (0..5).map(|_| breaker.admit(now).unwrap()).collect();
        for call in &calls[..3] {
            breaker.record(*call, true, now);
        }
        // A success that was on its way does not close it, and a failure does not keep it open longer.
        breaker.record(calls[3], false, now);
        breaker.record(calls[4], true, now);
        assert_eq!(breaker.admit(now), Err(OPEN));
        let probe = breaker.admit(now + OPEN).unwrap();
        breaker.abandon(calls[0]);
        assert!(breaker.admit(now + OPEN).is_err(), "the probe is still in flight");
        breaker.record(probe, false, now + OPEN);
        assert_eq!(breaker.open_for(now + OPEN), None);
    }
}
