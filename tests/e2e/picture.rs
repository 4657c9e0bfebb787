//! The sessions in the README, on the real node: a picture of a terminal with 80 columns, and a transcript.

mod svg;

use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use terminal::{Screen, Terminal};
use tests::session::{self, Typed};

use crate::environment::{Environment, TestContext};

/// The variable with the file to write the picture to. Without it, the picture is only compared.
const FILE: &str = "APPDEPLOY_PICTURE";
/// The number of lines of the terminal: no command prints more.
const ROWS: u16 = 60;

/// Commands, their exit codes, and parts of their output.
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

/// A command and its output.
pub struct Part {
    command: &'static str,
    screen: Screen,
}

pub fn picture_of_the_readme_is_current(environment: &Environment, context: &TestContext) -> Result<()> {
    let mut parts = Vec::new();
    for (command, code, texts) in SESSION {
        let terminal = Terminal::sized(context.shell.at_terminal(command), ROWS, terminal::COLUMNS)?;
        let (ended, screen) = terminal.end()?;
        let text = screen.text();
        ensure!(ended == code, "`{command}` ended with {ended}:\n{text}");
        for part in texts {
            ensure!(text.contains(part), "`{command}` does not print {part:?}:\n{text}");
        }
        parts.push(Part { command, screen });
    }
    let now = svg::picture(&parts);
    if let Some(file) = std::env::var_os(FILE) {
        return std::fs::write(&file, now).with_context(|| format!("failed to write {}", file.display()));
    }
    let drawn = read(environment, "docs/session.svg")?;
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
        "docs/session.svg has\n{drawn:#?}\nbut the session is\n{now:#?}\nupdate it with `make picture`"
    );
    Ok(())
}

pub fn transcript_of_the_readme_is_current(environment: &Environment, context: &TestContext) -> Result<()> {
    // The README uses the namespace `default`, the test its own.
    let readme = read(environment, "README.md")?
        .replace(".default", &format!(".{}", context.namespace))
        .replace("-n default", &format!("-n {}", context.namespace));
    let shown = session::typed(session::of_page(&readme).context("README.md has no transcript")?);
    for Typed { command, lines } in shown {
        let begun = Instant::now();
        loop {
            // A command that prints a cause exits with another code than 0.
            let written = context.shell.run(&format!("exec 2>&1; {command} || true"))?;
            let written: Vec<String> = written.lines().map(ToOwned::to_owned).collect();
            let Some(line) = session::missing(&lines, &written) else {
                break;
            };
            // The ingress controller routes to a new app a moment after its pods are ready.
            if command.starts_with("curl ") && begun.elapsed() < testcluster::wait::TIMEOUT {
                continue;
            }
            bail!(
                "README.md has the line\n{line}\nbut the output of `{command}` is:\n{}",
                written.join("\n")
            );
        }
    }
    Ok(())
}

fn read(environment: &Environment, file: &str) -> Result<String> {
    let path = environment.checkout.root().join(file);
    std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}
