//! Applies the rules of badrobot, Control Plane's auditor of operators, to the manifests.
//!
//! It can't be built as a Go module, so its 26 rules and their points are in `badrobot/rules.rs`, in our own words. If
//! one of its rules looks for one way to write a right, ours looks for the right.

mod rules;

use serde_json::{Value, json};

use crate::objects::{self, Objects};
use crate::tools::kustomized;
use rules::RULES;

/// Accepted findings: the rule, the object, and the reason.
const ALLOWED: [(&str, &str, &str); 1] = [(
    "AdmissionControllerClusterRole",
    "ClusterRole /appdeploy-webhook",
    "it may patch its own two configurations, by name, to set their CA bundle",
)];

/// Returns each rule that an object violates, with its points and the object.
fn broken(objects: &Objects) -> Vec<(&'static str, i32, String)> {
    let all = objects.iter().flat_map(|(name, object)| {
        let broken = RULES
            .iter()
            .filter(|rule| rule.applies_to(object) && (rule.is_broken)(object));
        broken.map(|rule| (rule.id, rule.points, name.clone()))
    });
    all.collect()
}

#[test]
fn manifests_violate_only_accepted_rules() {
    let broken = broken(&kustomized("default"));
    let lost: Vec<_> = broken.iter().map(|(id, _, object)| (*id, object.as_str())).collect();
    let allowed: Vec<_> = ALLOWED.iter().map(|(id, object, _)| (*id, *object)).collect();
    assert_eq!(lost, allowed, "{broken:?}");
}

#[test]
fn every_rule_can_be_broken() {
    let workload = |namespace: &str| {
        let context = json!({"allowPrivilegeEscalation": true, "privileged": true, "readOnlyRootFilesystem": false,
            "runAsNonRoot": false, "runAsUser": 0, "capabilities": {"add": ["SYS_ADMIN"]}});
        json!({"kind": "Deployment", "metadata": {"name": namespace, "namespace": namespace},
            "spec": {"template": {"spec": {"containers": [{"securityContext": context}]}}}})
    };
    let bare = json!({"kind": "Pod", "metadata": {"name": "bare"}, "spec": {"containers": [{}]}});
    let role = json!({"kind": "ClusterRole", "metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let binding =
        json!({"kind": "ClusterRoleBinding", "metadata": {"name": "all"}, "roleRef": {"name": "cluster-admin"}});
    let bad = [workload("default"), workload("kube-system"), bare, role, binding];
    let bad: Objects = bad.into_iter().map(|object| (objects::name(&object), object)).collect();
    let broken = broken(&bad);
    for rule in &RULES {
        assert!(
            broken.iter().any(|(id, ..)| *id == rule.id),
            "{} is never broken",
            rule.id
        );
    }
}

#[test]
fn rights_are_found_in_any_notation() {
    let broken_by = |right: Value| {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "one"}, "rules": [right]});
        let broken = broken(&Objects::from([("one".to_owned(), role)]));
        broken.iter().map(|(id, ..)| *id).collect::<Vec<_>>()
    };
    let right = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    assert_eq!(broken_by(right("", &["secrets"], &["list"])), ["SecretsClusterRole"]);
    assert_eq!(
        broken_by(right("", &["pods", "services"], &["get", "list", "create", "delete"])),
        Vec::<&str>::new()
    );
    assert_eq!(
        broken_by(right("networking.k8s.io", &["*"], &["patch"])),
        ["NetworkPolicyClusterRole"]
    );
    assert_eq!(
        broken_by(right("networking.k8s.io", &["ingresses"], &["*"])),
        Vec::<&str>::new()
    );
    let every = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let broken = broken_by(right(
        "rbac.authorization.k8s.io",
        &["clusterroles", "clusterrolebindings"],
        &every,
    ));
    assert_eq!(broken, ["StarClusterRoleAndBindings"]);
}
