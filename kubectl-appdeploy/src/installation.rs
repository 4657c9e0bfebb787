//! The installation of AppDeploy in a cluster, which several commands read.

pub mod check;
pub mod manifests;
pub mod operator;
pub mod rights;
pub mod rollout;
pub mod settings;
pub mod version;
pub mod webhook_ready;
