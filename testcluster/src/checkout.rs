//! This checkout: its folders and programs, the cluster of its Makefile, and a shell for that cluster.

pub mod cluster;
mod shell;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub use cluster::Cluster;
pub use shell::Shell;

/// The user of the operator: the ServiceAccount to which `config/rbac` grants its rights.
pub const OPERATOR_USER: &str = "system:serviceaccount:appdeploy-system:appdeploy-operator";

/// Returns the folder with the Makefile.
#[must_use]
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Reads a manifest of `config/`, such as `rbac/operator_role`.
///
/// # Errors
/// When it does not exist.
pub fn manifest(name: &str) -> Result<String> {
    let path = root().join("config").join(format!("{name}.yaml"));
    std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}

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
        Ok(Self {
            root: root().to_path_buf(),
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
