//! Runs the plugin's binary and keeps all that it wrote.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use terminal::Terminal;
use testcluster::control_plane::Builder;
use testcluster::{ControlPlane, PooledControlPlane};

/// The plugin as one user of one cluster.
pub struct Plugin {
    kubeconfig: PathBuf,
}

/// What one run left behind.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Plugin {
    /// Returns a plain control plane that holds what `install --wait=false --webhooks=false` creates, and the plugin for it.
    /// kubectl is the manager of its fields, so the plugin can't install another version over it.
    pub fn installed() -> (PooledControlPlane, Self) {
        Self::installed_in(ControlPlane::builder())
    }

    /// Returns a control plane that holds what `install --wait=false --webhooks=false` creates, and the plugin for it.
    pub fn installed_in(builder: Builder) -> (PooledControlPlane, Self) {
        static MANIFESTS: OnceLock<String> = OnceLock::new();
        let manifests = MANIFESTS.get_or_init(|| {
            let nowhere = Self::of(Path::new("/nonexistent/config"));
            nowhere
                .run("install --wait=false --webhooks=false --dry-run=client -o yaml")
                .ok()
        });
        let cluster = builder.definition(manifests).pooled().expect("a control plane starts");
        let plugin = Self::admin(&cluster);
        (cluster, plugin)
    }

    pub fn admin(cluster: &ControlPlane) -> Self {
        Self::of(&cluster.kubeconfig())
    }

    pub fn of(kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
        }
    }

    /// Runs a command line without quotes in it.
    pub fn run(&self, line: &str) -> Run {
        Run::from(self.start(line).wait_with_output().expect("the plugin ends"))
    }

    /// Runs a command line at a terminal of 24 lines and 80 columns.
    pub fn at_terminal(&self, line: &str) -> Terminal {
        Terminal::start(self.command(line)).expect("the plugin starts at a terminal")
    }

    /// Returns the command for a command line without quotes in it, for what is special about a run.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-appdeploy"));
        command
            .args(line.split_whitespace())
            .env("KUBECONFIG", &self.kubeconfig);
        for name in ["NO_COLOR", "FORCE_COLOR", "LC_ALL", "LC_CTYPE"] {
            command.env_remove(name);
        }
        command.env("LANG", "C.UTF-8");
        command
    }

    pub fn start(&self, line: &str) -> Child {
        self.command(line)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the plugin starts")
    }
}

impl Run {
    pub fn of(child: Child) -> Self {
        Self::from(child.wait_with_output().expect("the plugin ends"))
    }

    /// Returns stdout of a run that must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Returns stderr of a run that must have ended in a code.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.err
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Writes a status as the operator would. The object is named like `appdeploy/shop`.
pub fn status(cluster: &ControlPlane, object: &str, status: &serde_json::Value) {
    let patch = serde_json::json!({ "status": status }).to_string();
    cluster
        .kubectl(&["patch", object, "--subresource=status", "--type=merge", "-p", &patch])
        .expect("the status is accepted");
}

/// Returns the status of an object of the first generation, with one condition next to Ready.
pub fn conditions(ready: &str, reason: &str, message: &str, other: Option<&str>) -> serde_json::Value {
    let one = |kind: &str, status: &str| serde_json::json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let all: Vec<_> = std::iter::once(one("Ready", ready))
        .chain(other.map(|kind| one(kind, "True")))
        .collect();
    serde_json::json!({"observedGeneration": 1, "conditions": all, "url": "http://shop.default"})
}
