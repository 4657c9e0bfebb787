//! Waiting for a part to come up, and ports for it.
//!
//! A port can't be reserved for another process, only found free; whoever is faster takes it. So
//! a part that lost its port is started again on another.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::Error;
use crate::process::Process;

const PATIENCE: Duration = Duration::from_secs(90);
const GLANCE: Duration = Duration::from_millis(25);
/// Between two calls of a program, each of which takes as long and keeps a processor busy.
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

/// Runs `start` until it does not lose its ports to somebody else.
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
            pause: GLANCE,
        }
    }

    /// Asks less often from now on.
    pub(super) fn slowly(&mut self) -> &mut Self {
        self.pause = PAUSE;
        self
    }

    /// Waits until something listens on `port`, as a process that does not end does there.
    pub(super) fn wait_for_port(&mut self, port: u16) -> Result<(), Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        self.wait_for(|| TcpStream::connect_timeout(&address, Duration::from_secs(1)).map(drop))
    }

    /// Waits until `ready` has nothing to complain about.
    pub(super) fn wait_for<E: std::fmt::Display>(&mut self, ready: impl Fn() -> Result<(), E>) -> Result<(), Error> {
        loop {
            let said = ready();
            // Looked at after the answer, which may have come from whoever took the port.
            if !matches!(self.process.exited(), Ok(None)) {
                return Err(Error::Ended {
                    program: self.process.name().to_owned(),
                    log: self.log(),
                });
            }
            match said {
                Ok(()) => return Ok(()),
                Err(said) if self.started.elapsed() > PATIENCE => {
                    return Err(Error::NotReady {
                        program: self.process.name().to_owned(),
                        after: PATIENCE,
                        said: said.to_string(),
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
