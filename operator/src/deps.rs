//! What every controller needs.

use std::sync::Arc;

use crate::call::Caller;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::stores::Stores;

/// What controllers are made from.
#[derive(Clone)]
pub struct Deps {
    /// Sends requests. Writes pass the fence.
    pub caller: Caller,
    /// What is cached.
    pub stores: Arc<Stores>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The flags.
    pub settings: Settings,
}
