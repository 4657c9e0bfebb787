//! A real Kubernetes on this machine, for tests: no container runtime, no registry, no root.
//!
//! A [`ControlPlane`] starts within seconds, with its own folder and ports, and is removed when it is dropped. Its [audit
//! log](audit) shows the requests of a program, and on its [fake nodes](fake_nodes) pods report that they run.
//!
//! ```no_run
//! let control_plane = testcluster::ControlPlane::start()?;
//! let namespaces = control_plane.kubectl(&["get", "namespaces"])?;
//! # Ok::<(), testcluster::control_plane::Error>(())
//! ```
//!
//! [`binaries`] builds the programs, once; [`process`], [`pki`], [`kubeconfig`] and [`kubectl`] are the parts of a
//! cluster, which this crate's command also uses for a permanent one.
//!
//! [`queue_servers`] are servers outside of a cluster, for the tests of queues.
//!
//! Helpers that tests of several crates and the demo share are here, too: [`checkout`], [`http`], [`shared`] and [`wait`].
//!
//! Everything is synchronous: a test is a sequence of steps, with or without a runtime.

mod administrator;
pub mod audit;
pub mod binaries;
pub mod checkout;
pub mod consent;
pub mod control_plane;
pub mod disk;
pub mod fake_nodes;
pub mod http;
pub mod kubeconfig;
pub mod kubectl;
pub mod node;
pub mod pki;
pub mod port;
pub mod process;
pub mod queue_servers;
pub mod registry;
pub mod shared;
pub mod wait;

pub use control_plane::{ControlPlane, PooledControlPlane};
pub use kubectl::Kubectl;
