//! Fields that reach further than the other fields of a spec, and which rights they need.
//!
//! A user who may create pods could use each of them without AppDeploy, so their author must have that right. It is not the
//! right to write AppDeploys: `docs/security.md` lists the fields. A ServiceAccount of its own also needs the right to create one
//! (`right.rs`).

use crd::PodFields;

use crate::Invalid;

/// Returns the paths of the fields that need the right to create pods. `at` is the path of the fields of the pod.
#[must_use]
pub fn gated_fields(pod: &PodFields, at: &str) -> Vec<String> {
    let account = pod.service_account.iter().map(|_| format!("{at}.serviceAccount"));
    let placement = pod.placement.iter().map(|_| format!("{at}.placement"));
    let images = pod.volumes.iter().filter(|volume| volume.image.is_some());
    let images = images.map(|volume| format!("{at}.volumes[{}].image", volume.name));
    // One entry for each list.
    let inits = pod.init_containers.first().map(|_| format!("{at}.initContainers"));
    let sidecars = pod.sidecars.first().map(|_| format!("{at}.sidecars"));
    account
        .chain(placement)
        .chain(images)
        .chain(inits)
        .chain(sidecars)
        .collect()
}

/// Rejects the fields that need a right, for an operator that does not review the rights of authors.
///
/// # Errors
/// Returns a message for each such field.
pub fn without_review(pod: &PodFields, at: &str) -> Result<(), Invalid> {
    let problems: Vec<String> = gated_fields(pod, at)
        .into_iter()
        .map(|field| {
            format!(
                "{field}: the operator runs without webhooks and can't review whether the author may create pods: remove \
                 the field, or run the operator with --webhooks or --allow-unchecked-fields"
            )
        })
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(Invalid(problems))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_reach_further_are_rejected_without_a_review() {
        let plain = json!({"image": "nginx:1", "volumes": [
            {"name": "a", "mountPath": "/a", "secret": {"secretName": "a"}}, {"name": "b", "mountPath": "/b", "emptyDir": {}}]});
        assert_eq!(without_review(&serde_json::from_value(plain).unwrap(), "spec"), Ok(()));
        let gated = json!({"image": "nginx:1", "serviceAccount": {"name": "shop"}, "placement": {"nodeSelector": {"a": "b"}},
            "volumes": [{"name": "c", "mountPath": "/c", "image": {"reference": "assets:1"}}],
            "initContainers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}],
            "sidecars": [{"name": "c", "image": "c"}]});
        let gated = serde_json::from_value(gated).unwrap();
        assert_eq!(
            gated_fields(&gated, "spec.template"),
            [
                "spec.template.serviceAccount",
                "spec.template.placement",
                "spec.template.volumes[c].image",
                "spec.template.initContainers",
                "spec.template.sidecars"
            ]
        );
        assert_eq!(without_review(&gated, "spec").unwrap_err().0.len(), 5);
    }
}
