//! An operator behind a proxy, which is restarted after it dies.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::operator::{Operator, Place};
use super::reign::{Reign, usurpations};
use super::stage::{OPERATOR, Stage};
use fault_proxy::Proxy;

/// How long the lock of the operator is held at a time, so that another thread can kill it.
const GLANCE: Duration = Duration::from_millis(100);

/// An operator behind a proxy, and its restarts.
pub(super) struct Post<'a> {
    stage: &'a Stage,
    place: Place,
    bug: Option<&'a str>,
    /// Its name in the leader election, if it takes part in one.
    candidate: Option<&'static str>,
    pub(super) proxy: Proxy,
    operator: Mutex<Operator>,
    starts: Mutex<Vec<Instant>>,
    panics: Mutex<Vec<String>>,
}

impl<'a> Post<'a> {
    /// Starts an operator behind a proxy, after `script` has added the rules.
    pub(super) fn take_up(
        stage: &'a Stage,
        place: &Place,
        bug: Option<&'a str>,
        candidate: Option<&'static str>,
        script: impl FnOnce(&Proxy),
    ) -> Result<Self> {
        let proxy = Proxy::before(&stage.control_plane, OPERATOR, &[])?;
        script(&proxy);
        let starts = vec![Instant::now()];
        let Stage {
            program, control_plane, ..
        } = stage;
        let operator = Operator::start(program, control_plane, &proxy, place, bug, candidate)?;
        Ok(Self {
            stage,
            place: place.clone(),
            bug,
            candidate,
            proxy,
            operator: operator.into(),
            starts: starts.into(),
            panics: Mutex::default(),
        })
    }

    /// Waits until the caches of the operator are synced, of the current process or of its restart.
    pub(super) fn until_ready(&self, patience: Duration) -> Result<bool> {
        let started = Instant::now();
        while started.elapsed() < patience {
            self.keep_up()?;
            // Unlocked in between, so that another thread can kill it.
            if self.operator().until_ready(GLANCE) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn kill(&self) -> Result<()> {
        let mut operator = self.operator();
        operator.kill()?;
        lock(&self.panics).extend(operator.panics());
        Ok(())
    }

    /// Restarts the operator after it was killed.
    pub(super) fn start_again(&self) -> Result<()> {
        self.put_in_place(&mut self.operator())
    }

    /// Restarts the operator if it has exited because it lost the Lease.
    pub(super) fn keep_up(&self) -> Result<()> {
        let mut operator = self.operator();
        if self.candidate.is_some() && operator.is_deposed() {
            lock(&self.panics).extend(operator.panics());
            self.put_in_place(&mut operator)?;
        }
        Ok(())
    }

    fn put_in_place(&self, operator: &mut Operator) -> Result<()> {
        let Stage {
            program, control_plane, ..
        } = self.stage;
        lock(&self.starts).push(Instant::now());
        *operator = Operator::start(
            program,
            control_plane,
            &self.proxy,
            &self.place,
            self.bug,
            self.candidate,
        )?;
        Ok(())
    }

    /// Returns the problems of the operators at this place, given the leaders.
    pub(super) fn problems(&self, reigns: &[Reign]) -> Vec<String> {
        let mut problems = std::mem::take(&mut *lock(&self.panics));
        let mut operator = self.operator();
        problems.extend(operator.panics());
        let stays = operator.is_running() || self.candidate.is_some() && operator.is_deposed();
        problems.extend((!stays).then(|| "the operator ended by itself".to_owned()));
        if let Some(name) = self.candidate {
            problems.extend(usurpations(name, &self.proxy.records(), &lock(&self.starts), reigns));
        }
        problems
    }

    pub(super) fn log_tail(&self) -> String {
        self.operator().log_tail(15)
    }

    fn operator(&self) -> MutexGuard<'_, Operator> {
        lock(&self.operator)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
