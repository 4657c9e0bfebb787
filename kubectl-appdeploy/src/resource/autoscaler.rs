//! Objects of the kind `HorizontalPodAutoscaler` that set the number of pods of an app or a pod set.

use crd::Kind;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt as _;

/// Whether an autoscaler sets the number of pods of this object.
pub fn is_for(autoscaler: &HorizontalPodAutoscaler, kind: Kind, name: &str) -> bool {
    let target = autoscaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
    target.is_some_and(|target| {
        let group = target
            .api_version
            .as_deref()
            .and_then(|version| version.split('/').next());
        group == Some(crd::GROUP) && target.kind == kind.as_str() && target.name == name
    })
}

/// Returns the numbers of pods between which an autoscaler chooses: `2 to 5 pods`.
pub fn range(autoscaler: &HorizontalPodAutoscaler) -> String {
    let spec = autoscaler.spec.clone().unwrap_or_default();
    format!("{} to {} pods", spec.min_replicas.unwrap_or(1), spec.max_replicas)
}

/// Returns what to know before scaling by hand what an autoscaler scales.
pub fn warning(autoscaler: &HorizontalPodAutoscaler, name: &str) -> String {
    format!(
        "HorizontalPodAutoscaler {} sets the number of pods of {name} ({}) and will change it again",
        autoscaler.name_any(),
        range(autoscaler)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn autoscaler_belongs_to_what_it_scales() {
        let autoscaler = |group: &str, kind: &str, name: &str| -> HorizontalPodAutoscaler {
            serde_json::from_value(json!({"metadata": {"name": "busy"}, "spec": {"maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "name": name}}}))
            .unwrap()
        };
        let is_shop = |autoscaler| is_for(&autoscaler, Kind::AppDeploy, "shop");
        let own = autoscaler("appdeploy.dev", "AppDeploy", "shop");
        assert_eq!(
            warning(&own, "shop"),
            "HorizontalPodAutoscaler busy sets the number of pods of shop (1 to 5 pods) and will change it again"
        );
        assert!(is_shop(own));
        for (group, kind, name) in [
            ("appdeploy.dev", "AppDeploy", "blog"),
            ("appdeploy.dev", "PodSet", "shop"),
            ("apps", "AppDeploy", "shop"),
        ] {
            assert!(!is_shop(autoscaler(group, kind, name)), "{group} {kind} {name}");
        }
    }
}
