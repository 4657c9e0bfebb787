//! The manifests of an installation.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Reads a file of `config/`, without its ending: `rbac/operator_role`.
pub(super) fn manifest(file: &str) -> Result<String> {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let path = config.join(file).with_extension("yaml");
    std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}
