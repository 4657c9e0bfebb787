//! The parts of `make test`: all of them run, three at a time, and their results are reported.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use testcluster::wait::eventually;

use super::{Spaced, stub};

/// The calls of all parts.
const PARTS: [&str; 6] = [
    "cargo fmt --all --check",
    "cargo test --quiet --workspace --no-fail-fast --lib --bins",
    "cargo test --workspace --no-fail-fast --test operator",
    "cargo test --workspace --no-fail-fast --test [!o]*",
    "rights config/rbac",
    "cargo test --quiet --workspace --test e2e",
];

#[test]
fn all_parts_of_make_test_run_after_one_has_failed() -> Result<()> {
    let spaced = Spaced::new()?;
    let calls = spaced.make(&["test"])?;
    for part in PARTS {
        ensure!(calls.contains(part), "{part:?} is not in:\n{calls}");
    }
    // Each of the first parts fails: the others still run, and make fails at the end.
    let cargo = spaced.folder.path().join("bin/cargo");
    stub(&cargo, "case $* in *fmt*|*--bins*|*'--test operator'*) exit 1;; esac")?;
    let failed = spaced.make(&["test"]).err().context("make succeeded")?.to_string();
    ensure!(
        failed.contains("make test: failed: test-format test-units test-api\n"),
        "{failed}"
    );
    let calls = spaced.calls()?;
    for part in PARTS {
        ensure!(calls.contains(part), "{part:?} is not in:\n{calls}");
    }
    Ok(())
}

#[test]
fn stories_run_next_to_the_other_parts_and_are_printed_when_they_end() -> Result<()> {
    let spaced = Spaced::new()?;
    // Each of the two waits until the other one has begun.
    let meet = r#"
await() { tries=0; until test -e "$CALLS.$1"; do tries=$((tries + 1)); test $tries -lt 1500 || exit 1; sleep 0.02; done; }
case $* in
*'--test e2e'*) echo first story; touch "$CALLS.stories"; await api; await end; echo last story; exit 1;;
*'--test [!o]'*) touch "$CALLS.api"; await stories; await operator; echo test of the API; touch "$CALLS.end";;
*'--test operator'*) touch "$CALLS.operator"; await api;;
esac"#;
    stub(&spaced.folder.path().join("bin/cargo"), meet)?;
    let failed = spaced.make(&["test"]).err().context("make succeeded")?.to_string();
    ensure!(failed.contains("make test: failed: test-e2e\n"), "{failed}");
    let stories: Vec<&str> = failed.lines().skip_while(|line| *line != "first story").collect();
    ensure!(stories.get(1) == Some(&"last story"), "{failed}");
    for part in [
        "build",
        "test-format",
        "test-units",
        "test-api",
        "check-rights",
        "test-e2e",
        "all of it",
    ] {
        ensure!(failed.contains(&format!("make test: {part} took ")), "{failed}");
    }
    Ok(())
}

/// A run that is ended from outside then shows where it was.
#[test]
fn output_is_not_collected_when_one_part_runs_at_a_time() -> Result<()> {
    let spaced = Spaced::new()?;
    let stub_output = "case $* in *'--test e2e'*) echo a story;; *'--test operator'*) echo a test;; esac";
    stub(&spaced.folder.path().join("bin/cargo"), stub_output)?;
    for (jobs, is_collected) in [("JOBS=1", false), ("JOBS=3", true)] {
        let (_, said) = spaced.run(&["test", jobs])?;
        ensure!(said.contains("\na story\n") && said.contains("\na test\n"), "{said}");
        for log in ["target/test-e2e.log", "target/test-operator.log"] {
            ensure!(spaced.checkout().join(log).exists() == is_collected, "{jobs}: {log}");
        }
    }
    Ok(())
}

#[test]
fn cluster_is_ended_after_the_stories_unless_it_was_up() -> Result<()> {
    let spaced = Spaced::new()?;
    let calls = spaced.make(&["test"])?;
    let (before, after) = calls
        .split_once("cargo test --quiet --workspace --test e2e")
        .context("no story")?;
    ensure!(before.contains("testcluster up\n"), "{calls}");
    ensure!(after.contains("testcluster down\n"), "{calls}");

    fs::create_dir_all(spaced.checkout().join("target/cluster"))?;
    fs::write(spaced.checkout().join("target/cluster/mode"), "real")?;
    let calls = spaced.make(&["test"])?;
    ensure!(!calls.contains("testcluster down"), "{calls}");

    // Without a cluster the other parts run, and the stories have failed.
    let testcluster = spaced.checkout().join("target/debug/testcluster");
    stub(
        &testcluster,
        "case $1 in up) exit 1;; kube-bin) echo \"$PWD/kube\";; esac",
    )?;
    let failed = spaced.make(&["test"]).err().context("make succeeded")?.to_string();
    ensure!(failed.contains("make test: failed: test-e2e\n"), "{failed}");
    let calls = spaced.calls()?;
    ensure!(!calls.contains("--test e2e"), "{calls}");
    ensure!(calls.contains("rights config/rbac"), "{calls}");
    Ok(())
}

#[test]
fn long_tests_are_counted_and_run_by_make_test_long() -> Result<()> {
    let spaced = Spaced::new()?;
    let list = "case $* in *--list*) printf 'a: test\\nb::c: test\\n\\n2 tests, 0 benchmarks\\n';; esac";
    stub(&spaced.folder.path().join("bin/cargo"), list)?;
    let (calls, said) = spaced.run(&["test"])?;
    ensure!(!calls.contains("--include-ignored"), "{calls}");
    ensure!(
        said.contains("2 long tests skipped: make test-long runs them"),
        "{said}"
    );
    let (calls, said) = spaced.run(&["test-long"])?;
    ensure!(
        calls.contains("--test operator -- --include-ignored") && calls.contains("--test [!o]* -- --include-ignored"),
        "{calls}"
    );
    ensure!(calls.contains("--include-ignored seeded::"), "{calls}");
    ensure!(calls.contains("--include-ignored oldest::"), "{calls}");
    ensure!(said.contains("2 long tests run"), "{said}");
    Ok(())
}

/// On Linux, where `env` resets a signal that a background job ignores.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_all_parts() -> Result<()> {
    let spaced = Spaced::new()?;
    let sleep = "case $* in *'--test e2e'*|*'--test operator'*|*'--test [!o]'*) echo $$ >> \"$CALLS.pids\"; exec sleep 120;; esac";
    stub(&spaced.folder.path().join("bin/cargo"), sleep)?;
    let mut make = spaced.command("env", &["--default-signal=INT", "make", "test"]);
    let mut make = make
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let pids = || -> Vec<Pid> {
        let pids = fs::read_to_string(spaced.folder.path().join("calls.pids")).unwrap_or_default();
        pids.lines()
            .filter_map(|pid| pid.parse().ok())
            .map(Pid::from_raw)
            .collect()
    };
    eventually("all run", || pids().len() == 3);
    // As a terminal does.
    killpg(Pid::from_raw(make.id().cast_signed()), Signal::SIGINT)?;
    ensure!(!make.wait()?.success(), "make succeeded");
    eventually("all have ended", || pids().iter().all(|pid| kill(*pid, None).is_err()));
    Ok(())
}
