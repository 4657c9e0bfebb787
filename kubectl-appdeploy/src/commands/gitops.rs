//! Commands that compare, export, adopt and release Kubernetes objects.

pub mod adopt;
pub mod diff;
pub mod eject;
pub mod export;
