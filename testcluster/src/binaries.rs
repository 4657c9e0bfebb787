//! The programs of a cluster, in pinned versions, in a cache outside the checkout.
//!
//! A program is taken from a folder that the user names, or else downloaded from its release, if its checksum is known
//! (`releases.txt`), or else built from source. Each is a Go module whose `go.mod` and `go.sum` are in `build/` and part
//! of this crate, so a version is changed in one place, and the checksums of all inputs of a build are known.

mod build;
mod module;
mod program;
mod progress;
mod release;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use program::{Component, Program};
pub use progress::{Lines, Progress, Quiet, Step};
use release::Release;

/// An error of providing a program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// None of the variables that name the folder of the cache is set.
    #[error("found no place for the cache of built programs: set APPDEPLOY_CACHE to a folder")]
    FindCache,
    /// Go is not installed.
    #[error(
        "found no `go` on the PATH, which {programs} is built with: \
         install Go 1.26 or newer (https://go.dev/doc/install)"
    )]
    FindGo {
        /// The programs to build.
        programs: String,
    },
    /// Go did not start.
    #[error("failed to run `go` to build {programs}")]
    RunGo {
        /// The programs to build.
        programs: String,
        /// The reason.
        source: io::Error,
    },
    /// Go failed.
    #[error("failed to build {programs}; Go 1.26 or newer and a module proxy are needed, and `go` said:\n{output}")]
    Build {
        /// The programs to build.
        programs: String,
        /// What `go` printed.
        output: String,
    },
    /// The cache could not be written.
    #[error("failed to write {}: set APPDEPLOY_CACHE to another folder, or make room", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Programs that are neither in the cache nor in a named folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// Those that are downloaded.
    pub fetch: Vec<Program>,
    /// Those that are built from source.
    pub build: Vec<Program>,
    /// The server that has some of these, but does not answer.
    pub silent: Option<String>,
}

/// Existing programs.
#[derive(Debug, Clone)]
pub struct Binaries {
    root: PathBuf,
}

impl Binaries {
    /// Downloads or builds the missing programs of `components`, and returns when all of them exist.
    ///
    /// Several processes may call this at the same time: one builds, the others wait.
    ///
    /// # Errors
    /// When Go is missing or fails, or the cache can't be written.
    pub fn ensure(components: &[Component], progress: &mut dyn Progress) -> Result<Self, Error> {
        let binaries = Self {
            root: cache()?.join("bin"),
        };
        let Missing { fetch, build, .. } = binaries.missing_of(components);
        let mut parts: Vec<(bool, Vec<Program>)> = Vec::new();
        for (fetched, programs) in [(true, fetch), (false, build)] {
            for program in programs {
                match parts
                    .iter_mut()
                    .find(|(how, part)| *how == fetched && same_module(part, program))
                {
                    Some((_, part)) => part.push(program),
                    None => parts.push((fetched, vec![program])),
                }
            }
        }
        for (index, (fetched, programs)) in parts.iter().enumerate() {
            binaries.provide(*fetched, programs, (index + 1, parts.len()), progress)?;
        }
        Ok(binaries)
    }

    /// Returns the programs of `components` that are not in the cache.
    ///
    /// # Errors
    /// When no variable names the folder of the cache.
    pub fn missing(components: &[Component]) -> Result<Missing, Error> {
        let binaries = Self {
            root: cache()?.join("bin"),
        };
        Ok(binaries.missing_of(components))
    }

    fn missing_of(&self, components: &[Component]) -> Missing {
        let missing = components
            .iter()
            .flat_map(|component| component.programs())
            .copied()
            .filter(|program| !self.path(*program).exists());
        let (published, mut build): (Vec<_>, Vec<_>) = missing.partition(|program| Release::of(*program).is_some());
        if published.is_empty() || answering().is_some() {
            return Missing {
                fetch: published,
                build,
                silent: None,
            };
        }
        build.extend(published);
        Missing {
            fetch: Vec::new(),
            build,
            silent: server(),
        }
    }

    /// Returns the path of `program`. It exists if its component was ensured.
    ///
    /// A program of a cluster is taken from the folder in `APPDEPLOY_KUBE_BIN`, and etcd and the programs of Kubernetes
    /// also from the one in `KUBEBUILDER_ASSETS`, if they are there.
    #[must_use]
    pub fn path(&self, program: Program) -> PathBuf {
        if let Some(path) = prebuilt(program, |name| std::env::var_os(name)) {
            return path;
        }
        self.root.join(program.folder()).join(program.name())
    }

    /// Returns the folder with the sources of `program`, for files next to its code. Go downloads them if needed.
    ///
    /// # Errors
    /// When Go is missing or fails.
    pub fn sources(&self, program: Program) -> Result<PathBuf, Error> {
        let scratch = tempfile::tempdir().map_err(|source| Error::Write {
            path: std::env::temp_dir(),
            source,
        })?;
        build::sources(program, scratch.path())
    }

    /// Returns the folder of `program`. That of kubectl also has etcd and the other programs of Kubernetes, unless they are in
    /// different folders that the user names.
    #[must_use]
    pub fn dir(&self, program: Program) -> PathBuf {
        let path = self.path(program);
        path.parent().map_or_else(PathBuf::new, Path::to_path_buf)
    }

    /// Downloads or builds programs of one module into the cache.
    fn provide(
        &self,
        fetched: bool,
        programs: &[Program],
        (nth, of): (usize, usize),
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let Some(first) = programs.first().copied() else {
            return Ok(());
        };
        let folder = self.root.join(first.folder());
        let io = |source| Error::Write {
            path: folder.clone(),
            source,
        };
        let module = origin(first);
        fs::create_dir_all(&folder).map_err(io)?;
        let _lock = lock(&folder, || {
            progress.note(&format!("{module} is being built by another process; waiting for it"));
        })
        .map_err(io)?;
        let mut missing: Vec<Program> = programs.to_vec();
        missing.retain(|program| !self.path(*program).exists());
        if missing.is_empty() {
            return Ok(());
        }
        let scratch = tempfile::Builder::new()
            .prefix(".build-")
            .tempdir_in(&folder)
            .map_err(io)?;
        let mut step = Step {
            nth,
            of,
            name: format!("fetching {module}"),
            usual: None,
        };
        if fetched && let Some(server) = answering() {
            self.fetch(server, &mut missing, scratch.path(), &step, progress)?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        step.name = format!("building {module}");
        step.usual = Some(usual(&missing));
        let out = scratch.path().join("out");
        fs::create_dir_all(&out).map_err(io)?;
        let started = Instant::now();
        progress.start(&step);
        let built = build::build(&missing, scratch.path(), &out, |elapsed, packages| {
            progress.tick(&step, elapsed, &format!("{packages} packages"));
        });
        if built.is_err() {
            progress.failed(&step);
        }
        built?;
        let bytes = missing
            .iter()
            .map(|program| self.keep(*program, &out.join(program.name())));
        let bytes = bytes.sum::<Result<u64, Error>>()?;
        progress.done(&step, started.elapsed(), bytes);
        Ok(())
    }

    /// Downloads `missing` from `server`, and keeps in it the programs that failed.
    fn fetch(
        &self,
        server: &str,
        missing: &mut Vec<Program>,
        scratch: &Path,
        step: &Step,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let mut bytes = 0;
        let mut left = Vec::new();
        progress.start(step);
        for program in std::mem::take(missing) {
            let Some(release) = Release::of(program) else { continue };
            let file = scratch.join(program.name());
            let fetched = release.fetch(server, &file, |_, so_far| {
                let megabytes = (bytes + so_far) / 1_000_000;
                progress.tick(step, started.elapsed(), &format!("{megabytes} MB, {program}"));
            });
            match fetched {
                Ok(()) => bytes += self.keep(program, &file)?,
                Err(error) => {
                    progress.note(&format!("{program} from {server} is not used: {error}"));
                    left.push(program);
                }
            }
        }
        if bytes > 0 {
            progress.done(step, started.elapsed(), bytes);
        } else {
            progress.failed(step);
        }
        *missing = left;
        Ok(())
    }

    /// Moves a finished program into the cache, and returns its size. Within one file system, so that no process sees an
    /// incomplete file.
    fn keep(&self, program: Program, file: &Path) -> Result<u64, Error> {
        let target = self.root.join(program.folder()).join(program.name());
        let moved = fs::metadata(file).and_then(|data| fs::rename(file, &target).map(|()| data.len()));
        moved.map_err(|source| Error::Write { path: target, source })
    }
}

/// The variables that name folders with existing programs.
pub const PREBUILT: [&str; 2] = ["APPDEPLOY_KUBE_BIN", "KUBEBUILDER_ASSETS"];

/// Returns the program in the first of the named folders that has it.
fn prebuilt(program: Program, variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    PREBUILT
        .iter()
        // The second one is that of envtest, which only has the control plane.
        .filter(|name| program.is_kubernetes() || **name == PREBUILT[0])
        .filter(|_| program.is_of_a_cluster())
        .filter_map(|name| variable(name).filter(|value| !value.is_empty()))
        .filter_map(|folder| std::path::absolute(folder).ok())
        .map(|folder| folder.join(program.name()))
        .find(|path| path.is_file())
}

/// Returns the server for downloads, if it answers. It is called once, with a timeout of three seconds.
pub fn answering() -> Option<&'static str> {
    static SERVER: OnceLock<Option<String>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let server = server()?;
        let release = Release::of(Program::Kubectl)?;
        release.is_on(&server).then_some(server)
    });
    server.as_deref()
}

/// Returns the server for downloads, unless downloads are disabled.
fn server() -> Option<String> {
    release::server(std::env::var(release::VARIABLE).ok())
}

/// Returns how long building `programs` usually takes on this machine.
#[must_use]
pub fn usual(programs: &[Program]) -> Duration {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let seconds: u64 = programs.iter().map(|program| program.seconds()).sum();
    // Measured with two processors. More than eight are idle at the end of each build.
    Duration::from_secs(seconds * 2 / processors.clamp(1, 8))
}

fn same_module(part: &[Program], program: Program) -> bool {
    part.first()
        .is_some_and(|first| first.module().name == program.module().name)
}

/// Joins the names of programs.
fn names(programs: &[Program]) -> String {
    let names: Vec<&str> = programs.iter().map(|program| program.name()).collect();
    names.join(", ")
}

/// Returns the source of `program`, for output.
fn origin(program: Program) -> String {
    let module = program.module();
    format!("{} {}", module.name, module.version)
}

/// Takes the folder's lock, which the kernel releases even if this process is killed.
fn lock(folder: &Path, waiting: impl FnOnce()) -> io::Result<File> {
    let file = File::create(folder.join(".lock"))?;
    if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
        waiting();
        file.lock()?;
    }
    Ok(file)
}

/// Returns the folder for everything that AppDeploy's tests keep between runs.
///
/// # Errors
/// When no variable names the folder.
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
    // `go` runs in its own folder, where a relative path would have another meaning.
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
        // Not in the folder: it is built.
        assert_eq!(prebuilt(Program::Kubelet, variable), None);
        // The first folder may have every program of a cluster, the second one those of envtest.
        for (folder, name) in [(&own, "coredns"), (&assets, "containerd"), (&own, "helm")] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(prebuilt(Program::CoreDns, variable), Some(own.path().join("coredns")));
        assert_eq!(prebuilt(Program::Containerd, variable), None);
        assert_eq!(prebuilt(Program::Helm, variable), None);
        assert_eq!(prebuilt(Program::Etcd, |_| None), None);
        assert_eq!(prebuilt(Program::Etcd, |_| Some("".into())), None);
    }
}
