//! A real Kubernetes on this machine, for tests: no container runtime, no registry, no root.
//!
//! A [`ControlPlane`] is up within seconds, alone in its folder and on its ports, and gone when
//! it is dropped. Its [audit log](audit) tells what a program cost it, and on its
//! [fake nodes](fake_nodes) pods say that they run.
//!
//! ```no_run
//! let control_plane = testcluster::ControlPlane::start()?;
//! let namespaces = control_plane.kubectl(&["get", "namespaces"])?;
//! # Ok::<(), testcluster::control_plane::Error>(())
//! ```
//!
//! [`binaries`] builds the programs, once; [`process`], [`pki`], [`kubeconfig`] and [`kubectl`]
//! are what a cluster is made of, and what this crate's command makes one of that stays.
//!
//! Everything is synchronous: a test is a sequence of steps, with or without a runtime of its own.

pub mod audit;
pub mod binaries;
pub mod consent;
pub mod control_plane;
pub mod disk;
pub mod fake_nodes;
pub mod kubeconfig;
pub mod kubectl;
pub mod node;
pub mod pki;
pub mod port;
pub mod process;
pub mod registry;

pub use control_plane::ControlPlane;
pub use kubectl::Kubectl;
