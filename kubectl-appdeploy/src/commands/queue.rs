//! Commands that only AppQueues have. They describe queues of a service outside the cluster.

pub mod adopt;
pub mod create;
pub mod delete;
