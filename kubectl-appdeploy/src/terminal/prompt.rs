//! Handles Ctrl-C during a prompt.

use std::process;

use dialoguer::console::Term;
use tokio::signal;
use tokio::sync::oneshot;

/// The exit code of an interrupted command, as in a shell.
const INTERRUPTED: i32 = 130;

/// Prompts, and ends the command on Ctrl-C; `kept` says what was not changed.
///
/// A terminal hands over Ctrl-C as a key while a key is being read, and as a signal in between. A question blocks the
/// thread that listens for signals elsewhere, so another one listens as long as it is asked: otherwise Ctrl-C would be heard
/// at the next key only.
pub fn interruptible<T>(kept: &str, ask: impl FnOnce() -> T) -> T {
    let (answered, answer) = oneshot::channel::<()>();
    let kept = kept.to_owned();
    let listener = std::thread::spawn(move || {
        // Without a runtime, Ctrl-C is read with the next key.
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = answer => {}
                heard = signal::ctrl_c() => if heard.is_ok() { leave(&kept) },
            }
        });
    });
    let given = ask();
    drop(answered);
    let _ = listener.join();
    given
}

/// Shows the cursor that a prompt has hidden, prints what was not changed, and exits: nothing else can end the prompt.
#[expect(clippy::exit, reason = "a prompt blocks its thread and can't be canceled")]
fn leave(kept: &str) -> ! {
    let term = Term::stderr();
    let _ = term
        .show_cursor()
        .and_then(|()| term.write_line(""))
        .and_then(|()| term.write_line(&format!("error: interrupted: {kept}")));
    process::exit(INTERRUPTED)
}
