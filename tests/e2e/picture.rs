//! The session that the README shows: typed at a terminal of 80 columns, on the real node.

mod svg;

use anyhow::{Context as _, Result, ensure};
use terminal::{Screen, Terminal};

use crate::world::{Space, World};

/// Where the picture is written, if it is wanted.
const FILE: &str = "APPDEPLOY_PICTURE";
/// Nothing of a screen is lost: no command writes more lines.
const ROWS: u16 = 60;

/// What is typed, its exit code, and what has to be read then.
const SESSION: [(&str, i32, &[&str]); 5] = [
    (
        "kubectl appdeploy create shop --image=nginx --port=80 --replicas=2 --wait",
        0,
        &["shop is ready: http://shop."],
    ),
    (
        "kubectl appdeploy status shop",
        0,
        &["2/2", "Deployment/shop", "Running"],
    ),
    (
        "kubectl appdeploy create oops --image=nginx:no-such-tag --port=80 --wait",
        3,
        &["why:  image nginx:no-such-tag was not found", "next: "],
    ),
    (
        "kubectl appdeploy status",
        0,
        &["oops: image nginx:no-such-tag was not found", "next: "],
    ),
    (
        "kubectl appdeploy delete oops",
        0,
        &["appdeploy.appdeploy.dev/oops deleted"],
    ),
];

/// One command with what it wrote.
pub struct Part {
    command: &'static str,
    screen: Screen,
}

pub fn a_session_is_what_the_readme_shows(_world: &World, space: &Space) -> Result<()> {
    let mut parts = Vec::new();
    for (command, code, texts) in SESSION {
        let terminal = Terminal::sized(space.shell.at_terminal(command), ROWS, terminal::COLUMNS)?;
        let (ended, screen) = terminal.end()?;
        let text = screen.text();
        ensure!(ended == code, "`{command}` ended with {ended}:\n{text}");
        for part in texts {
            ensure!(text.contains(part), "`{command}` does not say {part:?}:\n{text}");
        }
        parts.push(Part { command, screen });
    }
    if let Some(file) = std::env::var_os(FILE) {
        std::fs::write(&file, svg::picture(&parts)).with_context(|| format!("failed to write {}", file.display()))?;
    }
    Ok(())
}
