//! A question before something that is not easily undone.

use dialoguer::Confirm;
use dialoguer::console::Term;

use crate::asking;
use crate::error::{Error, Kind, Result};
use crate::ui::Ui;

/// Asks whether to go on. Where nobody can answer, `unasked` is the error, with the flag that answers; `kept` says what was
/// left as it is when the answer is no.
pub fn ask(question: &str, unasked: Error, kept: &str) -> Result<()> {
    if !Ui::can_ask() {
        return Err(unasked);
    }
    let term = Term::stderr();
    let question = Confirm::new().with_prompt(question).default(false);
    match asking::interruptible(kept, || question.interact_on(&term)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::failed(kept)),
        Err(dialoguer::Error::IO(_)) => {
            // A question hides the cursor and Ctrl-C leaves it hidden.
            let _ = term.show_cursor().and_then(|()| term.write_line(""));
            Err(Error::new(Kind::Interrupted, format!("interrupted: {kept}")))
        }
    }
}
