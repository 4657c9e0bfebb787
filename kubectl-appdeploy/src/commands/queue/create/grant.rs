//! The operator's right to read the Secret with the credentials of a queue: one Role with one verb for one name.

use kube::core::Status;
use serde_json::{Value, json};

use crate::cluster::connection::MANAGER;
use crate::installation::manifests::Kind;
use crate::installation::operator;

/// Returns the Role and the RoleBinding. They are those of the Secret: several queues can share it.
///
/// They do not carry the labels of an installation, which `install` and `uninstall` delete.
pub fn objects(namespace: &str, secret: &str) -> Vec<(Kind, Value)> {
    let name = format!("appdeploy-queue-{secret}");
    let metadata = json!({"name": name, "namespace": namespace, "labels": {crd::label::MANAGED_BY: MANAGER}});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]}]});
    let subject = json!({"kind": "ServiceAccount", "name": operator::NAME, "namespace": crd::OPERATOR_NAMESPACE});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}, "subjects": [subject]});
    vec![(Kind::role(), role), (Kind::role_binding(), binding)]
}

/// Whether the API server could not find the Role of a RoleBinding. For a user without the right to bind any role, it reads the
/// Role to compare its rights with those of the user. It reports the missing object as the RoleBinding itself, which an apply
/// would create.
pub fn is_missing_role(status: &Status, name: &str) -> bool {
    let details = status.details.as_ref();
    status.is_not_found()
        && details
            .is_some_and(|details| details.name == name && ["roles", "rolebindings"].contains(&details.kind.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_role_of_this_name_is_expected() {
        let status = |kind: &str, name: &str| {
            let status = json!({"status": "Failure", "message": "", "reason": "NotFound", "code": 404,
                "details": {"name": name, "kind": kind, "group": "rbac.authorization.k8s.io"}});
            serde_json::from_value::<Status>(status).unwrap()
        };
        assert!(is_missing_role(
            &status("roles", "appdeploy-queue-sqs"),
            "appdeploy-queue-sqs"
        ));
        assert!(is_missing_role(
            &status("rolebindings", "appdeploy-queue-sqs"),
            "appdeploy-queue-sqs"
        ));
        assert!(!is_missing_role(&status("roles", "other"), "appdeploy-queue-sqs"));
        assert!(!is_missing_role(
            &status("namespaces", "appdeploy-queue-sqs"),
            "appdeploy-queue-sqs"
        ));
    }
}
