//! An operator that lacks one of its rights, as a user of its own: the others of the cluster keep theirs.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::{Cluster, Namespace, Operator, config, eventually};
use crate::rights::queues;

/// One verb on one resource of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
}

impl fmt::Display for Right {
    /// Writes it as the API server does when it denies it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource } = self;
        write!(f, "cannot {verb} resource \"{resource}\" in API group \"{group}\"")
    }
}

impl Right {
    /// Returns it as a label, which is also a namespace's name.
    pub fn slug(self) -> String {
        let resource = self.resource.replace('/', "-");
        format!("{}-{resource}", self.verb)
    }
}

/// An operator without one right, and a namespace that it manages.
pub struct Lacking {
    // Dropped in this order: the operator while the proxy runs.
    pub operator: Operator,
    pub space: Namespace,
    right: Right,
    user: String,
}

impl Lacking {
    /// Starts an operator for a namespace of its own.
    pub fn start(cluster: &Arc<Cluster>, right: Right) -> Self {
        let space = cluster.namespace(&right.slug());
        let mut flags = vec!["--watch-namespace".to_owned(), space.name.clone()];
        flags.extend(queues::flags());
        flags.push("--allow-unchecked-fields".to_owned());
        Self::start_with(space, right, &flags)
    }

    /// Starts an operator for the whole cluster.
    pub fn start_for_all(cluster: &Arc<Cluster>, right: Right) -> Self {
        Self::start_with(cluster.namespace(&right.slug()), right, &[])
    }

    /// Starts an operator that must be elected, in its own namespace.
    pub fn start_for_election(space: Namespace, right: Right) -> Self {
        let flags = [
            "--watch-namespace".to_owned(),
            space.name.clone(),
            "--leader-elect".to_owned(),
            "--namespace".to_owned(),
            space.name.clone(),
        ];
        Self::start_with(space, right, &flags)
    }

    fn start_with(space: Namespace, right: Right, flags: &[String]) -> Self {
        let user = format!("operator-without-{}", right.slug());
        let control_plane = &space.cluster.control_plane;
        let binding = json!({"apiVersion": API, "kind": "ClusterRoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
        control_plane.apply(&binding.to_string()).unwrap();
        grant(&space.cluster, &user, &without(&granted(&space.cluster), right));
        let other = if right.resource == "services" {
            "pods"
        } else {
            "services"
        };
        // A right needs a moment until it counts.
        eventually("the operator has the other rights", || {
            let asked = ["auth", "can-i", "list", other, "-A", "--as", &user];
            control_plane.kubectl(&asked).is_ok()
        });
        let kubeconfig = control_plane.kubeconfig_for(&user, &[]).unwrap();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Self {
            operator: Operator::spawn(control_plane.folder(), &kubeconfig, &flags),
            space,
            right,
            user,
        }
    }

    /// Gives the operator all of its rights.
    pub fn grant_all(&self) {
        grant(&self.space.cluster, &self.user, &granted(&self.space.cluster));
    }

    /// Waits until the log says what is missing.
    pub fn until_logged(&self) {
        let words = self.right.to_string();
        eventually(&format!("the log says {words}"), || {
            assert!(self.operator.is_running(), "{}", self.operator.log());
            // A field of a line may be quoted.
            self.operator.log().replace('\\', "").contains(&words)
        });
    }
}

const API: &str = "rbac.authorization.k8s.io/v1";

fn grant(cluster: &Cluster, user: &str, rules: &[Value]) {
    let role = json!({"apiVersion": API, "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
    cluster.control_plane.apply(&role.to_string()).unwrap();
}

/// Returns what rules grant, right by right.
pub fn rights(rules: &[Value]) -> Vec<(String, String, String)> {
    let all = |rule: &Value, field: &str| -> Vec<String> { serde_json::from_value(rule[field].clone()).unwrap() };
    let mut rights = Vec::new();
    for rule in rules {
        for group in all(rule, "apiGroups") {
            for resource in all(rule, "resources") {
                rights.extend(
                    all(rule, "verbs")
                        .into_iter()
                        .map(|verb| (verb, group.clone(), resource.clone())),
                );
            }
        }
    }
    rights
}

/// Returns the rules of the operator's roles: of that for the whole cluster, and of that for the election.
pub fn granted(cluster: &Cluster) -> Vec<Value> {
    let control_plane = &cluster.control_plane;
    let roles = ["operator_role", "leader_election_role"].map(|file| config(&format!("rbac/{file}.yaml")));
    let admin = control_plane.kubectl_as(&control_plane.kubeconfig());
    let granted = roles.map(|role| {
        let role: Value = serde_json::from_str(&admin.read(&role).unwrap()).unwrap();
        role["rules"].as_array().unwrap().clone()
    });
    granted.concat()
}

/// Returns the rules without one right.
pub fn without(rules: &[Value], missing: Right) -> Vec<Value> {
    let all = rights(rules);
    let is_kept = |(verb, group, resource): &&(String, String, String)| {
        (verb.as_str(), group.as_str(), resource.as_str()) != (missing.verb, missing.group, missing.resource)
    };
    let kept: Vec<Value> = all
        .iter()
        .filter(is_kept)
        .map(|(verb, group, resource)| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]}))
        .collect();
    assert_eq!(kept.len() + 1, all.len(), "{missing} is not granted, or twice");
    kept
}
