//! `--env-file`: variables from a file, in the format of `kubectl create configmap --from-env-file` and of Docker.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::{Error, Result, system_error};

/// How much is read of a file: no spec may have more.
const LIMIT: u64 = crd::MAX_SPEC_BYTES as u64;

/// Variables with their values, in the order of the file.
type Variables = Vec<(String, String)>;

/// The invalid lines of a file, and why they are invalid.
type Problems = Vec<(usize, String)>;

/// Reads the variables of a file, in their order.
pub fn read(path: &Path) -> Result<Variables> {
    let shown = path.display();
    let failed =
        |source: std::io::Error| Error::usage(format!("cannot read the env file {shown}: {}", system_error(&source)));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    // A pipe has no length, and may have no end.
    file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LIMIT {
        return Err(Error::usage(format!(
            "the env file {shown} has more than {} KiB: put large values into a ConfigMap or a Secret",
            LIMIT / 1024
        )));
    }
    let environment = |name: &str| std::env::var(name).ok();
    parse(&bytes, environment).map_err(|problems| {
        let error = Error::usage(format!("invalid env file {shown}: nothing was created"));
        problems
            .into_iter()
            .take(5)
            .fold(error, |error, (line, why)| error.why(format!("{shown}:{line}: {why}")))
    })
}

/// Parses a file. Each line is `NAME=VALUE`, and quotes are part of the value. `NAME` alone takes the value from the environment.
/// Empty lines and lines that begin with `#` are skipped. Returns all errors with their lines.
fn parse(bytes: &[u8], environment: impl Fn(&str) -> Option<String>) -> std::result::Result<Variables, Problems> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let (mut variables, mut problems) = (Vec::new(), Vec::new());
    let mut known = BTreeMap::new();
    for (number, line) in bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(index, line)| (index + 1, line))
    {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else {
            problems.push((number, "not UTF-8".to_owned()));
            continue;
        };
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (line.trim_end(), None),
        };
        let problem = if !is_name(name) {
            // The line is not repeated: it may hold a password.
            Some("invalid name: write NAME=VALUE, the name in letters, digits, '_', '-' or '.'".to_owned())
        } else if let Some(first) = known.insert(name.to_owned(), number) {
            Some(format!("{name} is set twice, first in line {first}"))
        } else if value.as_deref().is_some_and(|value| value.contains('\0')) {
            Some(format!("the value of {name} contains a zero byte"))
        } else {
            None
        };
        match (problem, value.or_else(|| environment(name))) {
            (Some(problem), _) => problems.push((number, problem)),
            (None, Some(value)) => variables.push((name.to_owned(), value)),
            (None, None) => problems.push((
                number,
                format!("{name} has no value here, and is not set in the environment"),
            )),
        }
    }
    if problems.is_empty() {
        Ok(variables)
    } else {
        Err(problems)
    }
}

/// Whether this can be the name of a variable, as kubectl has it.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !name.is_empty() && name.chars().all(is_part) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;

    fn parsed(text: &str) -> std::result::Result<Variables, Problems> {
        parse(text.as_bytes(), |name| (name == "HOME").then(|| "/root".to_owned()))
    }

    #[test]
    fn lines_are_read_as_kubectl_and_docker_read_them() {
        let text = "\u{feff}# a comment\n\nMODE=live\r\n  INDENTED=x\nURL=http://a?b=c\nQUOTED=\"a b\" \nEMPTY=\nHOME\nHASH=a # b";
        let variables = parsed(text).unwrap();
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| format!("{name}={value}|"))
            .collect();
        insta::assert_snapshot!(variables.join("\n"), @r#"
        MODE=live|
        INDENTED=x|
        URL=http://a?b=c|
        QUOTED="a b" |
        EMPTY=|
        HOME=/root|
        HASH=a # b|
        "#);
        assert_eq!(parsed(""), Ok(Vec::new()));
    }

    #[test]
    fn errors_are_reported_with_lines_and_without_values() {
        let text = b"A=1\nB B=secret\n=secret\nA=2\n9=secret\nMISSING\nexport C=secret\n\xff=1\nD=\0";
        let problems = parse(text, |_| None).unwrap_err();
        let lines: Vec<_> = problems.iter().map(|(line, why)| format!("{line}: {why}")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        2: invalid name: write NAME=VALUE, the name in letters, digits, '_', '-' or '.'
        3: invalid name: write NAME=VALUE, the name in letters, digits, '_', '-' or '.'
        4: A is set twice, first in line 1
        5: invalid name: write NAME=VALUE, the name in letters, digits, '_', '-' or '.'
        6: MISSING has no value here, and is not set in the environment
        7: invalid name: write NAME=VALUE, the name in letters, digits, '_', '-' or '.'
        8: not UTF-8
        9: the value of D contains a zero byte
        ");
    }

    #[test]
    fn file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str| {
            let text = read(&folder.path().join(name))
                .unwrap_err()
                .text(&RenderOptions::default());
            text.replace(&folder.path().display().to_string(), "DIR")
        };
        std::fs::write(folder.path().join("wrong"), "A=1\nB\u{a0}=2\n").unwrap();
        std::fs::write(folder.path().join("large"), vec![b'#'; 256 * 1024 + 1]).unwrap();
        let said = ["missing", "wrong", "large"].map(said);
        insta::assert_snapshot!(said.join("\n"), @r"
        error: cannot read the env file DIR/missing: no such file or directory
        error: invalid env file DIR/wrong: nothing was created
          why:  DIR/wrong:2: invalid name: write NAME=VALUE, the name in letters, digits, '_', '-' or '.'
        error: the env file DIR/large has more than 256 KiB: put large values into a ConfigMap or a Secret
        ");
        std::fs::write(folder.path().join("full"), vec![b'#'; 256 * 1024]).unwrap();
        assert_eq!(read(&folder.path().join("full")), Ok(Vec::new()));
    }
}
