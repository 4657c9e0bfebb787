//! Checks the webhooks: their configuration, certificates and answers.

use model::command;

use super::authority;
use super::facts::{Facts, Installed};
use super::finding::Finding;
use crate::installation::check::code::Code;
use crate::installation::manifests::{Kind, webhook};
use crate::installation::operator::{self, Operator};
use crate::output::age::span;

/// A CA that expires within these seconds should have been replaced months ago.
const SOON: i64 = 30 * 24 * 3600;

/// Returns the findings.
pub fn findings(facts: &Facts, installed: &Installed) -> Vec<Finding> {
    if facts.is_by_olm() || matches!(facts.operator, Operator::Unknown(_)) {
        return answers(installed).into_iter().collect();
    }
    let kinds = Kind::webhooks();
    let parts = facts.parts.iter().filter(|part| kinds.contains(&part.kind));
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for part in parts {
        match &part.found {
            Err(error) => return vec![Finding::unseen(Code::Configured, "the webhooks", error)],
            Ok(None) => missing.push(part.title()),
            Ok(Some(found)) => there.push((part.title(), found)),
        }
    }
    if facts.operator == Operator::Absent {
        // Without an operator, webhooks are not called.
        return there.first().map_or_else(Vec::new, |(title, _)| {
            vec![
                Finding::error(
                    Code::Configured,
                    "the webhooks call an operator that does not exist, so every app is rejected",
                )
                .why(format!("{title} remains from an earlier installation"))
                .next("kubectl appdeploy install")
                .next("kubectl appdeploy uninstall  (without an operator)"),
            ]
        });
    }
    if !facts.has_webhooks() {
        return vec![Finding::info(
            Code::Configured,
            "webhooks are disabled: conflicts with other objects are only reported in the status",
        )];
    }
    if !missing.is_empty() {
        let finding = Finding::error(Code::Configured, "the webhooks of the operator are not configured")
            .why(format!("missing: {}", missing.join(", ")))
            .next("kubectl appdeploy install");
        return vec![finding];
    }
    if let Some((title, _)) = there.iter().find(|(_, found)| !webhook::is_trusted(found)) {
        let finding = Finding::error(
            Code::Configured,
            format!("{title} has no CA bundle, so every app is rejected"),
        )
        .next(command!(
            "kubectl -n {} logs deployment/{} --tail=20",
            crd::OPERATOR_NAMESPACE,
            operator::NAME
        ));
        return vec![finding];
    }
    let configured = Finding::ok(Code::Configured, "the webhooks are configured");
    let ends = there.iter().map(|(_, found)| authority::end(found));
    let end = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().min());
    let left = end.map(|end| end.as_second() - facts.now.as_second());
    let logs = || {
        let home = crd::OPERATOR_NAMESPACE;
        command!("kubectl -n {} logs deployment/{}", home, operator::NAME)
    };
    let certificates = match left {
        None => Finding::warning(Code::Certificates, "the CA certificates can't be read").next(logs()),
        Some(left) if left <= 0 => Finding::error(
            Code::Certificates,
            format!("the CA certificates expired {} ago", span(-left)),
        )
        .next(logs()),
        Some(left) if left < SOON => Finding::warning(
            Code::Certificates,
            format!("the CA certificates expire in {}", span(left)),
        )
        .why("they should have been renewed")
        .next(logs()),
        Some(left) => Finding::ok(
            Code::Certificates,
            format!("the CA certificates are valid for another {}", span(left)),
        ),
    };
    [configured, certificates]
        .into_iter()
        .chain(answers(installed))
        .collect()
}

/// Whether the webhooks answered a dry run.
fn answers(installed: &Installed) -> Option<Finding> {
    Some(match installed.answer.as_ref()? {
        Ok(None) => Finding::ok(Code::Answers, "the webhooks answer"),
        Ok(Some(why)) => Finding::error(
            Code::Answers,
            "the webhooks do not answer: apps can't be created or changed",
        )
        .why(why)
        .next("allow connections from the API server to the operator's pods at port 9443: often a firewall blocks them")
        .next("kubectl appdeploy install --webhooks=false  (disables them)"),
        // Another webhook denied it, which is an answer, but not of the operator.
        Err(error) if !error.is_forbidden() => Finding::info(
            Code::Answers,
            "whether the webhooks answer is unknown: another admission webhook rejected the app of the dry run",
        )
        .why(error.sentence()),
        Err(error) => Finding::unseen(Code::Answers, "whether the webhooks answer", error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::installation::check::sample::{self, short};
    use jiff::Timestamp;
    use serde_json::json;

    fn judged(change: impl Fn(&mut Facts)) -> String {
        let mut facts = sample::well();
        change(&mut facts);
        let installed = facts.installed.clone().unwrap();
        short(&findings(&facts, &installed))
    }

    #[test]
    fn webhooks_that_work_are_three_lines() {
        insta::assert_snapshot!(judged(|_| {}), @r"
        ok AD0501: the webhooks are configured
        ok AD0502: the CA certificates are valid for another 5y364d
        ok AD0503: the webhooks answer
        ");
    }

    #[test]
    fn expiring_certificates_are_reported_in_time() {
        let at = |time: &str| {
            let now: Timestamp = time.parse().unwrap();
            judged(|facts| facts.now = now)
                .lines()
                .nth(1)
                .map(ToOwned::to_owned)
                .unwrap()
        };
        insta::assert_snapshot!([at("2031-12-11T00:00:00Z"), at("2032-01-02T00:00:00Z")].join("\n"), @r"
        warning AD0502: the CA certificates expire in 20d (they should have been renewed); next: kubectl -n appdeploy-system logs deployment/appdeploy-operator
        error AD0502: the CA certificates expired 2d ago; next: kubectl -n appdeploy-system logs deployment/appdeploy-operator
        ");
    }

    #[test]
    fn webhooks_without_an_operator_are_an_error() {
        let each = |facts: &mut Facts, change: &dyn Fn(&mut crate::installation::check::facts::Part)| {
            let kinds = Kind::webhooks();
            facts
                .parts
                .iter_mut()
                .filter(|part| kinds.contains(&part.kind))
                .for_each(change);
        };
        insta::assert_snapshot!(judged(|facts| facts.operator = Operator::Absent), @"error AD0501: the webhooks call an operator that does not exist, so every app is rejected (mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy remains from an earlier installation); next: kubectl appdeploy install");
        assert_eq!(
            judged(|facts| {
                facts.operator = Operator::Absent;
                each(facts, &|part| part.found = Ok(None));
            }),
            ""
        );
        insta::assert_snapshot!(judged(|facts| each(facts, &|part| part.found = Ok(None))), @"error AD0501: the webhooks of the operator are not configured (missing: mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy, validatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy); next: kubectl appdeploy install");
        insta::assert_snapshot!(judged(|facts| each(facts, &|part| {
            part.found.as_mut().unwrap().as_mut().unwrap().data["webhooks"][0]["clientConfig"] = json!({});
        })), @"error AD0501: mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy has no CA bundle, so every app is rejected; next: kubectl -n appdeploy-system logs deployment/appdeploy-operator --tail=20");
        insta::assert_snapshot!(judged(|facts| {
            let Operator::Installed(deployment, _) = &mut facts.operator else { panic!() };
            let containers = &mut deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers;
            containers[0].args = Some(vec!["--webhooks=false".to_owned()]);
        }), @"info AD0501: webhooks are disabled: conflicts with other objects are only reported in the status");
    }

    #[test]
    fn webhook_that_does_not_answer_is_reported() {
        let answer = |answer: crate::error::Result<Option<String>>| {
            let text = judged(|facts| facts.installed.as_mut().unwrap().answer = Some(answer.clone()));
            text.lines().last().unwrap().to_owned()
        };
        insta::assert_snapshot!(answer(Ok(Some("failed calling webhook \"validate.appdeploy.dev\": context deadline exceeded".to_owned()))), @r#"error AD0503: the webhooks do not answer: apps can't be created or changed (failed calling webhook "validate.appdeploy.dev": context deadline exceeded); next: allow connections from the API server to the operator's pods at port 9443: often a firewall blocks them"#);
        insta::assert_snapshot!(answer(Err(Error::failed("Error from server (Forbidden): appdeploys is forbidden").next("ask"))), @"warning AD0503: whether the webhooks answer: n/a (forbidden); next: ask");
        insta::assert_snapshot!(answer(Err(Error::failed("admission webhook policy.example.com rejected it: nothing was changed"))), @"info AD0503: whether the webhooks answer is unknown: another admission webhook rejected the app of the dry run (admission webhook policy.example.com rejected it: nothing was changed)");
    }
}
