//! Commands about rollouts and revisions.

pub mod history;
pub mod pause;
pub mod restart;
pub mod undo;
