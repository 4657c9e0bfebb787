//! External programs (ip, nft, ctr, buildah, kubectl), with one kind of error.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// One call of an external program.
#[derive(Debug)]
pub(crate) struct Tool {
    command: Command,
    stdin: Option<String>,
}

impl Tool {
    /// Prepares a call of `program`.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            command: Command::new(program),
            stdin: None,
        }
    }

    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs the program in `dir`.
    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Feeds `text` to the program's standard input.
    pub(crate) fn stdin(mut self, text: impl Into<String>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// Runs the program and returns its output; fails with its exit code and its standard error.
    pub(crate) fn run(mut self) -> Result<String> {
        let line = self.line();
        self.command.stdin(if self.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start `{line}`"))?;
        if let (Some(text), Some(mut pipe)) = (self.stdin, child.stdin.take()) {
            // A program that ends early closes the pipe; its exit code then has the reason.
            let _ = pipe.write_all(text.as_bytes());
        }
        let output = child
            .wait_with_output()
            .with_context(|| format!("failed to wait for `{line}`"))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("`{line}` failed ({}): {}", output.status, last_lines(&complaint, 12));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs the program with its output written to `log`, for long builds.
    pub(crate) fn run_logged(mut self, log: &Path) -> Result<()> {
        let line = self.line();
        let file = std::fs::File::create(log).with_context(|| format!("failed to create {}", log.display()))?;
        let copy = file
            .try_clone()
            .with_context(|| format!("failed to share {}", log.display()))?;
        let status = self
            .command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(copy)
            .status()
            .with_context(|| format!("failed to start `{line}`"))?;
        if !status.success() {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            bail!(
                "`{line}` failed ({status}), the whole log is {}:\n{}",
                log.display(),
                last_lines(&text, 25)
            );
        }
        Ok(())
    }

    /// Returns whether the program ran and succeeded; its output is dropped.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.command.status().is_ok_and(|status| status.success())
    }

    fn line(&self) -> String {
        let program = Path::new(self.command.get_program())
            .file_name()
            .unwrap_or(self.command.get_program());
        let words: Vec<_> = std::iter::once(program)
            .chain(self.command.get_args())
            .map(OsStr::to_string_lossy)
            .collect();
        let line = words.join(" ");
        // Enough to identify it; a build's mounts and settings would hide the error.
        match line.char_indices().nth(160) {
            Some((end, _)) => format!("{} …", &line[..end]),
            None => line,
        }
    }
}

/// Finds a program on PATH or in the folders of system programs, which a user's PATH may not have.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin", "/bin"].map(Into::into))
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// Returns the last `count` lines of `text`, where programs usually print errors.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
