//! A pool of control planes that the tests of a process use one after the other.
//!
//! A start takes several seconds of processor time. Therefore a control plane with default settings is kept after a test,
//! and the keys of etcd are restored. If the test panicked, or stopped, paused or killed a process, it is stopped instead.

use std::fs;
use std::ops::Deref;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::contents::Contents;
use super::{Builder, ControlPlane, Error};
use crate::process::{self, Memory};

/// Idle control planes. Their reapers end them, because a static is never dropped.
static IDLE: Mutex<Vec<Member>> = Mutex::new(Vec::new());
/// The maximum number of idle control planes.
const MOST_IDLE: usize = 8;
/// The maximum resident memory in MiB of an API server that is kept. It does not release memory after a test with large
/// objects.
const MOST_MEMORY: f64 = 1024.0;

/// The last keys that a new API server creates.
const LAST: [&str; 3] = [
    "/registry/services/specs/default/kubernetes",
    "/registry/servicecidrs/kubernetes",
    "/registry/priorityclasses/system-node-critical",
];
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A control plane that is returned to the pool, or stopped, when this is dropped.
#[derive(Debug)]
pub struct PooledControlPlane(Option<Lent>);

#[derive(Debug)]
enum Lent {
    Reusable(Member),
    Single(Box<ControlPlane>),
}

/// A control plane that can be reused, and its keys before the first test.
#[derive(Debug)]
struct Member {
    // Dropped first: it must not act when the control plane is stopped regularly.
    _reaper: Reaper,
    definitions: Vec<String>,
    contents: Contents,
    control_plane: Box<ControlPlane>,
}

impl PooledControlPlane {
    pub(super) fn take(builder: Builder) -> Result<Self, Error> {
        let Some(definitions) = builder.reusable() else {
            return Ok(Self(Some(Lent::Single(Box::new(builder.start()?)))));
        };
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle.iter().rposition(|member| member.definitions == definitions);
        let member = known.map(|index| idle.remove(index));
        drop(idle);
        let member = member.map_or_else(|| Member::start(builder), Ok)?;
        Ok(Self(Some(Lent::Reusable(member))))
    }
}

impl Deref for PooledControlPlane {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        match &self.0 {
            Some(Lent::Reusable(member)) => &member.control_plane,
            Some(Lent::Single(control_plane)) => control_plane,
            None => unreachable!("it is taken only when this is dropped"),
        }
    }
}

impl Drop for PooledControlPlane {
    fn drop(&mut self) {
        let Some(Lent::Reusable(mut member)) = self.0.take() else {
            return;
        };
        if thread::panicking() || !member.reset().is_ok_and(|reusable| reusable) {
            return;
        }
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(member);
        let oldest = (idle.len() > MOST_IDLE).then(|| idle.remove(0));
        drop(idle);
        drop(oldest);
    }
}

impl Member {
    fn start(builder: Builder) -> Result<Self, Error> {
        let definitions = builder.reusable().unwrap_or_default().to_vec();
        let control_plane = builder.start()?;
        let started = Instant::now();
        let contents = loop {
            let contents = Contents::read(control_plane.etcd.port()).map_err(Error::Keys)?;
            if contents.have(&LAST) || started.elapsed() > TIMEOUT {
                break contents;
            }
            thread::sleep(POLL_INTERVAL);
        };
        Ok(Self {
            _reaper: Reaper::of(&control_plane)?,
            definitions,
            contents,
            control_plane: Box::new(control_plane),
        })
    }

    /// Removes the objects of a test. Returns whether the control plane can be used again.
    fn reset(&mut self) -> Result<bool, Error> {
        let control_plane = &self.control_plane;
        let is_large = control_plane
            .pids()
            .into_iter()
            .any(|pid| Memory::of(pid).is_ok_and(|memory| memory.now_mib > MOST_MEMORY));
        if is_large || control_plane.is_disturbed.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.contents.restore().map_err(Error::Keys)?;
        // It has the kinds of the last test.
        let _ = fs::remove_dir_all(control_plane.folder().join("kubectl-cache"));
        let end = control_plane.audit().end()?;
        control_plane.audit_start.store(end, Ordering::Relaxed);
        Ok(true)
    }
}

/// A shell that kills a control plane and removes its folder when this process ends in any way.
#[derive(Debug)]
struct Reaper(Child);

impl Reaper {
    fn of(control_plane: &ControlPlane) -> Result<Self, process::Error> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r _; kill -9 \"$@\" 2>/dev/null; rm -rf \"$0\""]);
        shell.arg(control_plane.folder());
        shell.args(control_plane.pids().iter().map(ToString::to_string));
        // Its standard input ends with this process. Its own process group receives no Ctrl-C.
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = shell.process_group(0).spawn();
        started.map(Self).map_err(|source| process::Error::Start {
            program: "sh".to_owned(),
            source,
        })
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
