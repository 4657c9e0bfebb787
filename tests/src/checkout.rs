//! The folders and programs of this checkout.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The folders of this checkout.
#[derive(Clone, Debug)]
pub struct Checkout {
    root: PathBuf,
    built: PathBuf,
}

impl Checkout {
    /// Finds the checkout that this program was built from.
    ///
    /// # Errors
    /// When the commands are not in Cargo's folder, next to or above this program.
    pub fn find() -> Result<Self> {
        let this = std::env::current_exe().context("failed to find this program")?;
        let built = this
            .ancestors()
            .find(|dir| dir.join("testcluster").is_file())
            .with_context(|| format!("the commands are not near {}: `make build` builds them", this.display()))?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        Ok(Self {
            root: root.parent().unwrap_or(root).to_path_buf(),
            built: built.to_path_buf(),
        })
    }

    /// Returns the folder with the Makefile.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns Cargo's folder for built commands.
    #[must_use]
    pub fn built(&self) -> &Path {
        &self.built
    }

    /// Returns a command that Cargo built.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.built.join(name)
    }

    /// Returns the folder for the user's PATH: links to the commands, and to kubectl.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.root.join("target/bin")
    }

    /// Returns the folder with the state of the local cluster.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("target/cluster")
    }

    /// Returns the kubeconfig of the local cluster.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.state().join("kubeconfig")
    }
}
