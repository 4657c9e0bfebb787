//! Commands that connect to pods.

pub mod exec;
pub mod logs;
pub mod open;
pub mod port_forward;
pub mod target;
