//! The programs of a cluster, in pinned versions, built from source into a cache outside the checkout.
//!
//! Upstream's release files and container registries are not needed: each program is a Go
//! module, whose `go.mod` and `go.sum` lie under `build/` and are part of this crate. So a
//! version is changed in one place, and the checksums of all that goes into a build are known.

mod build;
mod module;
mod program;
mod progress;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub use program::{Component, Program};
pub use progress::{Lines, Progress, Quiet};

/// Why a program is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither of the variables that tell where a cache may lie is set.
    #[error("found no place for the cache of built programs: set APPDEPLOY_CACHE to a folder")]
    FindCache,
    /// There is no Go.
    #[error(
        "found no `go` on the PATH, which {program} is built with: \
         install Go 1.26 or newer (https://go.dev/doc/install)"
    )]
    FindGo {
        /// What was to be built.
        program: Program,
    },
    /// Go did not start.
    #[error("failed to run `go` to build {program}")]
    RunGo {
        /// What was to be built.
        program: Program,
        /// Why it did not start.
        source: io::Error,
    },
    /// Go refused.
    #[error("failed to build {program}; Go 1.26 or newer and a module proxy are needed, and `go` said:\n{output}")]
    Build {
        /// What was to be built.
        program: Program,
        /// What `go` said.
        output: String,
    },
    /// The cache could not be written.
    #[error("failed to write {}: set APPDEPLOY_CACHE to another folder, or make room", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Programs that are there.
#[derive(Debug, Clone)]
pub struct Binaries {
    root: PathBuf,
}

impl Binaries {
    /// Builds what is missing of `components`, and returns when all of it is there.
    ///
    /// Several processes may ask for the same at once: one builds, the others wait.
    ///
    /// # Errors
    /// When Go is missing or refuses, or the cache can't be written.
    pub fn ensure(components: &[Component], progress: &mut dyn Progress) -> Result<Self, Error> {
        let binaries = Self {
            root: cache()?.join("bin"),
        };
        let missing = binaries.missing_of(components);
        for (index, program) in missing.iter().enumerate() {
            binaries.build(*program, index + 1, missing.len(), progress)?;
        }
        Ok(binaries)
    }

    /// Returns the programs of `components` that are not in the cache.
    ///
    /// # Errors
    /// When no variable tells where the cache is.
    pub fn missing(components: &[Component]) -> Result<Vec<Program>, Error> {
        let binaries = Self {
            root: cache()?.join("bin"),
        };
        Ok(binaries.missing_of(components))
    }

    fn missing_of(&self, components: &[Component]) -> Vec<Program> {
        components
            .iter()
            .flat_map(|component| component.programs())
            .copied()
            .filter(|program| !self.path(*program).exists())
            .collect()
    }

    /// Returns where `program` is. It exists if its component was ensured.
    ///
    /// etcd and the programs of Kubernetes are taken from the folders that `APPDEPLOY_KUBE_BIN` and `KUBEBUILDER_ASSETS` name,
    /// if they are there.
    #[must_use]
    pub fn path(&self, program: Program) -> PathBuf {
        if program.folder() == Program::KubeApiserver.folder()
            && let Some(path) = prebuilt(program, |name| std::env::var_os(name))
        {
            return path;
        }
        self.root.join(program.folder()).join(program.name())
    }

    /// Returns the folder with the sources of `program`, for files that lie beside its code. Go fetches them if need be.
    ///
    /// # Errors
    /// When Go is missing or refuses.
    pub fn sources(&self, program: Program) -> Result<PathBuf, Error> {
        let scratch = tempfile::tempdir().map_err(|source| Error::Write {
            path: std::env::temp_dir(),
            source,
        })?;
        build::sources(program, scratch.path())
    }

    /// Returns the folder that has etcd and all programs of Kubernetes; with programs from elsewhere, the one with kubectl.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        let kubectl = self.path(Program::Kubectl);
        kubectl.parent().map_or_else(PathBuf::new, Path::to_path_buf)
    }

    fn build(&self, program: Program, nth: usize, of: usize, progress: &mut dyn Progress) -> Result<(), Error> {
        let target = self.path(program);
        let folder = self.root.join(program.folder());
        let io = |source| Error::Write {
            path: folder.clone(),
            source,
        };
        fs::create_dir_all(&folder).map_err(io)?;
        let _lock = lock(&folder, || progress.waiting(program)).map_err(io)?;
        if target.exists() {
            return Ok(());
        }
        progress.building(program, nth, of);
        let scratch = tempfile::Builder::new()
            .prefix(".build-")
            .tempdir_in(&folder)
            .map_err(io)?;
        build::build(program, scratch.path(), &target, progress)
    }
}

/// The variables that name folders with programs that are built already.
pub const PREBUILT: [&str; 2] = ["APPDEPLOY_KUBE_BIN", "KUBEBUILDER_ASSETS"];

/// Returns the first of the named folders' programs that exists.
fn prebuilt(program: Program, variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    PREBUILT
        .iter()
        .filter_map(|name| variable(name).filter(|value| !value.is_empty()))
        .filter_map(|folder| std::path::absolute(folder).ok())
        .map(|folder| folder.join(program.name()))
        .find(|path| path.is_file())
}

/// Returns where `program` comes from, for a person to read.
fn origin(program: Program) -> String {
    let module = program.module();
    format!("{} {}", module.name, module.version)
}

/// Takes the folder's lock, which the kernel gives back even if this process is killed.
fn lock(folder: &Path, waiting: impl FnOnce()) -> io::Result<File> {
    let file = File::create(folder.join(".lock"))?;
    if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
        waiting();
        file.lock()?;
    }
    Ok(file)
}

/// Returns the folder for all that AppDeploy's tests keep between runs.
///
/// # Errors
/// When no variable tells where it may lie.
pub fn cache() -> Result<PathBuf, Error> {
    let folder = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = folder("APPDEPLOY_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("appdeploy")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/appdeploy")))
        .ok_or(Error::FindCache)?;
    // `go` runs in a folder of its own, where a relative path would be another one.
    std::path::absolute(&cache).map_err(|source| Error::Write { path: cache, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_named_folders_are_used() {
        let own = tempfile::tempdir().unwrap();
        let assets = tempfile::tempdir().unwrap();
        for (folder, name) in [(&own, "etcd"), (&assets, "etcd"), (&assets, "kubectl")] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let variable = |name: &str| {
            let folder = if name == "APPDEPLOY_KUBE_BIN" { &own } else { &assets };
            Some(folder.path().into())
        };
        assert_eq!(prebuilt(Program::Etcd, variable), Some(own.path().join("etcd")));
        assert_eq!(
            prebuilt(Program::Kubectl, variable),
            Some(assets.path().join("kubectl"))
        );
        // Not there: it is built.
        assert_eq!(prebuilt(Program::Kubelet, variable), None);
        assert_eq!(prebuilt(Program::Etcd, |_| None), None);
        assert_eq!(prebuilt(Program::Etcd, |_| Some("".into())), None);
    }
}
