//! Validates the ServiceAccount of a pod.

use crd::{PodFields, ServiceAccount};

use super::is_object_name;
use super::placement::is_key;

/// The domain of the operator's own annotations.
const OWN: &str = "appdeploy.dev/";

/// Adds a message for each invalid field. `at` is the path of the fields of the pod.
pub(super) fn add_problems(at: &str, pod: &PodFields, problems: &mut Vec<String>) {
    let Some(account) = &pod.service_account else {
        if pod.automount_service_account_token == Some(true) {
            problems.push(format!(
                "{at}.automountServiceAccountToken: missing ServiceAccount: set {at}.serviceAccount"
            ));
        }
        return;
    };
    let at = format!("{at}.serviceAccount");
    match &**account {
        ServiceAccount {
            name: Some(name),
            annotations: None,
        } if !is_object_name(name) => {
            problems.push(format!("{at}.name: invalid name {name:?}: write it like shop"));
        }
        ServiceAccount {
            name: Some(_),
            annotations: None,
        } => {}
        ServiceAccount {
            name: None,
            annotations: Some(annotations),
        } => {
            for key in annotations.keys().filter(|key| !is_annotation(key)) {
                problems.push(format!(
                    "{at}.annotations: invalid key {key:?}: write it like eks.amazonaws.com/role-arn"
                ));
            }
        }
        _ => problems.push(format!(
            "{at}: this version of the operator needs exactly one of name and annotations"
        )),
    }
}

/// Whether a spec can have an annotation of this key.
pub(crate) fn is_annotation(key: &str) -> bool {
    is_key(key) && !key.starts_with(OWN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn service_account_has_a_name_or_annotations() {
        for (account, is_valid) in [
            (json!({"name": "shop"}), true),
            (json!({"annotations": {}}), true),
            (
                json!({"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/shop"}}),
                true,
            ),
            (json!({}), false),
            (json!({"name": "shop", "annotations": {}}), false),
            (json!({"name": "a b"}), false),
            (json!({"annotations": {"a b": "c"}}), false),
            (json!({"annotations": {"appdeploy.dev/desired-hash": "c"}}), false),
        ] {
            let pod = serde_json::from_value(json!({"image": "nginx", "serviceAccount": account})).unwrap();
            let mut problems = Vec::new();
            add_problems("spec", &pod, &mut problems);
            assert_eq!(problems.is_empty(), is_valid, "{account}: {problems:?}");
        }
        let mut problems = Vec::new();
        let token = json!({"image": "nginx", "automountServiceAccountToken": true});
        add_problems("spec", &serde_json::from_value(token).unwrap(), &mut problems);
        assert_eq!(
            problems,
            ["spec.automountServiceAccountToken: missing ServiceAccount: set spec.serviceAccount"]
        );
    }
}
