//! An operator behind a proxy, which is restarted after it dies.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::cluster::Cluster;
use super::leadership::{Leadership, writes_without_lease};
use super::operator::{Operator, Place};
use fault_proxy::Proxy;
use testcluster::checkout::OPERATOR_USER;

/// How long the lock of the operator is held at a time, so that another thread can kill it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An operator behind a proxy, and its restarts.
pub(super) struct Replica<'a> {
    cluster: &'a Cluster,
    place: Place,
    bug: Option<&'a str>,
    /// Its name in the leader election, if it takes part in one.
    candidate: Option<&'static str>,
    pub(super) proxy: Proxy,
    operator: Mutex<Operator>,
    starts: Mutex<Vec<Instant>>,
    panics: Mutex<Vec<String>>,
}

impl<'a> Replica<'a> {
    /// Starts an operator behind a proxy, after `script` has added the rules.
    pub(super) fn start(
        cluster: &'a Cluster,
        place: &Place,
        bug: Option<&'a str>,
        candidate: Option<&'static str>,
        script: impl FnOnce(&Proxy),
    ) -> Result<Self> {
        let proxy = Proxy::before(&cluster.control_plane, OPERATOR_USER, &[])?;
        script(&proxy);
        let starts = vec![Instant::now()];
        let Cluster {
            program, control_plane, ..
        } = cluster;
        let operator = Operator::start(program, control_plane, &proxy, place, bug, candidate)?;
        Ok(Self {
            cluster,
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
    pub(super) fn until_ready(&self, timeout: Duration) -> Result<bool> {
        let started = Instant::now();
        while started.elapsed() < timeout {
            self.restart_if_deposed()?;
            // Unlocked in between, so that another thread can kill it.
            if self.operator().until_ready(POLL_INTERVAL) {
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
    pub(super) fn restart(&self) -> Result<()> {
        self.put_in_place(&mut self.operator())
    }

    /// Restarts the operator if it has exited because it lost the Lease.
    pub(super) fn restart_if_deposed(&self) -> Result<()> {
        let mut operator = self.operator();
        if self.candidate.is_some() && operator.is_deposed() {
            lock(&self.panics).extend(operator.panics());
            self.put_in_place(&mut operator)?;
        }
        Ok(())
    }

    fn put_in_place(&self, operator: &mut Operator) -> Result<()> {
        let Cluster {
            program, control_plane, ..
        } = self.cluster;
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
    pub(super) fn problems(&self, leaderships: &[Leadership]) -> Vec<String> {
        let mut problems = std::mem::take(&mut *lock(&self.panics));
        let mut operator = self.operator();
        problems.extend(operator.panics());
        let stays = operator.is_running() || self.candidate.is_some() && operator.is_deposed();
        problems.extend((!stays).then(|| "the operator ended by itself".to_owned()));
        if let Some(name) = self.candidate {
            problems.extend(writes_without_lease(
                name,
                &self.proxy.records(),
                &lock(&self.starts),
                leaderships,
            ));
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
