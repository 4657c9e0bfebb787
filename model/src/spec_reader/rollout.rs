//! Reads how pods are rolled out from a Deployment.

use crd::{RolloutStrategy, RolloutType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::pod::number;
use crate::children::DEPLOYMENT;
use crate::defaults;

/// Reads a Deployment with the defaults of the API server. Returns `None` if it has no other values.
pub fn read(deployment: &Value) -> Option<RolloutStrategy> {
    let usual = defaults::filled(&DEPLOYMENT, &Value::Null);
    let other = |path: &str| {
        let value = deployment.pointer(path)?;
        (usual.pointer(path) != Some(value)).then(|| value.clone())
    };
    let limit = |name: &str| {
        let value = other(&format!("/spec/strategy/rollingUpdate/{name}"))?;
        serde_json::from_value(value).ok().filter(is_limit)
    };
    let read = RolloutStrategy {
        type_: other("/spec/strategy/type")
            .filter(|kind| *kind == RolloutType::Recreate.as_str())
            .map(|_| RolloutType::Recreate),
        max_surge: limit("maxSurge"),
        max_unavailable: limit("maxUnavailable"),
        progress_deadline_seconds: other("/spec/progressDeadlineSeconds")
            .and_then(|seconds| number(&seconds))
            .filter(|seconds| *seconds >= 5),
    };
    (read != RolloutStrategy::default()).then_some(read)
}

/// Whether a spec can have this limit.
fn is_limit(limit: &IntOrString) -> bool {
    match limit {
        IntOrString::Int(number) => (0..=1000).contains(number),
        IntOrString::String(text) => {
            let share = text.strip_suffix('%').and_then(|share| share.parse::<u8>().ok());
            share.is_some_and(|share| share <= 100 && format!("{share}%") == *text)
        }
    }
}
