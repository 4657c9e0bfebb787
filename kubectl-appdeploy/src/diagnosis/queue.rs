//! What happens to AppQueues: their deletion, and their use in apps and pod sets.

pub mod deletion;
pub mod used;
