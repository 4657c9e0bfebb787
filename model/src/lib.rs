//! What an AppDeploy *means*: functions of values, and nothing else.
//!
//! ```text
//! validate -> desired -> plan          what to write
//!             observed -> diagnose -> status   what to say
//! ```
//!
//! The operator and the plugin call the same functions, so what `--dry-run` prints is what the operator
//! writes. There is no client here, no clock (`now` is passed) and no runtime: everything can be tested by
//! calling it.

pub mod admit;
pub mod children;
pub mod defaults;
pub mod desired;
pub mod diagnose;
pub mod digest;
pub mod export;
pub mod failure;
mod fields;
pub mod host;
pub mod inverse;
pub mod later;
pub mod merge;
pub mod next_command;
pub mod observed;
pub mod plan;
pub mod pod;
pub mod podset;
pub mod printable;
mod quantity;
pub mod reason;
pub mod resources;
pub mod status;
pub mod unfinished;
pub mod valid;

pub use children::{CHILDREN, ChildId, ChildKind};
pub use desired::{Desired, desired};
pub use digest::Digest;
pub use failure::Failure;
pub use next_command::NextCommand;
pub use observed::{Cached, Child, IngressClasses, Observed};
pub use plan::{Action, Plan, plan};
pub use status::status;
pub use valid::{Invalid, Valid, validate};
