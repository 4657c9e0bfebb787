//! Connections from the host into the node's network.
//!
//! A socket belongs to the network in which it was created. So the host's listener accepts connections as usual, and a
//! thread that has entered the node's network connects there.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

/// The pause after an accept that failed, as it does when no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);

/// Forwards connections to `port` of 127.0.0.1 in a network, in threads of their own.
pub(super) fn into(listener: TcpListener, network: Arc<File>, port: u16) {
    accept(listener, move |stream| {
        setns(&*network, CloneFlags::CLONE_NEWNET)?;
        pump(&stream, &TcpStream::connect((Ipv4Addr::LOCALHOST, port))?);
        Ok(())
    });
}

/// Runs `work` on each connection, in a thread of its own.
pub(super) fn accept(listener: TcpListener, work: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) {
    let work = Arc::new(work);
    thread::spawn(move || {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let work = Arc::clone(&work);
                    // A broken connection only affects its two ends.
                    let started = thread::Builder::new().spawn(move || work(stream));
                    drop(started);
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    });
}

/// Copies in both directions until both are at their end.
pub(super) fn pump(one: &TcpStream, other: &TcpStream) {
    let _ = one.set_nodelay(true);
    let _ = other.set_nodelay(true);
    thread::scope(|scope| {
        scope.spawn(|| copy(one, other));
        copy(other, one);
    });
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    if io::copy(&mut from, &mut to).is_err() {
        // The other direction must end, too.
        let _ = from.shutdown(Shutdown::Both);
    }
    let _ = to.shutdown(Shutdown::Write);
}
