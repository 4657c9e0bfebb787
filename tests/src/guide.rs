//! Runs the commands of a guide as a script, exactly as they are documented.
//!
//! A fenced block is run if its first line is one of these:
//!
//! ```text
//! ```sh test               in order
//! ```sh test background    concurrently, until the guide is done
//! ```sh test if:gdb        in order, where there is a gdb
//! ```sh test fails         in order, and it must fail
//! ```
//!
//! The expected output of such a block follows in a block that begins with
//!
//! ```text
//! ```text output
//! ```
//!
//! Each of its lines must be printed, in this order. `…` stands for anything, and any space for any other.

use std::fmt::Write as _;

/// A block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its first line.
    pub line: usize,
    /// Whether it runs in the background of the next blocks.
    pub background: bool,
    /// Whether it must fail.
    pub fails: bool,
    /// The program without which it is skipped.
    pub needs: Option<String>,
    /// The commands.
    pub commands: String,
    /// The expected output.
    pub output: Vec<String>,
}

/// Returns the blocks of a guide that are run.
#[must_use]
pub fn blocks(guide: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = guide.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(marks) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect();
        let mut marks = marks.split_whitespace();
        match (marks.next(), marks.next()) {
            (Some("sh"), Some("test")) => {}
            (Some("text"), Some("output")) => {
                if let Some(before) = blocks.last_mut() {
                    before.output.extend(body.iter().map(|line| (*line).to_owned()));
                }
                continue;
            }
            _ => continue,
        }
        let marks: Vec<&str> = marks.collect();
        blocks.push(Block {
            line: index + 1,
            background: marks.contains(&"background"),
            fails: marks.contains(&"fails"),
            needs: marks
                .iter()
                .find_map(|mark| mark.strip_prefix("if:"))
                .map(str::to_owned),
            commands: body.join("\n"),
            output: Vec::new(),
        });
    }
    blocks
}

/// Returns one script of all blocks, which prints its position before each.
#[must_use]
pub fn script(blocks: &[Block]) -> String {
    // Both streams are combined, as on a terminal. Some commands fail without output, so the shell prints the command
    // that failed. Ending the background jobs does not change the exit code.
    let mut script = String::from(
        "exec 2>&1\ntrap 'echo \"exit code $?: $BASH_COMMAND\"' ERR\n\
         trap 'code=$?; kill $(jobs -p) 2>/dev/null || true; wait || true; exit $code' EXIT\n",
    );
    for block in blocks {
        let Block {
            line,
            background,
            fails,
            needs,
            commands,
            ..
        } = block;
        let _ = writeln!(script, "echo '{}'", mark(*line));
        let _ = match (background, needs) {
            (true, _) => writeln!(script, "{commands} &"),
            (false, _) if *fails => {
                writeln!(
                    script,
                    "if {{\n{commands}\n}}; then echo 'this should have failed'; exit 1; fi"
                )
            }
            (false, Some(program)) => {
                writeln!(script, "if command -v {program} > /dev/null; then\n{commands}\nfi")
            }
            (false, None) => writeln!(script, "{commands}"),
        };
    }
    script
}

/// Returns the line that the script prints before the block at `line`.
fn mark(line: usize) -> String {
    format!("# line {line}")
}

/// Returns the first expected line that the script of these blocks did not print.
#[must_use]
pub fn missing<'a>(blocks: &'a [Block], printed: &str) -> Option<&'a str> {
    blocks.iter().filter(|block| !block.background).find_map(|block| {
        let mark = mark(block.line);
        let mut lines = printed
            .lines()
            .skip_while(|line| *line != mark)
            .skip(1)
            .take_while(|line| !line.starts_with("# line "));
        let wanted = block.output.iter().filter(|line| !line.trim().is_empty());
        wanted
            .map(String::as_str)
            .find(|wanted| !lines.any(|line| is_like(line, wanted)))
    })
}

/// Returns whether `line` matches `wanted`.
fn is_like(line: &str, wanted: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, wanted) = (words(line), words(wanted));
    let Some((first, others)) = wanted.split_once('…') else {
        return line == wanted;
    };
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut others: Vec<&str> = others.split('…').collect();
    let last = others.pop().unwrap_or_default();
    for other in others {
        let Some(at) = rest.find(other) else { return false };
        rest = &rest[at + other.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = "# Guide\n\n```sh test\nexport A=1\necho $A\n```\n\n```console\n$ not this\n```\n\
                         ```sh\nnor this\n```\n```sh test background\nserve\n```\n```sh test if:gdb\ngdb\n```\n";

    #[test]
    fn only_marked_blocks_are_run() {
        let found = blocks(GUIDE);
        let lines: Vec<_> = found.iter().map(|block| (block.line, block.background)).collect();
        assert_eq!(lines, [(3, false), (14, true), (17, false)]);
        assert_eq!(found[0].commands, "export A=1\necho $A");
        assert_eq!(found[2].needs.as_deref(), Some("gdb"));
    }

    #[test]
    fn script_continues_while_a_background_block_runs() {
        let script = script(&blocks(GUIDE));
        assert!(script.contains("\nserve &\n"), "{script}");
        assert!(
            script.contains("\nif command -v gdb > /dev/null; then\ngdb\nfi\n"),
            "{script}"
        );
    }

    /// Runs a guide as [`testcluster::checkout::Shell`] does, and returns the exit code and the output.
    fn run(guide: &str) -> (Option<i32>, String) {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-eu", "-o", "pipefail", "-c", &script(&blocks(guide))]);
        let output = bash.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn failed_command_without_a_message_is_named() {
        let (code, printed) = run("```sh test\ntrue\nsh -c 'exit 3'\necho never\n```\n");
        assert_eq!(code, Some(3), "{printed}");
        assert_eq!(printed, "# line 1\nexit code 3: sh -c 'exit 3'\n");
    }

    #[test]
    fn failed_background_command_does_not_fail_the_guide() {
        let (code, printed) = run("```sh test background\nsh -c 'exit 7'\n```\n```sh test\nsleep 0.1\n```\n");
        assert_eq!((code, printed.as_str()), (Some(0), "# line 1\n# line 4\n"));
    }

    const OUTPUT: &str = "```sh test\ngreet\n```\nIt says\n```text output\nHello,   …!\n\nIt is … o'clock\n```\n\
                          ```sh test fails\nfalse\n```\n";

    #[test]
    fn expected_output_is_compared_with_the_printed_output() {
        let blocks = blocks(OUTPUT);
        let printed = |text: &str| format!("# line 1\n{text}\n# line 10\nHello, late!\n");
        assert_eq!(
            missing(&blocks, &printed("oh\nHello, Jane!!\nIt is o'clock o'clock")),
            None
        );
        assert_eq!(missing(&blocks, &printed("It is five o'clock")), Some("Hello,   …!"));
        assert_eq!(
            missing(&blocks, &printed("Hello, Jane!\nIt is five o'clock sharp")),
            Some("It is … o'clock")
        );
        assert_eq!(
            missing(&blocks, &printed("Hello, Jane\nIt is one o'clock")),
            Some("Hello,   …!")
        );
    }

    #[test]
    fn command_that_must_fail_fails_the_guide_when_it_succeeds() {
        let script = script(&blocks(OUTPUT));
        assert!(script.contains("if {\nfalse\n}; then echo"), "{script}");
    }
}
