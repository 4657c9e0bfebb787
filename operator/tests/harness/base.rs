//! The operator of an older version: of the commit that `tests/upgrade/BASE` names, built once.

use std::path::{Path, PathBuf};
use std::process::Command;
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
        let shown = Command::new("git")
            .args(["show", &show])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(
            shown.status.success(),
            "{show} is not in this clone: {}; a whole history has it: git fetch --unshallow",
            String::from_utf8_lossy(&shown.stderr).trim()
        );
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
        self.file("Cargo.toml");
        let sources = tempfile::tempdir().unwrap();
        let unpack = format!(
            "git archive {} | tar --extract --directory {}",
            self.commit,
            sources.path().display()
        );
        run(Command::new("sh").args(["-c", &unpack]).current_dir(root()));
        let target = sources.path().join("target");
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
        build.arg("--target-dir").arg(&target).current_dir(sources.path());
        build.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        run(&mut build);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        // Somebody else may be as far, so the name appears with the whole file behind it.
        let part = to.with_extension(std::process::id().to_string());
        std::fs::copy(target.join("debug/appdeploy-operator"), &part).unwrap();
        std::fs::rename(part, to).unwrap();
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
