//! Shared by the demo and the end-to-end tests: this checkout, a cluster, and a shell like a user's.

pub mod checkout;
pub mod cluster;
pub mod demo;
pub mod guide;
pub mod page;
pub mod rights;
pub mod session;
pub mod shell;

pub use checkout::Checkout;
pub use cluster::Cluster;
pub use shell::Shell;
