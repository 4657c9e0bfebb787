//! The operator's rights in some namespaces, made from those in all of them.

use serde_json::Value;

/// What lives in no namespace, and so can't be granted in one. The operator does without it.
const OF_THE_CLUSTER: [&str; 2] = ["ingressclasses", "customresourcedefinitions"];

/// Returns a manifest for an operator of some namespaces: cluster-wide rights become the same rights in each of them.
pub fn in_each(manifest: Value, namespaces: &[String]) -> Vec<Value> {
    let is_operators = manifest["metadata"]["name"] == crate::installation::operator::NAME;
    let kind = match manifest["kind"].as_str() {
        Some("ClusterRole") if is_operators => "Role",
        Some("ClusterRoleBinding") if is_operators => "RoleBinding",
        _ => return vec![manifest],
    };
    let of = |namespace: &String| {
        let mut manifest = manifest.clone();
        manifest["kind"] = kind.into();
        manifest["metadata"]["namespace"] = namespace.clone().into();
        if let Some(reference) = manifest.get_mut("roleRef") {
            reference["kind"] = "Role".into();
        }
        if let Some(rules) = manifest.get_mut("rules").and_then(Value::as_array_mut) {
            rules.retain_mut(is_of_a_namespace);
        }
        manifest
    };
    namespaces.iter().map(of).collect()
}

/// Whether a rule grants rights in a namespace. Removes its cluster-scoped parts.
fn is_of_a_namespace(rule: &mut Value) -> bool {
    let Some(resources) = rule["resources"].as_array_mut() else {
        return false;
    };
    resources.retain(|resource| !OF_THE_CLUSTER.iter().any(|other| resource == other));
    !resources.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cluster_role_becomes_a_role_in_each_namespace() {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "appdeploy-operator", "labels": {"a": "b"}}, "rules": [
            {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["list"]},
            {"apiGroups": ["networking.k8s.io"], "resources": ["ingressclasses"], "verbs": ["list"]}]});
        let of = |namespace: &str| {
            json!({"kind": "Role", "metadata": {"name": "appdeploy-operator", "namespace": namespace, "labels": {"a": "b"}},
            "rules": [{"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["list"]}]})
        };
        let namespaces = ["shop".to_owned(), "blog".to_owned()];
        assert_eq!(in_each(role, &namespaces), [of("shop"), of("blog")]);

        let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "appdeploy-operator"},
            "roleRef": {"kind": "ClusterRole", "name": "appdeploy-operator"}, "subjects": ["the operator"]});
        let bound = json!({"kind": "RoleBinding", "metadata": {"name": "appdeploy-operator", "namespace": "shop"},
            "roleRef": {"kind": "Role", "name": "appdeploy-operator"}, "subjects": ["the operator"]});
        assert_eq!(in_each(binding, &namespaces[..1]), [bound]);
    }

    #[test]
    fn aggregated_roles_and_namespaced_roles_are_kept() {
        for (kind, name) in [
            ("ClusterRole", "appdeploy-editor"),
            ("Role", "appdeploy-leader-election"),
        ] {
            let role = json!({"kind": kind, "metadata": {"name": name}, "rules": []});
            assert_eq!(in_each(role.clone(), &["shop".to_owned()]), [role]);
        }
    }
}
