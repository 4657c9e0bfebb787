//! The session that the README shows: typed at a terminal of 80 columns, on the real node.

mod svg;

use anyhow::{Context as _, Result, bail, ensure};
use terminal::{Screen, Terminal};
use tests::session::{self, Typed};

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

pub fn a_session_is_what_the_readme_shows(world: &World, space: &Space) -> Result<()> {
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
    let now = svg::picture(&parts);
    if let Some(file) = std::env::var_os(FILE) {
        return std::fs::write(&file, now).with_context(|| format!("failed to write {}", file.display()));
    }
    let drawn = read(world, "docs/session.svg")?;
    let [drawn, now] = [drawn, now].map(|svg| session::typed(&session::of_picture(&svg)));
    let equal = |typed: &Typed| {
        (
            typed.command.clone(),
            typed.lines.iter().map(|line| session::comparable(line)).collect(),
        )
    };
    let [drawn_lines, now_lines]: [Vec<(String, Vec<String>)>; 2] =
        [&drawn, &now].map(|all| all.iter().map(equal).collect());
    ensure!(
        drawn_lines == now_lines,
        "docs/session.svg shows\n{drawn:#?}\nand the session is\n{now:#?}\n`make picture` draws it again"
    );
    Ok(())
}

/// Types what the README shows, and compares.
pub fn a_transcript_is_what_the_readme_shows(world: &World, space: &Space) -> Result<()> {
    // A reader's namespace is `default`, the test's is its own.
    let readme = read(world, "README.md")?
        .replace(".default", &format!(".{}", space.namespace))
        .replace("-n default", &format!("-n {}", space.namespace));
    let shown = session::typed(session::of_page(&readme).context("README.md has no transcript")?);
    for Typed { command, lines } in shown {
        // A command that says why an app does not work ends with another code than 0.
        let written = space.shell.run(&format!("exec 2>&1; {command} || true"))?;
        let written: Vec<String> = written.lines().map(ToOwned::to_owned).collect();
        if let Some(line) = session::missing(&lines, &written) {
            bail!(
                "README.md shows\n{line}\nfor `{command}`, which wrote:\n{}",
                written.join("\n")
            );
        }
    }
    Ok(())
}

fn read(world: &World, file: &str) -> Result<String> {
    let path = world.checkout.root().join(file);
    std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}
