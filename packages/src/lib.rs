//! What AppDeploy is released as, rendered from `config/` and the version of the workspace.
//!
//! Nothing here is a second description of an installation: what is in `config/default` is in every package, or a test
//! in `tests/packages` says why not.

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

/// The version of everything that is released.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The namespace that the manifests name.
pub const NAMESPACE: &str = "appdeploy-system";
/// The name of the operator's own objects.
pub const OPERATOR: &str = "appdeploy-operator";
