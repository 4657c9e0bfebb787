//! Commands about AppDeploy in a cluster: install, check, report, uninstall.

pub mod check;
pub mod install;
pub mod report;
pub mod uninstall;
pub mod version;
