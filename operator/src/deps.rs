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
    /// The caches.
    pub stores: Arc<Stores>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The flags.
    pub settings: Settings,
}
