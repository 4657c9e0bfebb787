//! The kinds of `appdeploy.dev`, and their names.

use std::fmt;

use crate::label;

/// The names of a kind that users create and the operator reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The kind, as in manifests.
    pub kind: &'static str,
    /// The singular name, as in `kubectl edit podset`.
    pub singular: &'static str,
    /// The plural name, as in URLs and RBAC rules.
    pub plural: &'static str,
}

impl Names {
    /// The names of all kinds.
    pub const ALL: [Self; 3] = [Kind::AppDeploy.names(), Kind::PodSet.names(), Self::APP_QUEUE];

    /// The names of [`crate::AppQueue`].
    pub const APP_QUEUE: Self = Self {
        kind: "AppQueue",
        singular: "appqueue",
        plural: "appqueues",
    };
}

/// A kind whose objects have pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// [`crate::AppDeploy`].
    AppDeploy,
    /// [`crate::PodSet`].
    PodSet,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::AppDeploy, Self::PodSet];

    /// Returns its names.
    #[must_use]
    pub const fn names(self) -> Names {
        match self {
            Self::AppDeploy => Names {
                kind: "AppDeploy",
                singular: "appdeploy",
                plural: "appdeploys",
            },
            Self::PodSet => Names {
                kind: "PodSet",
                singular: "podset",
                plural: "podsets",
            },
        }
    }

    /// Returns the kind, as in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.names().kind
    }

    /// Returns the singular name, as in `kubectl edit podset`.
    #[must_use]
    pub const fn singular(self) -> &'static str {
        self.names().singular
    }

    /// Returns the plural name, as in URLs and RBAC rules.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        self.names().plural
    }

    /// Returns the label that selects the pods of an object. Its value is the object's name.
    #[must_use]
    pub const fn pod_label(self) -> &'static str {
        match self {
            Self::AppDeploy => label::APP,
            Self::PodSet => label::PODSET,
        }
    }

    /// Returns the label selector of the pods of an object.
    #[must_use]
    pub fn pod_selector(self, name: &str) -> String {
        format!("{}={name}", self.pod_label())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
