//! Checks whether AppDeploy can be installed.

use kube::ResourceExt as _;
use model::{NextCommand, command};

use super::facts::{Before, Facts, Part};
use super::finding::Finding;
use crate::error::Error;
use crate::installation::check::code::Code;
use crate::installation::manifests::{self, Kind};
use crate::installation::operator::Operator;
use crate::output::formats::some;

/// Returns the findings.
pub fn findings(facts: &Facts, before: &Before) -> Vec<Finding> {
    let rejected = |code: Code| {
        let mut of_code = before.refused.clone();
        of_code.retain(|(_, error)| check_of(error) == code);
        of_code
    };
    let missing = rejected(Code::MayInstall);
    let mut findings = vec![lacks(
        Code::MayInstall,
        &missing,
        "you may write all objects of an installation",
        "you may not write all objects of an installation",
    )];
    // The API server checks this only for users who may write roles.
    if missing.is_empty() {
        findings.push(lacks(
            Code::MayGrant,
            &rejected(Code::MayGrant),
            "you may grant the operator its rights",
            "you may not grant the operator rights that you do not have",
        ));
    }
    findings.push(free(facts));
    findings.push(accepted(&rejected(Code::Accepted)));
    findings
}

/// Returns the check that fails because of a rejected object.
fn check_of(error: &Error) -> Code {
    if error.sentence().contains("attempting to grant RBAC permissions") {
        Code::MayGrant
    } else if error.is_forbidden() && error.sentence().contains(" cannot ") {
        Code::MayInstall
    } else {
        Code::Accepted
    }
}

fn lacks(code: Code, rejected: &[(String, Error)], well: &str, ill: &str) -> Finding {
    let Some((_, first)) = rejected.first() else {
        return Finding::ok(code, well);
    };
    let titles: Vec<String> = rejected.iter().map(|(title, _)| title.clone()).collect();
    let finding = Finding::error(code, ill).why(format!("not allowed: {}", some(&titles)));
    let finding = first.nexts().iter().cloned().fold(finding, Finding::next);
    finding.next("let an administrator of the cluster install it")
}

/// Whether the names are free, or taken by third-party objects or objects that are being deleted.
fn free(facts: &Facts) -> Finding {
    if let Some(error) = facts.parts.iter().find_map(|part| part.found.as_ref().err()) {
        return Finding::unseen(Code::Free, "the existing objects", error);
    }
    let there = || {
        facts
            .parts
            .iter()
            .filter_map(|part| part.there().map(|found| (part, found)))
    };
    if let Some((part, _)) = there().find(|(_, found)| !manifests::is_ours(found)) {
        let title = part.title();
        return Finding::error(
            Code::Free,
            format!("{title} exists and is not part of AppDeploy: install does not change it, and fails"),
        )
        .next(show(part));
    }
    if let Some((part, found)) = there().find(|(_, found)| found.metadata.deletion_timestamp.is_some()) {
        let finding = Finding::error(
            Code::Free,
            format!("{} is being deleted: install waits for the deletion", part.title()),
        );
        let held = manifests::held_by(found);
        return held.into_iter().fold(finding, Finding::why).next(show(part));
    }
    if let Operator::Installed(..) = facts.operator {
        return Finding::info(Code::Free, "AppDeploy is installed: install updates it").next("kubectl appdeploy check");
    }
    let left: Vec<String> = there()
        .filter(|(part, _)| part.kind != Kind::namespace())
        .map(|(part, _)| part.title())
        .collect();
    if left.is_empty() {
        return Finding::ok(Code::Free, "the names are not taken");
    }
    Finding::info(
        Code::Free,
        "objects of an earlier installation exist, which install takes over",
    )
    .why(some(&left))
}

fn show(part: &Part) -> NextCommand {
    let scope = part.wanted.namespace().map(|namespace| command!("-n {}", namespace));
    command!("kubectl get {}", part.kind.title(&part.wanted.name_any()))
        .and(scope.unwrap_or_default())
        .and("-o yaml")
}

/// Whether the API server admits the manifests.
fn accepted(rejected: &[(String, Error)]) -> Finding {
    let Some((_, first)) = rejected.first() else {
        return Finding::ok(Code::Accepted, "the API server admits the manifests");
    };
    let is_conflict = first.sentence().starts_with("Error from server (Conflict)");
    let finding = Finding::error(
        Code::Accepted,
        if is_conflict {
            "other managers own fields that install would write"
        } else {
            "the API server rejects the manifests"
        },
    );
    let finding = rejected.iter().fold(finding, |finding, (title, error)| {
        let reasons = if error.whys().is_empty() {
            error.sentence().to_owned()
        } else {
            error.reasons()
        };
        finding.why(format!("{title}: {reasons}"))
    });
    if is_conflict {
        finding.next("kubectl appdeploy install --force-conflicts  (takes these fields over)")
    } else if first.nexts().is_empty() {
        finding.next("kubectl appdeploy install --dry-run=server  (repeats the dry run)")
    } else {
        first.nexts().iter().cloned().fold(finding, Finding::next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::check::sample::{self, short};
    use serde_json::json;

    #[test]
    fn empty_cluster_passes_the_checks() {
        let facts = sample::empty();
        insta::assert_snapshot!(short(&findings(&facts, facts.before.as_ref().unwrap())), @r"
        ok AD0201: you may write all objects of an installation
        ok AD0202: you may grant the operator its rights
        ok AD0203: the names are not taken
        ok AD0204: the API server admits the manifests
        ");
    }

    #[test]
    fn missing_rights_are_reported_by_object() {
        let facts = sample::empty();
        let rejected = |texts: &[(&str, &str)]| Before {
            refused: texts
                .iter()
                .map(|(title, text)| {
                    let error = Error::failed(format!("Error from server (Forbidden): {text}"));
                    ((*title).to_owned(), error.next("kubectl auth can-i patch namespaces"))
                })
                .collect(),
        };
        let may_not = (
            "namespace/appdeploy-system",
            "namespaces is forbidden: User \"jane\" cannot patch resource \"namespaces\"",
        );
        let grants = (
            "clusterrole.rbac.authorization.k8s.io/appdeploy-operator",
            "user \"jane\" is attempting to grant RBAC permissions not currently held",
        );
        let codes = findings(&facts, &rejected(&[may_not, grants]));
        assert!(codes.iter().all(|finding| finding.code != Code::MayGrant));
        let lines = [&codes[..1], &findings(&facts, &rejected(&[grants]))[..2]].concat();
        insta::assert_snapshot!(short(&lines), @r"
        error AD0201: you may not write all objects of an installation (not allowed: namespace/appdeploy-system); next: kubectl auth can-i patch namespaces
        ok AD0201: you may write all objects of an installation
        error AD0202: you may not grant the operator rights that you do not have (not allowed: clusterrole.rbac.authorization.k8s.io/appdeploy-operator); next: kubectl auth can-i patch namespaces
        ");
    }

    #[test]
    fn existing_objects_are_reported_with_what_blocks_them() {
        let mut facts = sample::well();
        insta::assert_snapshot!(short(&[free(&facts)]), @"info AD0203: AppDeploy is installed: install updates it; next: kubectl appdeploy check");
        facts.operator = Operator::Absent;
        for part in facts.parts.iter_mut().filter(|part| part.kind != Kind::crd()) {
            part.found = Ok(None);
        }
        insta::assert_snapshot!(short(&[free(&facts)]), @"info AD0203: objects of an earlier installation exist, which install takes over (customresourcedefinition.apiextensions.k8s.io/appdeploys.appdeploy.dev, customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev, customresourcedefinition.apiextensions.k8s.io/appqueues.appdeploy.dev)");
        let mut namespace = facts.parts[0].wanted.clone();
        namespace.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        namespace.data["spec"] = json!({"finalizers": ["kubernetes"]});
        namespace.data["status"] = json!({"conditions": [
            {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content in the namespace has finalizers remaining: example.com/guard in 1 resource instances"}]});
        facts.parts[0].found = Ok(Some(namespace));
        insta::assert_snapshot!(short(&[free(&facts)]), @"error AD0203: namespace/appdeploy-system is being deleted: install waits for the deletion (Some content in the namespace has finalizers remaining: example.com/guard in 1 resource instances); next: kubectl get namespace/appdeploy-system -o yaml");
        let mut foreign = facts.parts[0].wanted.clone();
        foreign.metadata.labels = None;
        facts.parts[0].found = Ok(Some(foreign));
        insta::assert_snapshot!(short(&[free(&facts)]), @"error AD0203: namespace/appdeploy-system exists and is not part of AppDeploy: install does not change it, and fails; next: kubectl get namespace/appdeploy-system -o yaml");
        facts.parts[1].found = Err(Error::failed("Error from server (Forbidden): no"));
        insta::assert_snapshot!(short(&[free(&facts), accepted(&[])]), @r"
        warning AD0203: the existing objects: n/a (forbidden)
        ok AD0204: the API server admits the manifests
        ");
    }

    #[test]
    fn rejections_of_the_api_server_are_quoted() {
        let refused = |error: Error| Before {
            refused: vec![("deployment.apps/appdeploy-operator".to_owned(), error)],
        };
        let conflict = Error::failed("Error from server (Conflict): apply failed with 1 conflict")
            .why(".spec.replicas: conflict with \"kubectl\"");
        let policy = Error::failed("admission webhook policy.example.com rejected it: nothing was changed")
            .why("images come from registry.example.com alone");
        let facts = sample::empty();
        insta::assert_snapshot!(short(&findings(&facts, &refused(conflict))), @r#"
        ok AD0201: you may write all objects of an installation
        ok AD0202: you may grant the operator its rights
        ok AD0203: the names are not taken
        error AD0204: other managers own fields that install would write (deployment.apps/appdeploy-operator: .spec.replicas: conflict with "kubectl"); next: kubectl appdeploy install --force-conflicts  (takes these fields over)
        "#);
        insta::assert_snapshot!(short(&[accepted(&refused(policy).refused)]), @"error AD0204: the API server rejects the manifests (deployment.apps/appdeploy-operator: images come from registry.example.com alone); next: kubectl appdeploy install --dry-run=server  (repeats the dry run)");
    }
}
