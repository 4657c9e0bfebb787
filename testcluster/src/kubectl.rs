//! kubectl for one user of one cluster, independent of the configuration of the person at the keyboard.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

/// An error of kubectl.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It did not start.
    #[error("failed to run kubectl {arguments}")]
    Run {
        /// The arguments.
        arguments: String,
        /// The reason.
        source: io::Error,
    },
    /// It failed.
    #[error("kubectl {arguments} failed: {message}")]
    Refused {
        /// The arguments.
        arguments: String,
        /// Its output.
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

    /// Runs kubectl and returns its output.
    ///
    /// # Errors
    /// When it exits with another code than 0; the error has its output.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        accepted(arguments, self.output(arguments, "")?)
    }

    /// Runs kubectl with `input` on its standard input, and returns its output.
    ///
    /// # Errors
    /// When it exits with another code than 0; the error has its output.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<String, Error> {
        accepted(arguments, self.output(arguments, input)?)
    }

    /// Applies a manifest with server-side apply. Without kubectl's own validation: for it, kubectl reads the schemas of the API
    /// server, which costs both sides more processor time than the rest.
    ///
    /// # Errors
    /// When the API server rejects a part of it.
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        self.run_with_input(&["apply", "--server-side", "--validate=false", "-f", "-"], manifest)
    }

    /// Parses a manifest as kubectl does, without the API server: JSON documents, one after the other.
    ///
    /// # Errors
    /// When it is invalid.
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

    /// Runs kubectl and returns its exit code and its whole output, for a test of an error.
    ///
    /// # Errors
    /// When it does not start.
    pub fn output(&self, arguments: &[&str], input: &str) -> Result<Output, Error> {
        output(self.command().args(arguments), input).map_err(|source| Error::Run {
            arguments: arguments.join(" "),
            source,
        })
    }

    /// Returns the command that runs kubectl, for background processes such as a watch.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut kubectl = Command::new(&self.program);
        // kubectl's cache of a server is keyed by host and port, and ports are reused.
        let memory = self.kubeconfig.parent().unwrap_or(Path::new(".")).join("kubectl-cache");
        kubectl
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(memory);
        kubectl.env_remove("KUBECONFIG").env("KUBERC", "off");
        // It ends before garbage collection would help.
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
    // Concurrently: a pipe has little space, and kubectl may answer before it has read everything.
    thread::scope(|scope| {
        scope.spawn(move || {
            // kubectl may not read its input; its exit code shows whether that was an error.
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
