//! Tests of building programs, with a fast `go` stub.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes the functions that tests share for code"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use testcluster::binaries::{Binaries, Component, Lines, Program};

const TIMEOUT: Duration = Duration::from_secs(30);

/// The variable for processes that ensure programs, with their own cache and `go`.
const ENSURES: &str = "TESTCLUSTER_TEST_ENSURES";

#[test]
fn programs_of_a_module_are_built_once_and_in_one_call() {
    match std::env::var(ENSURES).as_deref() {
        Ok("containerd") => return ensure_one(Component::Containerd, Program::Ctr),
        Ok(_) => return ensure_one(Component::ControlPlane, Program::Kubectl),
        Err(_) => {}
    }
    let go = Go::new("good");
    let first = go.ensure().wait_with_output().unwrap();
    assert!(first.status.success(), "{}", said(&first));
    assert_eq!(go.built(), ["call", "containerd", "containerd-shim-runc-v2", "ctr"]);
    assert!(said(&first).contains("… building containerd 2."), "{}", said(&first));
    assert!(
        said(&first).contains("✓ building containerd 2.4.2 (0 s)"),
        "{}",
        said(&first)
    );

    let again = go.ensure().wait_with_output().unwrap();
    assert!(again.status.success());
    assert_eq!(go.built().len(), 4, "it was built again");
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
    // One builds, and is held, so that the other one waits.
    let mut lines = std::iter::from_fn(|| said.recv_timeout(TIMEOUT).ok());
    assert!(lines.any(|line| line.trim().starts_with("containerd 2.")
        && line.ends_with("is being built by another process; waiting for it")));
    fs::remove_file(&hold).unwrap();
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(go.built(), ["call", "containerd", "containerd-shim-runc-v2", "ctr"]);
}

#[test]
fn programs_that_differ_from_the_published_ones_are_built_instead() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map_while(Result::ok);
            let body = if lines.next().unwrap().starts_with("GET") {
                "malware"
            } else {
                ""
            };
            lines.find(String::is_empty);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let go = Go::new("good");
    let output = go
        .command("control plane")
        .env("APPDEPLOY_KUBE_URL", &server)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let refused = format!("kubectl from {server} is not used: its checksum is ");
    assert!(said(&output).contains(&refused), "{}", said(&output));
    assert_eq!(
        go.built(),
        [
            "call",
            "kube-apiserver",
            "kubectl",
            "kube-controller-manager",
            "kube-scheduler",
            "call",
            "etcd"
        ]
    );
}

#[test]
fn failed_build_reports_the_output_of_go_and_leaves_nothing() {
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
fn missing_go_is_an_error_with_its_download_page() {
    let failed = Go::new("none").ensure().wait_with_output().unwrap();
    assert!(said(&failed).contains("found no `go` on the PATH"), "{}", said(&failed));
    assert!(said(&failed).contains("install Go 1.26 or newer"), "{}", said(&failed));
}

fn ensure_one(component: Component, program: Program) {
    let binaries = Binaries::ensure(&[component], &mut Lines::stderr()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fs::read_to_string(binaries.path(program)).unwrap(), "program\n");
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
        self.command("containerd").spawn().unwrap()
    }

    fn command(&self, component: &str) -> Command {
        let go = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go").join(self.kind);
        // A missing `go` must be missing from every folder; a script needs its shell's programs.
        let system = if go.exists() { ":/usr/bin:/bin" } else { "" };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "programs_of_a_module_are_built_once_and_in_one_call",
                "--nocapture",
            ])
            .env(ENSURES, component)
            .env("PATH", format!("{}{system}", go.display()))
            .env("APPDEPLOY_CACHE", self.folder.path().join("cache"))
            .env("BUILT", self.log())
            .env("APPDEPLOY_KUBE_URL", "")
            .env_remove("APPDEPLOY_KUBE_BIN")
            .env_remove("KUBEBUILDER_ASSETS")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Returns what was built, in order.
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
