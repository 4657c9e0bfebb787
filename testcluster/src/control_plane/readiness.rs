//! Waiting for a component to be ready, and free ports.
//!
//! A port can't be reserved for a child process, so another process may bind it first. A component that failed to bind its
//! port is started again on another one.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use super::Error;
use crate::process::Process;

const TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// The pause between two calls of a program, each of which keeps a processor busy for about as long.
const PAUSE: Duration = Duration::from_millis(150);
const TRIES: usize = 5;
const LINES_OF_LOG: usize = 15;

/// Returns a port that is free now.
pub(super) fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(Error::FindPort)
}

/// Repeats `start` while other processes bind its ports first.
pub(super) fn on_free_ports<T>(mut start: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let mut tries = 1;
    loop {
        match start() {
            Err(Error::Ended { log, .. }) if tries < TRIES && log.contains("address already in use") => tries += 1,
            result => return result,
        }
    }
}

/// The wait for one process.
pub(super) struct Readiness<'a> {
    process: &'a mut Process,
    started: Instant,
    pause: Duration,
}

impl<'a> Readiness<'a> {
    pub(super) fn of(process: &'a mut Process) -> Self {
        Self {
            process,
            started: Instant::now(),
            pause: POLL_INTERVAL,
        }
    }

    /// Increases the pause between two checks.
    pub(super) fn slowly(&mut self) -> &mut Self {
        self.pause = PAUSE;
        self
    }

    /// Waits until `ready` returns no error.
    pub(super) fn wait_for<E: std::fmt::Display>(&mut self, ready: impl Fn() -> Result<(), E>) -> Result<(), Error> {
        loop {
            let response = ready();
            // Checked after the response, which may be of another process on that port.
            if !matches!(self.process.exited(), Ok(None)) {
                return Err(Error::Ended {
                    program: self.process.name().to_owned(),
                    log: self.log(),
                });
            }
            match response {
                Ok(()) => return Ok(()),
                Err(error) if self.started.elapsed() > TIMEOUT => {
                    return Err(Error::NotReady {
                        program: self.process.name().to_owned(),
                        after: TIMEOUT,
                        response: error.to_string(),
                        log: self.log(),
                    });
                }
                Err(_) => thread::sleep(self.pause),
            }
        }
    }

    fn log(&self) -> String {
        self.process.log_tail(LINES_OF_LOG)
    }
}
