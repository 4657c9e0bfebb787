//! The rules, with badrobot's names and points.

use serde_json::Value;

/// One rule.
pub struct Rule {
    /// Badrobot's name of the rule.
    pub id: &'static str,
    /// The points for a violation.
    pub points: i32,
    kinds: &'static [&'static str],
    /// Whether an object violates it.
    pub is_broken: fn(&Value) -> bool,
}

impl Rule {
    /// Returns whether the rule applies to objects of this kind.
    pub fn applies_to(&self, object: &Value) -> bool {
        self.kinds.iter().any(|kind| object["kind"] == *kind)
    }
}

const PLACES: &[&str] = &["Namespace", "Deployment", "ClusterRoleBinding"];
const WORKLOADS: &[&str] = &["Pod", "Deployment", "StatefulSet", "DaemonSet"];
const ROLES: &[&str] = &["ClusterRole"];
const BINDINGS: &[&str] = &["ClusterRoleBinding"];

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 3] = ["create", "update", "patch"];
const DELETE: [&str; 2] = ["delete", "deletecollection"];

const RBAC: &str = "rbac.authorization.k8s.io";

const fn rule(id: &'static str, points: i32, kinds: &'static [&'static str], is_broken: fn(&Value) -> bool) -> Rule {
    Rule {
        id,
        points,
        kinds,
        is_broken,
    }
}

pub static RULES: [Rule; 26] = [
    rule("DefaultNamespace", -1, PLACES, |object| is_in(object, "default")),
    rule("KubeSystemNamespace", -9, PLACES, |object| is_in(object, "kube-system")),
    rule("NoSecurityContext", -12, WORKLOADS, |object| {
        containers(object).any(|container| container["securityContext"].is_null())
    }),
    rule("AllowPrivilegeEscalation", -12, WORKLOADS, |object| {
        // The default is to allow it.
        settings(object, "allowPrivilegeEscalation").any(|allowed| allowed != false)
    }),
    rule("Privileged", -16, WORKLOADS, |object| {
        settings(object, "privileged").any(|is| is == true)
    }),
    rule("ReadOnlyRootFilesystem", -6, WORKLOADS, |object| {
        settings(object, "readOnlyRootFilesystem").any(|is| is != true)
    }),
    rule("RunAsNonRoot", -9, WORKLOADS, |object| {
        settings(object, "runAsNonRoot").any(|is| is != true)
    }),
    rule("RunAsUser", -9, WORKLOADS, |object| {
        settings(object, "runAsUser").any(|user| user.as_u64().is_none_or(|user| user == 0))
    }),
    rule("CapSysAdmin", -16, WORKLOADS, |object| {
        let added = settings(object, "capabilities").flat_map(|all| list(&all["add"]));
        added
            .into_iter()
            .any(|name| name.contains("SYS_ADMIN") || name == "ALL")
    }),
    rule("ClusterAdmin", -25, BINDINGS, |object| {
        object["roleRef"]["name"] == "cluster-admin"
    }),
    rule("StarAllClusterRole", -25, ROLES, |role| {
        may(role, "any.example", "anything", "do")
    }),
    rule("StarAllCoreAPIClusterRole", -16, ROLES, |role| {
        may_all(role, "", "anything")
    }),
    rule("StarClusterRoleAndBindings", -12, ROLES, |role| {
        may_all(role, RBAC, "clusterroles") && may_all(role, RBAC, "clusterrolebindings")
    }),
    rule("SecretsClusterRole", -12, ROLES, |role| {
        may_any(role, "", "secrets", &READ) || may_any(role, "", "secrets", &WRITE)
    }),
    rule("ExecPodsClusterRole", -9, ROLES, |role| {
        may(role, "", "pods/exec", "create")
    }),
    rule("EscalateClusterRole", -16, ROLES, |role| {
        may(role, RBAC, "clusterroles", "escalate")
    }),
    rule("BindClusterRole", -16, ROLES, |role| {
        may(role, RBAC, "clusterroles", "bind")
    }),
    rule("ImpersonateClusterRole", -20, ROLES, |role| {
        let whom = ["serviceaccounts", "users", "groups"];
        whom.iter().any(|whom| may(role, "", whom, "impersonate"))
    }),
    rule("ModifyPodLogsClusterRole", -2, ROLES, |role| {
        may_change(role, "", "pods/log")
    }),
    rule("RemoveEventsClusterRole", -2, ROLES, |role| {
        may_any(role, "", "events", &DELETE)
    }),
    rule("CustomResourceClusterRole", -8, ROLES, |role| {
        may_change(role, "apiextensions.k8s.io", "customresourcedefinitions")
    }),
    rule("AdmissionControllerClusterRole", -12, ROLES, |role| {
        let kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
        kinds
            .iter()
            .any(|kind| may_change(role, "admissionregistration.k8s.io", kind))
    }),
    rule("ServiceAccountClusterRole", -12, ROLES, |role| {
        may(role, "", "serviceaccounts/token", "create")
    }),
    rule("PersistentVolumeClusterRole", -9, ROLES, |role| {
        let kinds = ["persistentvolumes", "persistentvolumeclaims"];
        kinds
            .iter()
            .any(|kind| may_any(role, "", kind, &READ) || may_change(role, "", kind))
    }),
    rule("NetworkPolicyClusterRole", -9, ROLES, |role| {
        may_change(role, "networking.k8s.io", "networkpolicies")
    }),
    rule("NodeProxyClusterRole", -16, ROLES, |role| {
        may(role, "", "nodes/proxy", "get") || may(role, "", "nodes/proxy", "create")
    }),
];

fn is_in(object: &Value, namespace: &str) -> bool {
    let metadata = &object["metadata"];
    let subjects = object["subjects"].as_array().into_iter().flatten();
    let of_subjects = subjects.map(|subject| &subject["namespace"]);
    let itself = (object["kind"] == "Namespace").then_some(&metadata["name"]);
    of_subjects
        .chain(itself)
        .chain([&metadata["namespace"]])
        .any(|name| name == namespace)
}

/// Returns the pod of a workload.
fn pod(object: &Value) -> &Value {
    if object["kind"] == "Pod" {
        &object["spec"]
    } else {
        &object["spec"]["template"]["spec"]
    }
}

fn containers(object: &Value) -> impl Iterator<Item = &Value> {
    let pod = pod(object);
    let kinds = ["containers", "initContainers"];
    kinds
        .into_iter()
        .flat_map(|kind| pod[kind].as_array().into_iter().flatten())
}

/// Returns the setting of each container, or else of its pod.
fn settings<'a>(object: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    containers(object).map(move |container| match &container["securityContext"][name] {
        Value::Null => &pod(object)["securityContext"][name],
        own => own,
    })
}

fn list(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether a role grants a verb on some object of a resource.
fn may(role: &Value, group: &str, resource: &str, verb: &str) -> bool {
    let names = |value: &Value, wanted: &str| list(value).iter().any(|name| *name == wanted || *name == "*");
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.into_iter().any(|rule| {
        names(&rule["apiGroups"], group) && names(&rule["resources"], resource) && names(&rule["verbs"], verb)
    })
}

fn may_any(role: &Value, group: &str, resource: &str, verbs: &[&str]) -> bool {
    verbs.iter().any(|verb| may(role, group, resource, verb))
}

fn may_all(role: &Value, group: &str, resource: &str) -> bool {
    let all = [&READ[..], &WRITE, &DELETE].concat();
    all.iter().all(|verb| may(role, group, resource, verb))
}

fn may_change(role: &Value, group: &str, resource: &str) -> bool {
    may_any(role, group, resource, &WRITE) || may_any(role, group, resource, &DELETE)
}
