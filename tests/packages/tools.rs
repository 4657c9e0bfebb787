//! The tools that consume packages, and the packages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use packages::{helm, output};
use tempfile::TempDir;
use testcluster::binaries::{Binaries, Component, Lines, Program};
use testcluster::checkout::Checkout;

use crate::objects::{self, Objects};

/// Returns a program, which is built when a test needs it for the first time.
pub fn program(component: Component, program: Program) -> PathBuf {
    Binaries::ensure(&[component], &mut Lines::stderr())
        .unwrap_or_else(|error| panic!("{error}"))
        .path(program)
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
pub fn ok(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{command:?} failed: {}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the whole output of a command.
pub fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Returns the folder with the manifests.
pub fn config() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config")
}

/// Returns the objects that `kubectl apply --kustomize` installs, from a folder of `config/`.
pub fn kustomized(folder: &str) -> Objects {
    let kubectl = program(Component::ControlPlane, Program::Kubectl);
    objects::read(&ok(Command::new(kubectl).arg("kustomize").arg(config().join(folder))))
}

/// Returns the objects that the plugin's `install` would apply without a cluster: it would ask one for the port of its API
/// server.
pub fn plugin(flags: &[&str]) -> Objects {
    let plugin = Checkout::find().expect("a checkout").program("kubectl-appdeploy");
    let mut install = Command::new(plugin);
    install.args(["install", "--dry-run=client", "-o", "yaml"]).args(flags);
    install.env("KUBECONFIG", "/nonexistent/config");
    objects::read(&ok(&mut install))
}

/// The chart, and Helm with its own folders.
pub struct Helm {
    program: PathBuf,
    folder: TempDir,
}

impl Helm {
    pub fn new() -> Self {
        Self::of(&config())
    }

    /// Renders the chart of a folder of manifests.
    pub fn of(config: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        output::write(&folder.path().join("chart"), &helm::chart(config).unwrap()).unwrap();
        Self {
            program: program(Component::Helm, Program::Helm),
            folder,
        }
    }

    /// Returns the chart's folder.
    pub fn chart(&self) -> PathBuf {
        self.folder.path().join("chart")
    }

    /// Returns the command `helm` with a subcommand.
    pub fn command(&self, verb: &str) -> Command {
        let mut helm = Command::new(&self.program);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm.env(variable, self.folder.path());
        }
        helm.env_remove("KUBECONFIG").arg(verb);
        helm
    }

    /// Returns the objects that `helm template` prints for these arguments.
    #[track_caller]
    pub fn template(&self, arguments: &[&str]) -> Objects {
        objects::read(&ok(&mut self.templating(arguments)))
    }

    /// Returns `helm template` with these arguments.
    pub fn templating(&self, arguments: &[&str]) -> Command {
        let mut helm = self.command("template");
        helm.arg("appdeploy")
            .arg(self.chart())
            .args(["--kube-version", "1.36.0"]);
        helm.args(["--namespace", "appdeploy-system"]).args(arguments);
        helm
    }
}
