//! The kinds of `appdeploy.dev`, and their names.

use std::fmt;

use crate::label;

/// A kind that users create and the operator reconciles.
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

    /// Returns the kind, as in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AppDeploy => "AppDeploy",
            Self::PodSet => "PodSet",
        }
    }

    /// Returns the singular name, as in `kubectl edit podset`.
    #[must_use]
    pub const fn singular(self) -> &'static str {
        match self {
            Self::AppDeploy => "appdeploy",
            Self::PodSet => "podset",
        }
    }

    /// Returns the plural name, as in URLs and RBAC rules.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::AppDeploy => "appdeploys",
            Self::PodSet => "podsets",
        }
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
