//! Tests the Makefile's recipes where a mistake would delete the user's files or objects.

mod parts;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use testcluster::ControlPlane;
use testcluster::binaries::{Binaries, Component, Program, Quiet};
use testcluster::checkout::{Checkout, root};

/// Writes a program that appends its name and arguments to the file that `CALLS` names.
fn stub(file: &Path, more: &str) -> Result<()> {
    fs::create_dir_all(file.parent().context("no folder")?)?;
    fs::write(
        file,
        format!("#!/bin/sh\necho \"${{0##*/}} $*\" >> \"$CALLS\"\n{more}\n"),
    )?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// A checkout in a folder with a space in its name, with stubs for all programs.
struct Spaced {
    folder: TempDir,
}

impl Spaced {
    fn new() -> Result<Self> {
        let spaced = Self {
            folder: tempfile::tempdir()?,
        };
        let checkout = spaced.checkout();
        fs::create_dir_all(&checkout)?;
        fs::copy(root().join("Makefile"), checkout.join("Makefile"))?;
        for name in [
            "Cargo.toml",
            "Cargo.lock",
            "Dockerfile",
            "crd/Cargo.toml",
            "model/Cargo.toml",
            "operator/Cargo.toml",
        ] {
            let file = checkout.join(name);
            fs::create_dir_all(file.parent().context("no folder")?)?;
            fs::write(file, name)?;
        }
        for name in ["crd/src", "model/src", "operator/src", "packages"] {
            fs::create_dir_all(checkout.join(name))?;
        }
        fs::write(checkout.join("packages/zig.txt"), "")?;
        // The folder that an old recipe mistook for that of the rights.
        fs::create_dir_all(spaced.folder.path().join("my"))?;
        fs::write(spaced.folder.path().join("my/thesis.tex"), "")?;
        let bin = spaced.folder.path().join("bin");
        for name in ["cargo", "docker", "python3", "git", "kind", "kubectl"] {
            stub(&bin.join(name), "")?;
        }
        let built = checkout.join("target/debug");
        for name in ["demo", "rights", "faults", "appdeploy-operator", "kubectl-appdeploy"] {
            stub(&built.join(name), "")?;
        }
        stub(
            &built.join("testcluster"),
            "case $1 in kube-bin) echo \"$PWD/kube\";; esac",
        )?;
        stub(&checkout.join("kube/kubectl"), "")?;
        stub(&checkout.join("target/release/bench"), "")?;
        fs::create_dir_all(checkout.join("target/rights/stale"))?;
        Ok(spaced)
    }

    fn checkout(&self) -> PathBuf {
        self.folder.path().join("my work/appdeploy")
    }

    /// Runs a target, and returns the calls of the stubs.
    fn make(&self, arguments: &[&str]) -> Result<String> {
        Ok(self.run(arguments)?.0)
    }

    /// Runs a target, and returns the calls of the stubs and the output.
    fn run(&self, arguments: &[&str]) -> Result<(String, String)> {
        let output = self.command("make", arguments).output().context("failed to run make")?;
        ensure!(output.status.success(), "make {arguments:?} failed: {}", text(&output));
        Ok((self.calls()?, text(&output)))
    }

    /// Returns a command in this checkout, and forgets the calls of the stubs.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let calls = self.folder.path().join("calls");
        let _ = fs::remove_file(&calls);
        let mut command = Command::new(program);
        let path = format!(
            "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            self.folder.path().join("bin").display()
        );
        command
            .args(arguments)
            .current_dir(self.checkout())
            .env("PATH", path)
            .env("CALLS", &calls)
            .env("HOME", self.folder.path().join("home of mine"))
            .stdin(Stdio::null());
        // Nothing of the make that may run this test, which also puts its variables (JOBS=1) into the environment.
        let knobs = include_str!("../../Makefile")
            .lines()
            .filter_map(|line| line.split_once(" ?="));
        for knob in knobs.map(|(name, _)| name.trim()) {
            command.env_remove(knob);
        }
        for variable in [
            "APPDEPLOY_CACHE",
            "XDG_CACHE_HOME",
            "CARGO_TARGET_DIR",
            "MAKEFLAGS",
            "APPDEPLOY_TEST_LONG",
        ] {
            command.env_remove(variable);
        }
        command
    }

    /// Returns the calls of the stubs, one a line.
    fn calls(&self) -> Result<String> {
        fs::read_to_string(self.folder.path().join("calls")).context("no stub was called")
    }
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

#[test]
fn make_test_deletes_only_its_own_folder_in_a_path_with_a_space() -> Result<()> {
    let spaced = Spaced::new()?;
    let calls = spaced.make(&["test"])?;
    ensure!(
        spaced.folder.path().join("my/thesis.tex").exists(),
        "it deleted another folder"
    );
    ensure!(
        !spaced.checkout().join("target/rights").exists(),
        "the rights of the last run are still there"
    );
    ensure!(calls.contains("rights config/rbac target/rights\n"), "{calls}");
    Ok(())
}

#[test]
fn every_target_works_in_a_path_with_a_space() -> Result<()> {
    let spaced = Spaced::new()?;
    fs::create_dir_all(spaced.checkout().join("target/cluster"))?;
    fs::write(spaced.checkout().join("target/cluster/kubeconfig"), "")?;
    for (target, call) in [
        ("build", "cargo build --quiet --workspace --bins"),
        ("demo", "demo --cluster local"),
        ("demo-down", "testcluster down"),
        ("cluster", "testcluster up"),
        ("run", "appdeploy-operator --bind"),
        ("faults", "faults"),
        ("deploy", "kubectl appdeploy install"),
        ("undeploy", "kubectl appdeploy uninstall"),
        ("install", "kubectl apply"),
        ("bench-apps", "bench run"),
        ("docker-push", "testcluster push localhost/appdeploy-operator"),
        ("test-e2e", "cargo test --quiet --workspace --test e2e"),
    ] {
        let calls = spaced.make(&[target])?;
        ensure!(calls.contains(call), "`make {target}` made these calls:\n{calls}");
    }
    let link = spaced.checkout().join("target/bin/demo");
    ensure!(link.canonicalize()?.ends_with("target/debug/demo"), "{link:?}");
    let kubectl = spaced.checkout().join("target/bin/kubectl");
    ensure!(kubectl.canonicalize()?.ends_with("kube/kubectl"), "{kubectl:?}");
    Ok(())
}

#[test]
fn demo_asks_before_it_builds_more_than_the_command_that_asks() -> Result<()> {
    let calls = Spaced::new()?.make(&["demo"])?;
    let wanted = [
        "cargo build --quiet --workspace --bin testcluster\n",
        "testcluster up\n",
        "cargo build --quiet --workspace --bin testcluster --bin kubectl-appdeploy --bin appdeploy-operator --bin demo\n",
        "demo --cluster local --image localhost/appdeploy-operator",
    ];
    let mut rest = calls.as_str();
    for words in wanted {
        let at = rest
            .find(words)
            .with_context(|| format!("{words:?} is not in:\n{calls}"))?;
        rest = &rest[at + words.len()..];
    }
    let before = calls.split("testcluster up\n").next().unwrap_or_default();
    ensure!(
        !before.contains("kube-bin"),
        "Kubernetes is built before the question:\n{calls}"
    );
    Ok(())
}

#[test]
fn first_build_shows_its_progress() -> Result<()> {
    let spaced = Spaced::new()?;
    // Nothing is built yet.
    for name in ["testcluster", "kubectl-appdeploy"] {
        fs::rename(
            spaced.checkout().join("target/debug").join(name),
            spaced.folder.path().join(name),
        )?;
    }
    let calls = spaced.make(&["build"])?;
    ensure!(calls.contains("cargo build --workspace --bins\n"), "{calls}");
    Ok(())
}

#[test]
fn kind_is_used_where_docker_and_kind_are() -> Result<()> {
    let spaced = Spaced::new()?;
    let calls = spaced.make(&["CLUSTER=kind", "demo"])?;
    let wanted = [
        "kind create cluster --name appdeploy --kubeconfig",
        "docker build --tag localhost/appdeploy-operator",
        "kind load docker-image --name appdeploy localhost/appdeploy-operator",
        "demo --cluster kind --image localhost/appdeploy-operator",
    ];
    let mut rest = calls.as_str();
    for words in wanted {
        let at = rest
            .find(words)
            .with_context(|| format!("{words:?} is not in:\n{calls}"))?;
        rest = &rest[at + words.len()..];
    }
    ensure!(!calls.contains("testcluster up"), "{calls}");
    // It deletes only the cluster that it has created.
    fs::create_dir_all(spaced.checkout().join("target/kind"))?;
    fs::write(spaced.checkout().join("target/kind/kubeconfig"), "")?;
    let calls = spaced.make(&["CLUSTER=kind", "demo-down"])?;
    ensure!(calls.contains("kind delete cluster --name appdeploy"), "{calls}");
    let again = spaced.make(&["CLUSTER=kind", "demo-down"]);
    ensure!(again.is_err(), "it deletes a cluster of another checkout");
    Ok(())
}

#[test]
fn make_refuses_to_build_as_root_through_sudo() -> Result<()> {
    if !nix::unistd::Uid::effective().is_root() {
        return Ok(());
    }
    let output = Command::new("make")
        .arg("help")
        .current_dir(root())
        .env("SUDO_UID", "1000")
        .output()?;
    ensure!(!output.status.success(), "it continued");
    ensure!(text(&output).contains("without sudo"), "{}", text(&output));
    Ok(())
}

#[test]
fn make_refuses_a_path_that_a_shell_would_expand() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let checkout = folder.path().join("$HOME");
    fs::create_dir(&checkout)?;
    fs::copy(root().join("Makefile"), checkout.join("Makefile"))?;
    let output = Command::new("make").arg("help").current_dir(&checkout).output()?;
    ensure!(!output.status.success(), "it continued");
    ensure!(
        text(&output).contains("move the checkout to another folder"),
        "{}",
        text(&output)
    );
    Ok(())
}

/// The user's own cluster: an API server with the CRDs and an app, without nodes.
struct Own {
    control_plane: ControlPlane,
    folder: TempDir,
}

impl Own {
    fn new() -> Result<Self> {
        let own = Self {
            // The garbage collector, for deletion in the foreground.
            control_plane: ControlPlane::builder()
                .controller_manager(&["garbagecollector"])
                .start()?,
            folder: tempfile::tempdir()?,
        };
        stub(&own.folder.path().join("cargo"), "")?;
        Ok(own)
    }

    fn with_app(self) -> Result<Self> {
        let crds = root().join("config/crd");
        self.control_plane
            .kubectl(&["apply", "--server-side", "--kustomize", &crds.display().to_string()])?;
        self.control_plane
            .kubectl(&["wait", "--for=condition=Established", "crd", "--all"])?;
        let app = self.folder.path().join("app.yaml");
        fs::write(
            &app,
            "apiVersion: appdeploy.dev/v1alpha1\nkind: AppDeploy\nmetadata: {name: nginx, namespace: default}\n\
             spec: {image: nginx, port: 80}\n",
        )?;
        self.control_plane
            .kubectl(&["apply", "--filename", &app.display().to_string()])?;
        Ok(self)
    }

    fn make(&self, arguments: &[&str]) -> Result<Output> {
        let checkout = Checkout::find()?;
        let target = checkout.built().parent().context("no target folder")?;
        let kubectl = Binaries::ensure(&[Component::ControlPlane], &mut Quiet)?.dir(Program::Kubectl);
        let path = format!(
            "{}:{}:{}",
            self.folder.path().display(),
            kubectl.display(),
            std::env::var("PATH")?
        );
        Command::new("make")
            .args(arguments)
            .current_dir(root())
            .env("PATH", path)
            .env("CALLS", self.folder.path().join("calls"))
            .env("CARGO_TARGET_DIR", target)
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .env_remove("MAKEFLAGS")
            .env_remove("YES")
            .env_remove("IMG")
            .stdin(Stdio::null())
            .output()
            .context("failed to run make")
    }
}

#[test]
fn pin_image_takes_the_digest_that_docker_pushed() -> Result<()> {
    let spaced = Spaced::new()?;
    let digest = format!("sha256:{}", "1".repeat(64));
    // Docker lists each repository to which it has pushed the image, here a mirror first.
    let digests = format!(
        "printf 'registry.example.com/mirror/op@sha256:{}\\nregistry.example.com/op@{digest}\\n\\n'",
        "2".repeat(64)
    );
    stub(&spaced.folder.path().join("bin/docker"), &digests)?;
    let output = spaced.folder.path().join("output");
    let to = format!("GITHUB_OUTPUT={}", output.display());
    let calls = spaced.make(&["pin-image", "CLUSTER=current", "IMG=registry.example.com/op:v1", &to])?;
    ensure!(calls.contains(&format!("packages -- pin {digest}\n")), "{calls}");
    ensure!(
        fs::read_to_string(&output)? == format!("digest={digest}\n"),
        "no output of the step"
    );

    // For an image that was not pushed, docker has no digest.
    stub(&spaced.folder.path().join("bin/docker"), "")?;
    let error = spaced.make(&["pin-image", "CLUSTER=current", "IMG=registry.example.com/op:v1"]);
    let error = error
        .err()
        .context("an image that was not pushed is pinned")?
        .to_string();
    ensure!(
        error.contains(
            "docker has not pushed registry.example.com/op:v1: `docker push registry.example.com/op:v1` does"
        ),
        "{error}"
    );

    let calls = spaced.make(&["pin-image", "CLUSTER=current", &format!("DIGEST={digest}")])?;
    ensure!(calls.contains(&format!("packages -- pin {digest}\n")), "{calls}");
    ensure!(!calls.contains("docker"), "{calls}");
    Ok(())
}

#[test]
fn demo_down_keeps_an_app_and_crds_that_the_demo_did_not_create() -> Result<()> {
    let own = Own::new()?.with_app()?;
    let output = own.make(&["CLUSTER=current", "YES=1", "demo-down"])?;
    let left = own.control_plane.kubectl(&["get", "appdeploy", "nginx"])?;
    ensure!(left.contains("nginx"), "{left}");
    ensure!(output.status.success(), "{}", text(&output));
    ensure!(
        text(&output).contains("Kept the app: the demo did not create it."),
        "{}",
        text(&output)
    );
    Ok(())
}

#[test]
fn demo_down_removes_the_app_that_the_demo_created() -> Result<()> {
    let own = Own::new()?.with_app()?;
    own.control_plane
        .kubectl(&["annotate", "appdeploy", "nginx", "appdeploy.dev/created-by=demo"])?;
    let output = own.make(&["CLUSTER=current", "YES=1", "demo-down"])?;
    ensure!(output.status.success(), "{}", text(&output));
    let left = own.control_plane.kubectl(&["get", "appdeploy", "--output", "name"])?;
    ensure!(left.trim().is_empty(), "{left}");
    own.control_plane.kubectl(&["get", "crd", "appdeploys.appdeploy.dev"])?;
    Ok(())
}

#[test]
fn targets_for_the_current_cluster_name_it_and_do_nothing_without_an_answer() -> Result<()> {
    let own = Own::new()?;
    for target in ["install", "demo", "demo-down"] {
        let output = own.make(&["CLUSTER=current", target])?;
        let text = text(&output);
        ensure!(!output.status.success(), "`make {target}` continued: {text}");
        for words in ["of your context", &own.control_plane.url(), "YES=1 answers yes"] {
            ensure!(text.contains(words), "{words:?} is not in: {text}");
        }
        let crds = own.control_plane.kubectl(&["get", "crd", "--output", "name"])?;
        ensure!(crds.trim().is_empty(), "`make {target}` has created {crds}");
    }
    Ok(())
}
