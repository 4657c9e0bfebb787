//! The operator of an older version: of the commit that `tests/upgrade/BASE` names, built once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

static BUILDING: Mutex<()> = Mutex::new(());

/// A commit of this repository.
pub struct Base {
    commit: String,
}

impl Base {
    /// Returns the one that upgrades are tested from.
    pub fn named() -> Self {
        let commit = std::fs::read_to_string(root().join("tests/upgrade/BASE")).unwrap();
        Self {
            commit: commit.trim().to_owned(),
        }
    }

    /// Returns a file as it was then.
    pub fn file(&self, path: &str) -> String {
        let show = format!("{}:{path}", self.commit);
        ensure_commit(&root(), &self.commit);
        let shown = run(Command::new("git").args(["show", &show]).current_dir(root()));
        String::from_utf8(shown.stdout).unwrap()
    }

    /// Returns the operator as it was then. The first time on a machine it takes minutes to build.
    pub fn operator(&self) -> PathBuf {
        let folder = testcluster::binaries::cache()
            .unwrap()
            .join(format!("operator-{}", self.commit));
        let built = folder.join("appdeploy-operator");
        // Several tests would build the same.
        let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        if !built.exists() {
            self.build(&built);
        }
        built
    }

    fn build(&self, to: &Path) {
        ensure_commit(&root(), &self.commit);
        let sources = tempfile::tempdir().unwrap();
        let unpack = format!(
            "git archive {} | tar --extract --directory {}",
            self.commit,
            sources.path().display()
        );
        run(Command::new("sh").args(["-c", &unpack]).current_dir(root()));
        let built = build_operator(sources.path(), &sources.path().join("target"));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        // Another process may do the same, so the file gets its name when it is complete.
        let part = to.with_extension(std::process::id().to_string());
        std::fs::copy(built, &part).unwrap();
        std::fs::rename(part, to).unwrap();
    }
}

/// Builds the operator of other sources, and returns the program.
pub fn build_operator(sources: &Path, target: &Path) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--locked",
        "--package",
        "operator",
        "--bin",
        "appdeploy-operator",
    ]);
    build.arg("--target-dir").arg(target).current_dir(sources);
    build.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    run(&mut build);
    target.join("debug/appdeploy-operator")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Fetches a commit into a shallow clone, as a forge makes one, unless it is there.
fn ensure_commit(clone: &Path, commit: &str) {
    // Several tests need the same one, and git locks what it writes.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let git = |arguments: &[&str]| Command::new("git").args(arguments).current_dir(clone).output().unwrap();
    if git(&["cat-file", "-e", &format!("{commit}^{{commit}}")])
        .status
        .success()
    {
        return;
    }
    let fetched = git(&["fetch", "--quiet", "--depth=1", "origin", commit]);
    assert!(
        fetched.status.success(),
        "commit {commit} is not in this clone, and fetching it from origin failed: {}",
        String::from_utf8_lossy(&fetched.stderr).trim()
    );
}

#[test]
fn commit_that_a_shallow_clone_lacks_is_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let (origin, clone) = (folder.path().join("origin"), folder.path().join("clone"));
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=test", "-c", "user.email=test@example.com"]);
        String::from_utf8(run(git.args(arguments)).stdout).unwrap()
    };
    let (at, from) = (origin.to_str().unwrap(), format!("file://{}", origin.display()));
    git(&["init", "--quiet", at]);
    git(&["-C", at, "commit", "--quiet", "--allow-empty", "--message", "one"]);
    let first = git(&["-C", at, "rev-parse", "HEAD"]).trim().to_owned();
    git(&["-C", at, "commit", "--quiet", "--allow-empty", "--message", "two"]);
    git(&["clone", "--quiet", "--depth=1", &from, clone.to_str().unwrap()]);
    let read = || {
        let mut git = Command::new("git");
        git.args(["cat-file", "-e", &first])
            .current_dir(&clone)
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(!read(), "the clone is not shallow");
    ensure_commit(&clone, &first);
    assert!(read());
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
