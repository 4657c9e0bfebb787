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
pub mod backoff;
pub mod defaults;
pub mod desired;
pub mod diagnose;
pub mod digest;
pub mod export;
pub mod failure;
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

pub use desired::{Desired, desired};
pub use digest::Digest;
pub use failure::Failure;
pub use next_command::NextCommand;
pub use observed::{Child, IngressClasses, Observed, Sight};
pub use plan::{Action, Plan, plan};
pub use status::status;
pub use valid::{Invalid, Valid, validate};

/// The kinds of object that an AppDeploy owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildKind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `v1` Service.
    Service,
    /// `networking.k8s.io/v1` Ingress.
    Ingress,
}

impl ChildKind {
    /// All of them, in the order in which they are written: what runs, what reaches it, what publishes it.
    pub const ALL: [Self; 3] = [Self::Deployment, Self::Service, Self::Ingress];

    /// Returns the kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::Service => "Service",
            Self::Ingress => "Ingress",
        }
    }

    /// Returns the word for `kubectl` and for access rules.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::Service => "services",
            Self::Ingress => "ingresses",
        }
    }
}

impl std::fmt::Display for ChildKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
