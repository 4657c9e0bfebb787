//! The paths of the local cluster: state in the checkout, sockets in a short path, downloads in the cache.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of sockets and of containerd's own state, in the node's own file system, so it ends with the node. The path
/// of a socket may have 107 bytes, and that of a checkout can be longer.
const RUN: &str = "/run/appdeploy";

/// The paths of one local cluster.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// `target/cluster` of the checkout.
    pub(crate) state: PathBuf,
    /// Downloads and builds, shared by all checkouts.
    pub(crate) cache: PathBuf,
}

impl Layout {
    /// Returns the layout for `state`, or for `target/cluster` of the workspace around the current folder.
    ///
    /// # Errors
    /// Fails outside a checkout when no folder is given.
    pub(crate) fn find(state: Option<PathBuf>) -> Result<Self> {
        let state = match state {
            Some(dir) => std::path::absolute(&dir).with_context(|| format!("failed to resolve {}", dir.display()))?,
            None => workspace()?.join("target/cluster"),
        };
        Ok(Self {
            state,
            cache: testcluster::binaries::cache()?,
        })
    }

    /// Returns a path under the state folder.
    #[must_use]
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// Returns the kubeconfig that a person uses.
    #[must_use]
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.at("kubeconfig")
    }

    /// Creates a folder under the state folder and returns it.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.at(name);
        create(&dir)?;
        Ok(dir)
    }

    /// Writes a file under the state folder and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.at(name);
        if let Some(dir) = file.parent() {
            create(dir)?;
        }
        std::fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        Ok(file)
    }
}

/// Returns a path under [`RUN`].
pub(crate) fn run(name: &str) -> PathBuf {
    Path::new(RUN).join(name)
}

/// Creates a folder with its parents.
pub(crate) fn create(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("failed to create {}", dir.display()))
}

/// Removes a folder with its content, if it exists.
pub(crate) fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Finds the workspace around the current folder: the outermost Cargo.toml with a `[workspace]`.
pub(crate) fn workspace() -> Result<PathBuf> {
    let here = std::env::current_dir().context("failed to read the current folder")?;
    here.ancestors()
        .find(|dir| std::fs::read_to_string(dir.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace]")))
        .map(Path::to_path_buf)
        .with_context(|| {
            format!(
                "{} is not inside a checkout of AppDeploy; change into one, or pass --state-dir",
                here.display()
            )
        })
}
