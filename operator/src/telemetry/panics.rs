//! Panics as log lines, with the object that was reconciled: collectors of logs read no other format.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{Location, PanicHookInfo, set_hook};

use tracing::error;

/// Logs panics from now on. With `RUST_BACKTRACE=1` the line has a backtrace.
pub fn log() {
    set_hook(Box::new(log_panic));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let at = panic.location().map(Location::to_string);
    error!(what = words(panic.payload()), at, backtrace, "panicked");
}

fn words(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not a text")
}
