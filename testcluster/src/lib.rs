//! A real Kubernetes on this machine, for tests: no container runtime, no registry, no root.
//!
//! [`binaries`] builds the programs once.

pub mod binaries;
pub mod kubeconfig;
pub mod pki;
pub mod process;
