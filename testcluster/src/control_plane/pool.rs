//! Control planes that the tests of a process use one after the other.
//!
//! A start takes several seconds of processor time. So a plain control plane is kept after a test: etcd is set back to what it
//! held before the test, and the next test begins with that. One whose test panicked, or stopped, paused or killed a
//! process, is ended instead.

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

/// Idle control planes. They are ended by their reapers, for a static is never dropped.
static IDLE: Mutex<Vec<Member>> = Mutex::new(Vec::new());
/// How many of them are kept.
const MOST_IDLE: usize = 8;
/// The resident memory in MiB up to which an API server is kept. It does not give back what a test with large objects took.
const MOST_MEMORY: f64 = 1024.0;

/// Keys that an API server writes last of those that it creates once.
const LAST: [&str; 3] = [
    "/registry/services/specs/default/kubernetes",
    "/registry/servicecidrs/kubernetes",
    "/registry/priorityclasses/system-node-critical",
];
const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(20);

/// A control plane that goes back to the pool when this is dropped, or ends.
#[derive(Debug)]
pub struct PooledControlPlane(Option<Lent>);

#[derive(Debug)]
enum Lent {
    Reusable(Member),
    Single(Box<ControlPlane>),
}

/// A control plane that can be reused, and what it held before its first test.
#[derive(Debug)]
struct Member {
    // Dropped first: it must not act on what is ended in order.
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
            if contents.have(&LAST) || started.elapsed() > PATIENCE {
                break contents;
            }
            thread::sleep(GLANCE);
        };
        Ok(Self {
            _reaper: Reaper::of(&control_plane)?,
            definitions,
            contents,
            control_plane: Box::new(control_plane),
        })
    }

    /// Removes what a test has left. Returns whether the control plane can be used again.
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
        // What kubectl remembers of the kinds of the last test.
        let _ = fs::remove_dir_all(control_plane.folder().join("kubectl-cache"));
        let end = control_plane.audit().end()?;
        control_plane.audit_start.store(end, Ordering::Relaxed);
        Ok(true)
    }
}

/// A shell that kills a control plane and removes its folder as soon as this process has ended, however it did.
#[derive(Debug)]
struct Reaper(Child);

impl Reaper {
    fn of(control_plane: &ControlPlane) -> Result<Self, process::Error> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r _; kill -9 \"$@\" 2>/dev/null; rm -rf \"$0\""]);
        shell.arg(control_plane.folder());
        shell.args(control_plane.pids().iter().map(ToString::to_string));
        // Its input ends with this process. A Ctrl-C is not for it.
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
