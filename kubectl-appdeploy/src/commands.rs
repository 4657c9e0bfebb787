//! The commands, in folders by task. No folder imports another one.

pub mod app;
pub mod change;
pub mod cluster;
pub mod completion;
pub mod connect;
pub mod gitops;
pub mod observe;
pub mod queue;
pub mod rollout;
