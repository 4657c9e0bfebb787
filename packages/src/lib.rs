//! Renders the packages of a release from `config/` and the version of the workspace.
//!
//! This is not a second description of an installation: every package has the objects of `config/default`, and tests in
//! `tests/packages` list all differences.

pub mod archive;
pub mod helm;
mod image;
pub mod olm;
pub mod output;
pub mod pin;
pub mod platform;
pub mod release;
pub mod sbom;
pub mod source;

mod fill;
mod scope;
mod text;

/// The version of a release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The namespace in the manifests.
pub const NAMESPACE: &str = "appdeploy-system";
/// The name of the operator's own objects.
pub const OPERATOR: &str = "appdeploy-operator";
