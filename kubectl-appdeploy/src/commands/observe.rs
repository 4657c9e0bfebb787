//! Commands that show the state of apps and pod sets.

pub mod describe;
pub mod events;
pub mod status;
pub mod top;
