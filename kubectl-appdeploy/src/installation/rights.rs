//! Rights of the user and of the operator.

use std::collections::BTreeSet;
use std::fmt;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, ResourceExt as _};
use model::{NextCommand, command};
use serde_json::Value;

use crate::cluster::connection::Cluster;
use crate::error::Result;
use crate::installation::manifests::Kind;

/// Maximum number of concurrent access reviews.
const AT_ONCE: usize = 16;

/// A right: a verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    /// The only object; all of them if it is empty.
    name: String,
    /// The only namespace; all of them, or none, if it is empty.
    namespace: String,
}

impl fmt::Display for Right {
    /// Formats the right as an argument of `kubectl auth can-i`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{} {}{dot}{}", self.verb, self.resource, self.group)?;
        if !self.name.is_empty() {
            write!(f, "/{}", self.name)?;
        }
        if !self.subresource.is_empty() {
            write!(f, " --subresource={}", self.subresource)?;
        }
        if !self.namespace.is_empty() {
            write!(f, " -n {}", self.namespace)?;
        }
        Ok(())
    }
}

impl Right {
    /// Returns the command that checks the right.
    pub fn can_i(&self) -> NextCommand {
        let words = self.to_string();
        words
            .split(' ')
            .fold("kubectl auth can-i".into(), |command: NextCommand, word| {
                match word.split_once('=') {
                    Some(("--subresource", value)) => command.and(command!("--subresource={}", value)),
                    _ if word == "-n" => command.and("-n"),
                    _ => command.and(command!("{}", word)),
                }
            })
    }

    /// Returns the right to do something to all objects of a kind in a namespace.
    pub fn within(namespace: &str, verb: &str, group: &str, resource: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            name: String::new(),
            namespace: namespace.to_owned(),
        }
    }
}

/// Returns the rights to write these objects.
pub fn to_install(objects: &[DynamicObject]) -> BTreeSet<Right> {
    let of = |object: &DynamicObject| {
        let kind = Kind::of(object);
        let namespace = object.namespace().unwrap_or_default();
        // Applying creates missing objects, and pruning lists the objects of earlier installations.
        ["get", "list", "create", "patch"].map(|verb| Right {
            verb: verb.to_owned(),
            group: kind.resource.group.clone(),
            resource: kind.resource.plural.clone(),
            subresource: String::new(),
            name: String::new(),
            namespace: namespace.clone(),
        })
    };
    objects.iter().flat_map(of).collect()
}

/// Returns the rules of a role.
pub fn rules(role: &Value) -> Vec<PolicyRule> {
    serde_json::from_value(role["rules"].clone()).unwrap_or_default()
}

/// Returns the rights of some rules, one by one.
pub fn of_rules(rules: &[PolicyRule], namespace: &str) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                for verb in &rule.verbs {
                    let of = |name: &str| Right {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.to_owned(),
                        subresource: subresource.to_owned(),
                        name: name.to_owned(),
                        namespace: namespace.to_owned(),
                    };
                    match rule.resource_names.as_deref() {
                        None | Some([]) => {
                            rights.insert(of(""));
                        }
                        Some(names) => rights.extend(names.iter().map(|name| of(name))),
                    }
                }
            }
        }
    }
    rights
}

/// Whether rights include another one, including wildcards.
pub fn contain(rights: &BTreeSet<Right>, wanted: &Right) -> bool {
    let is = |has: &str, wanted: &str| has == "*" || has == wanted;
    rights.iter().any(|has| {
        is(&has.verb, &wanted.verb)
            && is(&has.group, &wanted.group)
            && is(&has.resource, &wanted.resource)
            && (has.resource == "*" || is(&has.subresource, &wanted.subresource))
            && (has.name.is_empty() || has.name == wanted.name)
    })
}

/// Returns the rights that the user does not have.
pub async fn refused(cluster: &Cluster, rights: BTreeSet<Right>) -> Result<Vec<Right>> {
    let answers = rights.into_iter().map(|right| async move {
        let may = may(cluster, &right).await;
        (right, may)
    });
    let mut answers = stream::iter(answers).buffered(AT_ONCE);
    let mut refused = Vec::new();
    while let Some((right, may)) = answers.next().await {
        if !may? {
            refused.push(right);
        }
    }
    Ok(refused)
}

async fn may(cluster: &Cluster, right: &Right) -> Result<bool> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: given(&right.verb),
                group: given(&right.group),
                resource: given(&right.resource),
                subresource: given(&right.subresource),
                name: given(&right.name),
                namespace: given(&right.namespace),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    let params = PostParams::default();
    let answer = cluster.call(api.create(&params, &review)).await?;
    Ok(matches!(
        answer.status,
        Some(SubjectAccessReviewStatus { allowed: true, .. })
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::manifests::{Options, objects};
    use serde_json::json;

    fn of(rules: &Value) -> BTreeSet<Right> {
        of_rules(&serde_json::from_value::<Vec<PolicyRule>>(rules.clone()).unwrap(), "")
    }

    #[test]
    fn each_kind_needs_four_rights() {
        let rights = to_install(&objects(&Options::default()).unwrap());
        let verbs = rights.iter().filter(|right| right.resource == "clusterroles");
        let verbs: Vec<_> = verbs.map(ToString::to_string).collect();
        insta::assert_snapshot!(verbs.join("\n"), @r"
        create clusterroles.rbac.authorization.k8s.io
        get clusterroles.rbac.authorization.k8s.io
        list clusterroles.rbac.authorization.k8s.io
        patch clusterroles.rbac.authorization.k8s.io
        ");
        assert!(
            rights
                .iter()
                .any(|right| right.to_string() == "patch deployments.apps -n appdeploy-system")
        );
        // Four verbs of each of the kinds.
        assert_eq!(rights.len() % 4, 0);
    }

    #[test]
    fn rights_are_written_as_kubectl_takes_them() {
        let rights = of(
            &json!([{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a", "b"], "verbs": ["patch"]}]),
        );
        let rights: Vec<_> = rights.iter().map(ToString::to_string).collect();
        assert_eq!(
            rights,
            [
                "get pods",
                "get pods --subresource=log",
                "patch deployments.apps/a",
                "patch deployments.apps/b"
            ]
        );
    }

    #[test]
    fn wildcard_contains_its_rights_and_a_name_does_not_contain_all() {
        let wanted = of(&json!([{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]}]));
        let contains = |rules: Value| wanted.iter().all(|wanted| contain(&of(&rules), wanted));
        assert!(contains(
            json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
        ));
        assert!(contains(
            json!([{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]}])
        ));
        for less in [
            json!([]),
            json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}]),
            json!([{"apiGroups": ["apps"], "resources": ["deployments/scale"], "resourceNames": ["x"], "verbs": ["patch"]}]),
        ] {
            assert!(!contains(less.clone()), "{less}");
        }
    }
}
