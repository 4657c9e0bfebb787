//! How a Deployment replaces pods.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How changed pods are rolled out, as in a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.type) || self.type != 'Recreate' || !(has(self.maxSurge) || has(self.maxUnavailable))", "maxSurge and maxUnavailable are for type RollingUpdate; remove them, or the type Recreate"),
    validation = ("!has(self.maxSurge) || !has(self.maxUnavailable) || !(string(self.maxSurge) in ['0', '0%']) || !(string(self.maxUnavailable) in ['0', '0%'])", "maxSurge and maxUnavailable can't both be 0: no pod could be replaced; raise one of them")
)]
pub struct RolloutStrategy {
    /// How pods are replaced.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<RolloutType>,
    /// How many pods may exist in addition to `replicas`: a number, or a percentage, which is rounded up. Default 25%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 4))]
    #[x_kube(
        validation = ("type(self) == int ? self >= 0 && self <= 1000 : self.matches('^([0-9]|[1-9][0-9]|100)%$')", "maxSurge is a number from 0 to 1000, or a percentage from 0% to 100%; write it like 1 or 25%")
    )]
    pub max_surge: Option<IntOrString>,
    /// How many pods may be unavailable: a number, or a percentage, which is rounded down. Default 25%, which is 0 for up to
    /// three pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 4))]
    #[x_kube(
        validation = ("type(self) == int ? self >= 0 && self <= 1000 : self.matches('^([0-9]|[1-9][0-9]|100)%$')", "maxUnavailable is a number from 0 to 1000, or a percentage from 0% to 100%; write it like 1 or 25%")
    )]
    pub max_unavailable: Option<IntOrString>,
    /// After how many seconds without progress a rollout is reported as failed. Default 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5))]
    pub progress_deadline_seconds: Option<i32>,
}

/// How pods are replaced: with `RollingUpdate`, new pods are started before old ones end; with `Recreate`, all old pods end
/// before new ones are started, for applications of which no two versions may run. Default `RollingUpdate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutType {
    /// A few pods at a time, new ones first.
    RollingUpdate,
    /// All pods, old ones first. The application can't be reached in between.
    Recreate,
}

impl RolloutType {
    /// All types.
    pub const ALL: [Self; 2] = [Self::RollingUpdate, Self::Recreate];

    /// Returns the value, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RollingUpdate => "RollingUpdate",
            Self::Recreate => "Recreate",
        }
    }
}
