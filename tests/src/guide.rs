//! The commands of a guide, as a script: what the documentation tells people to type is run as it stands there.
//!
//! A fenced block is run if its first line is one of these:
//!
//! ```text
//! ```sh test               in order
//! ```sh test background    meanwhile, until the guide is done
//! ```sh test if:gdb        in order, where there is a gdb
//! ```

use std::fmt::Write as _;

/// A block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line at which it begins.
    pub line: usize,
    /// It goes on while the next blocks run.
    pub background: bool,
    /// The program without which it is left out.
    pub needs: Option<String>,
    /// The commands.
    pub commands: String,
}

/// Returns the blocks of a guide that are marked to be run.
#[must_use]
pub fn blocks(guide: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
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
        if (marks.next(), marks.next()) != (Some("sh"), Some("test")) {
            continue;
        }
        let marks: Vec<&str> = marks.collect();
        blocks.push(Block {
            line: index + 1,
            background: marks.contains(&"background"),
            needs: marks
                .iter()
                .find_map(|mark| mark.strip_prefix("if:"))
                .map(str::to_owned),
            commands: body.join("\n"),
        });
    }
    blocks
}

/// Returns one script of all blocks, which says where it is before each.
#[must_use]
pub fn script(blocks: &[Block]) -> String {
    let mut script = String::from("trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n");
    for block in blocks {
        let Block {
            line,
            background,
            needs,
            commands,
        } = block;
        let _ = writeln!(script, "echo '# line {line}'");
        let _ = match (background, needs) {
            (true, _) => writeln!(script, "{commands} &"),
            (false, Some(program)) => {
                writeln!(script, "if command -v {program} > /dev/null; then\n{commands}\nfi")
            }
            (false, None) => writeln!(script, "{commands}"),
        };
    }
    script
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
    fn a_script_goes_on_while_a_block_runs() {
        let script = script(&blocks(GUIDE));
        assert!(script.contains("\nserve &\n"), "{script}");
        assert!(
            script.contains("\nif command -v gdb > /dev/null; then\ngdb\nfi\n"),
            "{script}"
        );
    }
}
