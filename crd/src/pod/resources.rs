//! Compute resources of a container.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Returns the rule that the request of a resource is not above its limit.
///
/// Kubernetes before 1.34 ignores `maxLength` of amounts when it estimates the cost of a rule, and allows neither a comparison of
/// all resources nor the conversion of a number to a string. So there is a rule for each resource, which compares numbers as they
/// are. The webhook compares all resources.
macro_rules! not_above {
    ($name:literal) => {
        concat!(
            "!has(self.requests) || !has(self.limits) || !('",
            $name,
            "' in self.requests) || !('",
            $name,
            "' in self.limits) || (type(self.requests['",
            $name,
            "']) == int ? (type(self.limits['",
            $name,
            "']) == int ? int(self.requests['",
            $name,
            "']) <= int(self.limits['",
            $name,
            "']) : quantity(self.limits['",
            $name,
            "']).sub(int(self.requests['",
            $name,
            "'])).compareTo(quantity('0')) >= 0) : type(self.limits['",
            $name,
            "']) == int ? quantity(self.requests['",
            $name,
            "']).sub(int(self.limits['",
            $name,
            "'])).compareTo(quantity('0')) <= 0 : quantity(self.requests['",
            $name,
            "']).compareTo(quantity(self.limits['",
            $name,
            "'])) <= 0)",
        )
    };
}

const CPU: &str = not_above!("cpu");
const MEMORY: &str = not_above!("memory");
const STORAGE: &str = not_above!("ephemeral-storage");
const ABOVE: &str = "a request is above its limit; raise the limit or lower the request";

/// Compute resources, as in a Kubernetes container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("(!has(self.requests) || self.requests.all(name, name in ['cpu', 'memory', 'ephemeral-storage'] || name.startsWith('hugepages-') || name.contains('/'))) && (!has(self.limits) || self.limits.all(name, name in ['cpu', 'memory', 'ephemeral-storage'] || name.startsWith('hugepages-') || name.contains('/')))", "unknown resource: use cpu, memory, ephemeral-storage, or a name with a domain, like example.com/gpu"),
    validation = (CPU, ABOVE),
    validation = (MEMORY, ABOVE),
    validation = (STORAGE, ABOVE)
)]
pub struct Resources {
    /// What the scheduler reserves for each pod, such as `cpu: 100m` and `memory: 64Mi`. Default: the limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = ("self.all(name, size(name) <= 317)", "the name of a resource has at most 317 characters"))]
    pub requests: BTreeMap<String, Quantity>,
    /// The maximum that each pod may use. Above the memory limit the container is killed, above the CPU limit it is slowed
    /// down. Default: no limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = ("self.all(name, size(name) <= 317)", "the name of a resource has at most 317 characters"))]
    pub limits: BTreeMap<String, Quantity>,
}
