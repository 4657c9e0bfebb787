//! Compares the operator's roles with the rights that it uses.
//!
//! Each cluster of the operator's tests writes a file with the operator's requests. All files are compared with the rules
//! of `config/rbac`: every right was used, and no request was denied for the lack of a rule.

mod roles;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use roles::granted_by;

/// The mark for an empty column.
const NOTHING: &str = "-";

/// A right: a verb of one rule, on one resource of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    group: String,
    resource: String,
    verb: String,
    /// The object name, of a rule with names.
    name: Option<String>,
    /// The namespace, of a Role.
    namespace: Option<String>,
}

/// The results of one kind of request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    denied: bool,
    group: String,
    resource: String,
    verb: String,
    /// `cluster`, `namespaced`, or the operator's own namespace.
    scope: String,
    name: String,
}

/// Both sides of the comparison.
#[derive(Debug, Default)]
pub struct Rights {
    /// The rights in the roles.
    pub granted: BTreeSet<Right>,
    /// The requests of the operator.
    pub asked: BTreeSet<Asked>,
}

impl Rights {
    /// Reads the operator's roles in one folder, and the recorded requests in another.
    ///
    /// # Errors
    /// When a file can't be read, or there is nothing to compare.
    pub fn read(roles: &Path, asked: &Path) -> Result<Self> {
        let mut rights = Self::default();
        for text in texts(roles, "yaml")? {
            rights.granted.extend(granted_by(&text)?);
        }
        for text in texts(asked, "rights")? {
            for line in text.lines() {
                rights.asked.insert(asked_by(line)?);
            }
        }
        ensure!(
            !rights.granted.is_empty(),
            "no role of the operator is in {}",
            roles.display()
        );
        ensure!(
            !rights.asked.is_empty(),
            "no request of the operator is in {}",
            asked.display()
        );
        Ok(rights)
    }

    /// Returns a sentence for each right that is not used, and for each denied request that no rule allows. An API server that
    /// has just come up denies for a moment what its rules allow, and a watch that is denied is followed by a list.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let is_unused = |right: &&Right| !self.asked.iter().any(|asked| !asked.denied && asked.uses(right));
        let unused = self.granted.iter().filter(is_unused);
        let unused = unused.map(|right| format!("granted, and never used: {}", right.text()));
        let is_granted = |asked: &Asked| self.granted.iter().any(|right| asked.uses(right));
        let denied = self.asked.iter().filter(|asked| asked.denied && !is_granted(asked));
        unused
            .chain(denied.map(|asked| format!("asked for, and denied:   {}", asked.text())))
            .collect()
    }
}

/// Returns the contents of a folder's files with this extension.
fn texts(folder: &Path, end: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut texts = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|is| is == end) {
            texts.push(fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?);
        }
    }
    Ok(texts)
}

/// Parses a line such as `used apps deployments create namespaced -`.
fn asked_by(line: &str) -> Result<Asked> {
    let columns: Vec<&str> = line.split(' ').collect();
    let [became, group, resource, verb, scope, name] = columns[..] else {
        anyhow::bail!("a line has six columns, not {}: {line}", columns.len());
    };
    let or_empty = |column: &str| if column == NOTHING { "" } else { column }.to_owned();
    Ok(Asked {
        denied: became == "denied",
        group: or_empty(group),
        resource: or_empty(resource),
        verb: verb.to_owned(),
        scope: scope.to_owned(),
        name: or_empty(name),
    })
}

impl Asked {
    fn uses(&self, right: &Right) -> bool {
        (&self.group, &self.resource, &self.verb) == (&right.group, &right.resource, &right.verb)
            && right.name.as_ref().is_none_or(|name| *name == self.name)
            && right
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == self.scope)
    }

    fn text(&self) -> String {
        let place = match self.scope.as_str() {
            "cluster" => "in the whole cluster".to_owned(),
            "namespaced" => "in a namespace".to_owned(),
            own => format!("in {own}"),
        };
        format!("{} {place}", what(&self.verb, &self.group, &self.resource, &self.name))
    }
}

impl Right {
    fn text(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        let place = self
            .namespace
            .as_ref()
            .map(|namespace| format!(" in {namespace}"))
            .unwrap_or_default();
        format!("{}{place}", what(&self.verb, &self.group, &self.resource, name))
    }
}

/// Returns a right in the syntax of `kubectl auth can-i`.
fn what(verb: &str, group: &str, resource: &str, name: &str) -> String {
    let (kind, subresource) = resource
        .split_once('/')
        .map_or((resource, ""), |(kind, sub)| (kind, sub));
    let dot = if group.is_empty() { "" } else { "." };
    let part = |text: &str| {
        if text.is_empty() {
            String::new()
        } else {
            format!("/{text}")
        }
    };
    format!("{verb} {kind}{dot}{group}{}{}", part(subresource), part(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: &str = r#"
kind: ClusterRole
metadata: {name: appdeploy-operator, labels: {app.kubernetes.io/name: appdeploy-operator}}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, create]}
- {apiGroups: [appdeploy.dev], resources: [podsets/status], verbs: [patch]}
---
kind: Role
metadata: {name: appdeploy-operator, namespace: own, labels: {app.kubernetes.io/name: appdeploy-operator}}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [turn], verbs: [update]}
---
kind: ClusterRole
metadata: {name: for-people, labels: {}}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
"#;
    const ALL: [&str; 4] = [
        "used - pods list cluster -",
        "used - pods create namespaced -",
        "used appdeploy.dev podsets/status patch namespaced -",
        "used coordination.k8s.io leases update own turn",
    ];

    fn faults(lines: &[&str]) -> Vec<String> {
        let asked = lines.iter().map(|line| asked_by(line).unwrap()).collect();
        let granted = granted_by(ROLES).unwrap();
        Rights { granted, asked }.faults()
    }

    #[test]
    fn used_rights_without_denied_requests_are_accepted() {
        assert_eq!(faults(&ALL), Vec::<String>::new());
    }

    #[test]
    fn unused_rights_are_reported() {
        let words = [
            "list pods",
            "create pods",
            "patch podsets.appdeploy.dev/status",
            "update leases.coordination.k8s.io/turn in own",
        ];
        for (missing, words) in words.into_iter().enumerate() {
            let mut lines = ALL.to_vec();
            lines.remove(missing);
            assert_eq!(faults(&lines), [format!("granted, and never used: {words}")]);
        }
    }

    #[test]
    fn right_for_another_name_or_namespace_is_not_used() {
        for other in ["own other", "namespaced -"] {
            let line = format!("used coordination.k8s.io leases update {other}");
            assert_eq!(faults(&[ALL[0], ALL[1], ALL[2], &line]).len(), 1, "{line}");
        }
    }

    #[test]
    fn denied_request_is_reported_and_does_not_use_a_right() {
        let mut lines = ALL.to_vec();
        lines[1] = "denied - secrets create namespaced -";
        assert_eq!(
            faults(&lines),
            [
                "granted, and never used: create pods",
                "asked for, and denied:   create secrets in a namespace"
            ]
        );
    }

    #[test]
    fn denial_of_what_a_rule_allows_is_not_reported_and_does_not_use_the_right() {
        let mut lines = ALL.to_vec();
        lines.push("denied - pods list cluster -");
        assert_eq!(faults(&lines), Vec::<String>::new());
        lines.remove(0);
        assert_eq!(faults(&lines), ["granted, and never used: list pods"]);
    }
}
