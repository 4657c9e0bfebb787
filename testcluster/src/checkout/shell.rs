//! A shell like a user's, in the checkout, with its programs on the PATH.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::{Checkout, Cluster};

/// bash with the environment of a user who followed the guide.
#[derive(Clone, Debug)]
pub struct Shell {
    root: PathBuf,
    path: OsString,
    kubeconfig: Option<PathBuf>,
}

impl Shell {
    /// Opens a shell for a cluster.
    ///
    /// # Errors
    /// When a folder's name can't be part of a PATH.
    pub fn new(checkout: &Checkout, cluster: Cluster) -> Result<Self> {
        let folder = match cluster {
            Cluster::Current => checkout.built().to_path_buf(),
            Cluster::Real | Cluster::Fake => checkout.bin(),
        };
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&inherited)))
            .context("failed to set the PATH")?;
        Ok(Self {
            root: checkout.root().to_path_buf(),
            path,
            kubeconfig: (cluster != Cluster::Current).then(|| checkout.kubeconfig()),
        })
    }

    /// Returns the same shell with another kubeconfig.
    #[must_use]
    pub fn with_kubeconfig(mut self, file: &Path) -> Self {
        self.kubeconfig = Some(file.to_path_buf());
        self
    }

    /// Returns the command for a script, which ends at its first failure.
    #[must_use]
    pub fn command(&self, script: &str) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["-eu", "-o", "pipefail", "-c", script])
            .current_dir(&self.root)
            .env("PATH", &self.path)
            .stdin(Stdio::null());
        if let Some(file) = &self.kubeconfig {
            bash.env("KUBECONFIG", file);
        }
        // Cargo's variables for a test of its own package would make a build in this shell start over: ring's build
        // script reads the folder, and half of the workspace depends on it.
        let variables = std::env::vars_os().map(|(name, _)| name);
        for name in variables.filter(|name| name.to_str().is_some_and(is_of_a_package)) {
            bash.env_remove(name);
        }
        bash
    }

    /// Returns the command for a line on a terminal, where prompts can be answered.
    #[must_use]
    pub fn at_terminal(&self, line: &str) -> Command {
        let mut bash = self.command(line);
        bash.stdin(Stdio::inherit());
        for name in ["NO_COLOR", "FORCE_COLOR", "LC_ALL", "LC_CTYPE"] {
            bash.env_remove(name);
        }
        bash.env("LANG", "C.UTF-8");
        bash
    }

    /// Runs a script and returns its output.
    ///
    /// # Errors
    /// When it fails, with its output.
    pub fn run(&self, script: &str) -> Result<String> {
        let output = self.command(script).output().context("failed to start bash")?;
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let err = String::from_utf8_lossy(&output.stderr);
            bail!("`{script}` ended with {}:\n{out}{err}", output.status);
        }
        Ok(out)
    }

    /// Runs a script with visible output, as if typed.
    ///
    /// # Errors
    /// When it fails, which prints the reason.
    pub fn show(&self, script: &str) -> Result<()> {
        writeln!(std::io::stdout(), "\n$ {script}").context("failed to print")?;
        let status = self.command(script).status().context("failed to start bash")?;
        if !status.success() {
            bail!("`{script}` ended with {status}");
        }
        Ok(())
    }
}

/// Returns whether cargo sets this variable for the package that it runs.
fn is_of_a_package(variable: &str) -> bool {
    ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_EXE_"]
        .iter()
        .any(|prefix| variable.starts_with(prefix))
}
