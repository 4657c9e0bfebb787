//! How programs are built, with a `go` that takes no minutes.

#![expect(clippy::unwrap_used, reason = "clippy takes the functions that tests share for code")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use testcluster::binaries::{Binaries, Component, Lines, Program};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn what_is_missing_is_built_once_and_told() {
    let go = Go::new("good");
    let first = go.ensure().wait_with_output().unwrap();
    assert!(first.status.success(), "{}", said(&first));
    assert_eq!(go.built(), ["containerd", "containerd-shim-runc-v2", "ctr"]);
    assert!(
        said(&first).contains("[2/3] containerd-shim-runc-v2 (containerd 2."),
        "{}",
        said(&first)
    );
    assert!(said(&first).contains(" s, 0 MB"), "{}", said(&first));

    let again = go.ensure().wait_with_output().unwrap();
    assert!(again.status.success());
    assert_eq!(go.built().len(), 3, "it was built again");
}

#[test]
fn two_processes_do_not_build_the_same() {
    let go = Go::new("good");
    let hold = go.log().with_extension("hold");
    fs::write(&hold, "").unwrap();
    let (send, said) = channel();
    let both = [go.ensure(), go.ensure()].map(|mut child| {
        let (send, stderr) = (send.clone(), child.stderr.take().unwrap());
        thread::spawn(move || {
            BufReader::new(stderr)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| send.send(line))
        });
        child
    });
    // One builds, and is held; so the other comes to wait.
    let mut lines = std::iter::from_fn(|| said.recv_timeout(PATIENCE).ok());
    assert!(lines.any(|line| line == "containerd is being built by another process; waiting for it"));
    fs::remove_file(&hold).unwrap();
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(go.built(), ["containerd", "containerd-shim-runc-v2", "ctr"]);
}

#[test]
fn a_failed_build_tells_what_go_said_and_leaves_nothing() {
    let go = Go::new("bad");
    let failed = go.ensure().wait_with_output().unwrap();
    assert!(
        said(&failed).contains("failed to build containerd"),
        "{}",
        said(&failed)
    );
    assert!(said(&failed).contains("missing go.sum entry"), "{}", said(&failed));
    let bin = go.folder.path().join("cache/bin");
    let folder = fs::read_dir(bin).unwrap().next().unwrap().unwrap().path();
    let left: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [".lock"]);
}

#[test]
fn a_missing_go_is_told_with_where_to_get_it() {
    let failed = Go::new("none").ensure().wait_with_output().unwrap();
    assert!(said(&failed).contains("found no `go` on the PATH"), "{}", said(&failed));
    assert!(said(&failed).contains("install Go 1.26 or newer"), "{}", said(&failed));
}

#[test]
#[ignore = "is run by the others, with a cache and a `go` of theirs"]
fn ensures() {
    let binaries =
        Binaries::ensure(&[Component::Containerd], &mut Lines::stderr()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fs::read_to_string(binaries.path(Program::Ctr)).unwrap(), "program\n");
}

/// A cache, and the name of a folder of `tests/go` with the `go` that fills it.
struct Go {
    folder: TempDir,
    kind: &'static str,
}

impl Go {
    fn new(kind: &'static str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            kind,
        }
    }

    /// Runs this test program as a process that asks for containerd.
    fn ensure(&self) -> Child {
        let go = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go").join(self.kind);
        // A `go` that is missing is missing from everywhere; a script needs its shell's programs.
        let system = if go.exists() { ":/usr/bin:/bin" } else { "" };
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ensures", "--ignored", "--nocapture"])
            .env("PATH", format!("{}{system}", go.display()))
            .env("APPDEPLOY_CACHE", self.folder.path().join("cache"))
            .env("BUILT", self.log())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Returns what was built, in its order.
    fn built(&self) -> Vec<String> {
        fs::read_to_string(self.log())
            .unwrap()
            .lines()
            .map(String::from)
            .collect()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("built")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
