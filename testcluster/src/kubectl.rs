//! kubectl as one user of one cluster, without what the person at the keyboard has set up for theirs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

/// Why kubectl did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It did not start.
    #[error("failed to run kubectl {arguments}")]
    Run {
        /// What it was told.
        arguments: String,
        /// Why it did not start.
        source: io::Error,
    },
    /// It refused.
    #[error("kubectl {arguments} failed: {message}")]
    Refused {
        /// What it was told.
        arguments: String,
        /// What it said.
        message: String,
    },
}

/// kubectl with a kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Returns the kubectl at `program` for the user of `kubeconfig`.
    #[must_use]
    pub fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig }
    }

    /// Returns the same kubectl for another user.
    #[must_use]
    pub fn with_kubeconfig(&self, kubeconfig: &Path) -> Self {
        Self::new(self.program.clone(), kubeconfig.to_owned())
    }

    /// Runs kubectl and returns what it printed.
    ///
    /// # Errors
    /// When it exits with another code than 0; the error tells what it said.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        accepted(arguments, self.output(arguments, "")?)
    }

    /// Runs kubectl with `input` on its standard input, and returns what it printed.
    ///
    /// # Errors
    /// When it exits with another code than 0; the error tells what it said.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<String, Error> {
        accepted(arguments, self.output(arguments, input)?)
    }

    /// Applies a manifest on the server's side.
    ///
    /// # Errors
    /// When the API server refuses a part of it.
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        self.run_with_input(&["apply", "--server-side", "-f", "-"], manifest)
    }

    /// Reads a manifest as kubectl does, without asking what the API server thinks of it: JSON documents, one after the
    /// other.
    ///
    /// # Errors
    /// When it is no manifest.
    pub fn read(&self, manifest: &str) -> Result<String, Error> {
        let arguments = [
            "create",
            "--dry-run=client",
            "--validate=false",
            "-o",
            "json",
            "-f",
            "-",
        ];
        self.run_with_input(&arguments, manifest)
    }

    /// Runs kubectl and returns its exit code and all that it wrote, for a test of a refusal.
    ///
    /// # Errors
    /// When it does not start.
    pub fn output(&self, arguments: &[&str], input: &str) -> Result<Output, Error> {
        output(self.command().args(arguments), input).map_err(|source| Error::Run {
            arguments: arguments.join(" "),
            source,
        })
    }

    /// Returns the command that runs kubectl, for what is to go on meanwhile, such as a watch.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut kubectl = Command::new(&self.program);
        // What kubectl remembers of a server it files under host and port, and ports are used again.
        let memory = self.kubeconfig.parent().unwrap_or(Path::new(".")).join("kubectl-cache");
        kubectl
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(memory);
        kubectl.env_remove("KUBECONFIG").env("KUBERC", "off");
        // It ends before it has garbage that is worth collecting.
        kubectl.env("GOGC", "400");
        kubectl
    }
}

fn output(command: &mut Command, input: &str) -> io::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    // Both at once: a pipe holds little, and kubectl may answer before it has read everything.
    thread::scope(|scope| {
        scope.spawn(move || {
            // kubectl need not read what it is offered; its exit code tells whether it minded.
            let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
        });
        child.wait_with_output()
    })
}

fn accepted(arguments: &[&str], output: Output) -> Result<String, Error> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Refused {
        arguments: arguments.join(" "),
        message: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
    })
}
