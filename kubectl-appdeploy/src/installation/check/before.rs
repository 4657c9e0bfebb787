//! Whether AppDeploy can be installed.

use kube::ResourceExt as _;
use model::{NextCommand, command};

use super::facts::{Before, Facts, Part};
use super::finding::Finding;
use crate::installation::check::code::Code;
use crate::installation::manifests::{self, Kind};
use crate::installation::operator::Operator;
use crate::installation::rights::Right;
use crate::output::formats::some;

/// Judges it.
pub fn findings(facts: &Facts, before: &Before) -> Vec<Finding> {
    let mut findings = match &before.lacking {
        Ok(lacking) => {
            let install = lacks(
                Code::MayInstall,
                &lacking.to_install,
                "you may write all that an installation consists of",
                "you may not write all that an installation consists of",
            );
            let grant = lacks(
                Code::MayGrant,
                &lacking.to_grant,
                "you may grant the operator what it needs",
                "you may not grant the operator what you may not do yourself",
            );
            // It is not read if the user may not install.
            let is_known = lacking.to_install.is_empty();
            [install].into_iter().chain(is_known.then_some(grant)).collect()
        }
        Err(error) => vec![Finding::unseen(Code::MayInstall, "your rights", error)],
    };
    findings.push(free(facts));
    findings.push(accepted(before));
    findings
}

fn lacks(code: Code, lacking: &[Right], well: &str, ill: &str) -> Finding {
    let Some(first) = lacking.first() else {
        return Finding::ok(code, well);
    };
    let titles: Vec<String> = lacking.iter().map(ToString::to_string).collect();
    Finding::error(code, ill)
        .why(format!("not allowed: {}", some(&titles)))
        .next(first.can_i().remark("let an administrator of the cluster install it"))
}

/// Whether the names are not taken by others, and nothing is on its way out.
fn free(facts: &Facts) -> Finding {
    if let Some(error) = facts.parts.iter().find_map(|part| part.found.as_ref().err()) {
        return Finding::unseen(Code::Free, "what is there already", error);
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
            format!("{title} exists and is not part of AppDeploy: install leaves it alone, and ends"),
        )
        .next(show(part));
    }
    if let Some((part, found)) = there().find(|(_, found)| found.metadata.deletion_timestamp.is_some()) {
        let finding = Finding::error(
            Code::Free,
            format!("{} is being deleted: install waits until that is done", part.title()),
        );
        let held = manifests::held_by(found);
        return held.into_iter().fold(finding, Finding::why).next(show(part));
    }
    if let Operator::Installed(..) = facts.operator {
        return Finding::info(Code::Free, "AppDeploy is installed: install brings it up to date")
            .next("kubectl appdeploy check");
    }
    let left: Vec<String> = there()
        .filter(|(part, _)| part.kind != Kind::namespace())
        .map(|(part, _)| part.title())
        .collect();
    if left.is_empty() {
        return Finding::ok(Code::Free, "nothing of that name is there yet");
    }
    Finding::info(
        Code::Free,
        "an earlier installation has left something, which install takes over",
    )
    .why(some(&left))
}

fn show(part: &Part) -> NextCommand {
    let scope = part.wanted.namespace().map(|namespace| command!("-n {}", namespace));
    command!("kubectl get {}", part.kind.title(&part.wanted.name_any()))
        .and(scope.unwrap_or_default())
        .and("-o yaml")
}

/// Whether the API server takes what would be written.
fn accepted(before: &Before) -> Finding {
    let Some((_, first)) = before.refused.first() else {
        return Finding::ok(Code::Accepted, "the API server would take what install writes");
    };
    let is_conflict = first.sentence().starts_with("Error from server (Conflict)");
    let finding = Finding::error(
        Code::Accepted,
        if is_conflict {
            "somebody else has set fields that install would write"
        } else {
            "the API server would refuse what install writes"
        },
    );
    let finding = before.refused.iter().fold(finding, |finding, (title, error)| {
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
        finding.next("kubectl appdeploy install --dry-run=server  (asks the same again)")
    } else {
        first.nexts().iter().cloned().fold(finding, Finding::next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::installation::check::sample::{self, short};
    use crate::installation::rights;
    use serde_json::json;

    #[test]
    fn an_empty_cluster_is_ready() {
        let facts = sample::empty();
        insta::assert_snapshot!(short(&findings(&facts, facts.before.as_ref().unwrap())), @r"
        ok AD0201: you may write all that an installation consists of
        ok AD0202: you may grant the operator what it needs
        ok AD0203: nothing of that name is there yet
        ok AD0204: the API server would take what install writes
        ");
    }

    #[test]
    fn whoever_may_not_install_is_told_what_is_missing() {
        let facts = sample::empty();
        let wanted: Vec<_> = facts.parts.iter().map(|part| part.wanted.clone()).collect();
        let lacking = |to_install: bool| Before {
            lacking: Ok(rights::MissingRights {
                to_install: rights::to_install(&wanted).into_iter().filter(|_| to_install).collect(),
                to_grant: rights::granted_by(&wanted).into_iter().take(2).collect(),
            }),
            refused: Vec::new(),
        };
        let codes = findings(&facts, &lacking(true));
        assert!(codes.iter().all(|finding| finding.code != Code::MayGrant));
        let lines = [&codes[..1], &findings(&facts, &lacking(false))[..2]].concat();
        insta::assert_snapshot!(short(&lines), @r"
        error AD0201: you may not write all that an installation consists of (not allowed: create namespaces, create serviceaccounts -n appdeploy-system, create services -n appdeploy-system, create mutatingwebhookconfigurations.admissionregistration.k8s.io, create validatingadmissionpolicies.admissionregistration.k8s.io and 55 more); next: kubectl auth can-i create namespaces  (let an administrator of the cluster install it)
        ok AD0201: you may write all that an installation consists of
        error AD0202: you may not grant the operator what you may not do yourself (not allowed: create events, create pods); next: kubectl auth can-i create events  (let an administrator of the cluster install it)
        ");
    }

    #[test]
    fn what_is_in_the_way_is_named_with_what_holds_it() {
        let mut facts = sample::well();
        let before = Before {
            lacking: Ok(rights::MissingRights::default()),
            refused: Vec::new(),
        };
        insta::assert_snapshot!(short(&[free(&facts)]), @"info AD0203: AppDeploy is installed: install brings it up to date; next: kubectl appdeploy check");
        facts.operator = Operator::Absent;
        for part in facts.parts.iter_mut().filter(|part| part.kind != Kind::crd()) {
            part.found = Ok(None);
        }
        insta::assert_snapshot!(short(&[free(&facts)]), @"info AD0203: an earlier installation has left something, which install takes over (customresourcedefinition.apiextensions.k8s.io/appdeploys.appdeploy.dev, customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev)");
        let mut namespace = facts.parts[0].wanted.clone();
        namespace.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        namespace.data["spec"] = json!({"finalizers": ["kubernetes"]});
        namespace.data["status"] = json!({"conditions": [
            {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content in the namespace has finalizers remaining: example.com/guard in 1 resource instances"}]});
        facts.parts[0].found = Ok(Some(namespace));
        insta::assert_snapshot!(short(&[free(&facts)]), @"error AD0203: namespace/appdeploy-system is being deleted: install waits until that is done (Some content in the namespace has finalizers remaining: example.com/guard in 1 resource instances); next: kubectl get namespace/appdeploy-system -o yaml");
        let mut foreign = facts.parts[0].wanted.clone();
        foreign.metadata.labels = None;
        facts.parts[0].found = Ok(Some(foreign));
        insta::assert_snapshot!(short(&[free(&facts)]), @"error AD0203: namespace/appdeploy-system exists and is not part of AppDeploy: install leaves it alone, and ends; next: kubectl get namespace/appdeploy-system -o yaml");
        facts.parts[1].found = Err(Error::failed("Error from server (Forbidden): no"));
        insta::assert_snapshot!(short(&[free(&facts), accepted(&before)]), @r"
        warning AD0203: what is there already: n/a (forbidden)
        ok AD0204: the API server would take what install writes
        ");
    }

    #[test]
    fn what_the_api_server_refuses_is_told_in_its_words() {
        let refused = |error: Error| Before {
            lacking: Err(Error::failed("the API server did not answer within 10s").next("try again")),
            refused: vec![("deployment.apps/appdeploy-operator".to_owned(), error)],
        };
        let conflict = Error::failed("Error from server (Conflict): apply failed with 1 conflict")
            .why(".spec.replicas: conflict with \"kubectl\"");
        let policy = Error::failed("admission webhook policy.example.com refuses it: nothing was changed")
            .why("images come from registry.example.com alone");
        let facts = sample::empty();
        insta::assert_snapshot!(short(&findings(&facts, &refused(conflict))), @r#"
        error AD0201: your rights: the API server did not answer within 10s; next: try again
        ok AD0203: nothing of that name is there yet
        error AD0204: somebody else has set fields that install would write (deployment.apps/appdeploy-operator: .spec.replicas: conflict with "kubectl"); next: kubectl appdeploy install --force-conflicts  (takes these fields over)
        "#);
        insta::assert_snapshot!(short(&[accepted(&refused(policy))]), @"error AD0204: the API server would refuse what install writes (deployment.apps/appdeploy-operator: images come from registry.example.com alone); next: kubectl appdeploy install --dry-run=server  (asks the same again)");
    }
}
