//! The kinds of `appdeploy.dev`, and the words for each.

use std::fmt;

use crate::label;

/// A kind that a person creates and the operator looks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// [`crate::AppDeploy`].
    AppDeploy,
    /// [`crate::PodSet`].
    PodSet,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::AppDeploy, Self::PodSet];

    /// Returns the kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AppDeploy => "AppDeploy",
            Self::PodSet => "PodSet",
        }
    }

    /// Returns the word for one of them in a command, as in `kubectl edit podset`.
    #[must_use]
    pub const fn singular(self) -> &'static str {
        match self {
            Self::AppDeploy => "appdeploy",
            Self::PodSet => "podset",
        }
    }

    /// Returns the word in URLs and access rules.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::AppDeploy => "appdeploys",
            Self::PodSet => "podsets",
        }
    }

    /// Returns the label by which the pods of one of them are found. Its value is the object's name.
    #[must_use]
    pub const fn pod_label(self) -> &'static str {
        match self {
            Self::AppDeploy => label::APP,
            Self::PodSet => label::PODSET,
        }
    }

    /// Returns the selector of the pods of the one that has this name.
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
