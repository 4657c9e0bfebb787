//! Prompts for confirmation.

use dialoguer::Confirm;
use dialoguer::console::Term;
use model::NextCommand;
use serde_json::{Value, json};

use crate::cluster::connection::Cluster;
use crate::error::{Error, Kind, Result};
use crate::terminal::prompt;
use crate::terminal::ui::Ui;

/// Prompts for confirmation, with the cluster and the namespace. Without a terminal, `unasked` is returned, which names the flag
/// that confirms. `kept` states what was not changed, for the message after a refusal.
pub fn ask(cluster: &Cluster, namespace: Option<&str>, question: &str, unasked: Error, kept: &str) -> Result<()> {
    if !Ui::can_ask() {
        return Err(unasked);
    }
    let term = Term::stderr();
    let namespace = namespace.map(|name| format!("namespace {name}, ")).unwrap_or_default();
    let question = format!("{question} ({namespace}{})", cluster.place());
    let question = Confirm::new().with_prompt(question).default(false);
    match prompt::interruptible(kept, || question.interact_on(&term)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::failed(kept)),
        Err(dialoguer::Error::IO(_)) => {
            // A prompt hides the cursor, and Ctrl-C would leave it hidden.
            let _ = term.show_cursor().and_then(|()| term.write_line(""));
            Err(Error::new(Kind::Interrupted, format!("interrupted: {kept}")))
        }
    }
}

/// Returns the error for a plan that was made from what has changed since.
pub fn outdated(next: NextCommand) -> Error {
    Error::failed("the objects have changed since they were shown: nothing was changed")
        .next(next.remark("shows the current state"))
}

/// Returns the part of an object that a plan depends on, without the status.
pub fn shape(object: &Value) -> Value {
    let meta = &object["metadata"];
    json!({"uid": meta["uid"], "labels": meta["labels"], "ownerReferences": meta["ownerReferences"],
        "deletionTimestamp": meta["deletionTimestamp"], "spec": object["spec"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_the_spec_asks_again_and_one_of_the_status_does_not() {
        let object = |image: &str, ready: i32, version: &str| {
            shape(
                &json!({"metadata": {"uid": "1", "resourceVersion": version}, "spec": {"image": image},
                "status": {"ready": ready}}),
            )
        };
        assert_eq!(object("a", 0, "1"), object("a", 1, "2"));
        assert_ne!(object("a", 0, "1"), object("b", 0, "2"));
    }
}
