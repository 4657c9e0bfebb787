//! Runs the editor of the user.

use model::NextCommand;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};

/// The default editor.
const USUAL: &str = if cfg!(windows) { "notepad" } else { "vi" };

/// Opens a file and returns when the editor ends. `again` is the command that opens it again.
pub fn open(path: &Path, again: &NextCommand) -> Result<()> {
    let chosen = ["KUBE_EDITOR", "EDITOR"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|editor| !editor.trim().is_empty());
    let editor = chosen.unwrap_or_else(|| USUAL.to_owned());
    let failed = |why: String| {
        Error::failed(format!("the editor {editor} failed")).why(why).next(
            NextCommand::from("KUBE_EDITOR=nano")
                .and(again.clone())
                .remark("or another one"),
        )
    };
    let status = command(&editor, path)
        .status()
        .map_err(|source| failed(source.to_string()))?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(format!("it ended with {status}")))
    }
}

/// Returns what opens a file. An editor may be a command with arguments, like `code --wait`.
fn command(editor: &str, path: &Path) -> Command {
    if cfg!(windows) {
        let mut words = editor.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or(USUAL));
        command.args(words).arg(path);
        return command;
    }
    let mut command = Command::new("sh");
    // Ctrl-C is for the editor: the shell outlives it, and ends as the editor does.
    let script = format!("trap : INT; {editor} \"$1\"");
    command.arg("-c").arg(script).arg("sh").arg(path);
    command
}
