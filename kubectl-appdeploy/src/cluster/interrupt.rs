//! Ctrl-C and the signals that end a command.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cluster::connection::Writes;
use crate::error::{Error, Kind};

/// Whether Ctrl-C is for another program that runs at the terminal.
static IS_FOR_A_CHILD: AtomicBool = AtomicBool::new(false);

/// What a command does to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only reads.
    None,
    /// It changes each object once, and may wait for the result.
    Change,
    /// It has several steps; the same command again does the rest.
    Steps,
}

/// Waits for Ctrl-C, unless it is for a program of [`left_to_child`].
pub async fn pressed() {
    loop {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler Ctrl-C ends the process by itself.
            std::future::pending::<()>().await;
        }
        if !IS_FOR_A_CHILD.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// Runs another program at the terminal, such as an editor. Ctrl-C is for that program only, as long as it runs.
pub async fn left_to_child<T>(run: impl FnOnce() -> T) -> T {
    IS_FOR_A_CHILD.store(true, Ordering::SeqCst);
    let outcome = run();
    // A signal that came in the meantime is delivered when the runtime looks for events the next time.
    for _ in 0..2 {
        tokio::task::yield_now().await;
    }
    IS_FOR_A_CHILD.store(false, Ordering::SeqCst);
    outcome
}

/// Waits for a signal that ends the command. It restores the terminal and returns the exit code of a shell.
#[cfg(unix)]
pub async fn terminated() -> Error {
    use tokio::signal::unix::{SignalKind, signal};
    let one = |kind: SignalKind, code: u8| async move {
        match signal(kind) {
            Ok(mut signals) => signals.recv().await,
            Err(_) => std::future::pending().await,
        };
        Error::new(Kind::Terminated(code), "")
    };
    tokio::select! {
        error = one(SignalKind::terminate(), 143) => error,
        error = one(SignalKind::hangup(), 129) => error,
    }
}

/// Waits for a signal that ends a command: here there is none but Ctrl-C.
#[cfg(not(unix))]
pub async fn terminated() -> Error {
    std::future::pending().await
}

/// Returns the error of an interrupted command, with what it has changed.
pub fn error(effect: Effect, writes: &Writes) -> Error {
    let is_in_doubt = writes.is_open() || writes.take_unanswered();
    let interrupted = |text: &str| Error::new(Kind::Interrupted, text);
    if effect == Effect::None {
        return interrupted("");
    }
    if !writes.any() {
        return interrupted("interrupted: nothing was changed");
    }
    let error = interrupted(if is_in_doubt {
        "interrupted: the last request was sent and not answered: it may have been carried out"
    } else {
        "interrupted: changes sent so far continue in the cluster"
    });
    match effect {
        Effect::Steps => error
            .why("only some of the steps were done")
            .next("the same command again does the rest"),
        _ => error,
    }
}
