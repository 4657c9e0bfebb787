//! The decisions of the operator and the plugin, as pure functions.
//!
//! ```text
//! validate -> desired  -> plan                what to write
//!             observed -> diagnose -> status  what to report
//! ```
//!
//! The operator and the plugin call the same functions, so `--dry-run` prints what the operator writes. This crate has no
//! client, no clock (`now` is passed) and no runtime.

pub mod admit;
pub mod children;
mod conditions;
pub mod config_maps;
pub mod defaults;
pub mod deferred_defaults;
pub mod desired;
pub mod diagnose;
pub mod digest;
pub mod export;
pub mod failure;
mod fields;
pub mod host;
pub mod ingress_path;
pub mod merge;
pub mod next_command;
pub mod plan;
pub mod pod;
pub mod podset;
pub mod printable;
mod quantity;
pub mod queue;
pub mod reason;
pub mod resources;
pub mod spec_reader;
pub mod status;
pub mod uid;
pub mod unfinished;
pub mod unstored;
pub mod valid;

pub use children::{CHILDREN, Cached, Child, ChildId, ChildKind, IngressClasses, Observed};
pub use desired::{Desired, desired};
pub use digest::Digest;
pub use failure::Failure;
pub use next_command::NextCommand;
pub use plan::{Action, Plan, plan};
pub use status::status;
pub use valid::{Invalid, Valid, validate};
