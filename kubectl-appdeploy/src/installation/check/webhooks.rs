//! What API servers ask the operator, and whether they get an answer.

use model::command;

use super::authority;
use super::facts::{Facts, Installed};
use super::finding::Finding;
use crate::installation::check::code::Code;
use crate::installation::manifests::{Kind, webhook};
use crate::installation::operator::{self, Operator};
use crate::output::age::span;

/// An authority that ends within these seconds should have been replaced months ago.
const SOON: i64 = 30 * 24 * 3600;

/// Judges it.
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
                    "API servers ask an operator that is not there, and refuse every app",
                )
                .why(format!("{title} is left of an earlier installation"))
                .next("kubectl appdeploy install")
                .next("kubectl appdeploy uninstall  (without an operator)"),
            ]
        });
    }
    if !facts.has_webhooks() {
        return vec![Finding::info(
            Code::Configured,
            "webhooks are switched off: what needs a look at other objects is told by the status alone",
        )];
    }
    if !missing.is_empty() {
        let finding = Finding::error(
            Code::Configured,
            "API servers do not ask the operator, which would answer",
        )
        .why(format!("missing: {}", missing.join(", ")))
        .next("kubectl appdeploy install");
        return vec![finding];
    }
    if let Some((title, _)) = there.iter().find(|(_, found)| !webhook::is_trusted(found)) {
        let finding = Finding::error(
            Code::Configured,
            format!("{title} names no certificate to trust, so API servers refuse every app"),
        )
        .next(command!(
            "kubectl -n {} logs deployment/{} --tail=20",
            crd::OPERATOR_NAMESPACE,
            operator::NAME
        ));
        return vec![finding];
    }
    let configured = Finding::ok(Code::Configured, "API servers know whom to ask and to trust");
    let ends = there.iter().map(|(_, found)| authority::end(found));
    let end = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().min());
    let left = end.map(|end| end.as_second() - facts.now.as_second());
    let logs = || {
        let home = crd::OPERATOR_NAMESPACE;
        command!("kubectl -n {} logs deployment/{}", home, operator::NAME)
    };
    let certificates = match left {
        None => Finding::warning(Code::Certificates, "the certificates that are trusted can't be read").next(logs()),
        Some(left) if left <= 0 => Finding::error(
            Code::Certificates,
            format!("the certificates that are trusted ended {} ago", span(-left)),
        )
        .next(logs()),
        Some(left) if left < SOON => Finding::warning(
            Code::Certificates,
            format!("the certificates that are trusted end in {}", span(left)),
        )
        .why("whoever makes them should have made others by now")
        .next(logs()),
        Some(left) => Finding::ok(
            Code::Certificates,
            format!("the certificates that are trusted last for another {}", span(left)),
        ),
    };
    [configured, certificates]
        .into_iter()
        .chain(answers(installed))
        .collect()
}

/// Whether the operator answers what API servers ask. It has been tried.
fn answers(installed: &Installed) -> Option<Finding> {
    Some(match installed.answer.as_ref()? {
        Ok(None) => Finding::ok(Code::Answers, "the operator answers API servers"),
        Ok(Some(why)) => Finding::error(
            Code::Answers,
            "the operator does not answer API servers: apps can't be created or changed",
        )
        .why(why)
        .next("let API servers reach the operator's pods at port 9443: often a firewall is in between")
        .next("kubectl appdeploy install --webhooks=false  (does without)"),
        // Another webhook denied it, which is an answer, but not of the operator.
        Err(error) if !error.is_forbidden() => Finding::info(
            Code::Answers,
            "whether the operator answers is not known: the app that it was to be asked about is refused before",
        )
        .why(error.sentence()),
        Err(error) => Finding::unseen(Code::Answers, "whether the operator answers API servers", error),
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
        ok AD0501: API servers know whom to ask and to trust
        ok AD0502: the certificates that are trusted last for another 5y364d
        ok AD0503: the operator answers API servers
        ");
    }

    #[test]
    fn certificates_that_end_are_told_in_time() {
        let at = |time: &str| {
            let now: Timestamp = time.parse().unwrap();
            judged(|facts| facts.now = now)
                .lines()
                .nth(1)
                .map(ToOwned::to_owned)
                .unwrap()
        };
        insta::assert_snapshot!([at("2031-12-11T00:00:00Z"), at("2032-01-02T00:00:00Z")].join("\n"), @r"
        warning AD0502: the certificates that are trusted end in 20d (whoever makes them should have made others by now); next: kubectl -n appdeploy-system logs deployment/appdeploy-operator
        error AD0502: the certificates that are trusted ended 2d ago; next: kubectl -n appdeploy-system logs deployment/appdeploy-operator
        ");
    }

    #[test]
    fn nobody_is_asked_who_is_not_there() {
        let each = |facts: &mut Facts, change: &dyn Fn(&mut crate::installation::check::facts::Part)| {
            let kinds = Kind::webhooks();
            facts
                .parts
                .iter_mut()
                .filter(|part| kinds.contains(&part.kind))
                .for_each(change);
        };
        insta::assert_snapshot!(judged(|facts| facts.operator = Operator::Absent), @"error AD0501: API servers ask an operator that is not there, and refuse every app (mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy is left of an earlier installation); next: kubectl appdeploy install");
        assert_eq!(
            judged(|facts| {
                facts.operator = Operator::Absent;
                each(facts, &|part| part.found = Ok(None));
            }),
            ""
        );
        insta::assert_snapshot!(judged(|facts| each(facts, &|part| part.found = Ok(None))), @"error AD0501: API servers do not ask the operator, which would answer (missing: mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy, validatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy); next: kubectl appdeploy install");
        insta::assert_snapshot!(judged(|facts| each(facts, &|part| {
            part.found.as_mut().unwrap().as_mut().unwrap().data["webhooks"][0]["clientConfig"] = json!({});
        })), @"error AD0501: mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy names no certificate to trust, so API servers refuse every app; next: kubectl -n appdeploy-system logs deployment/appdeploy-operator --tail=20");
        insta::assert_snapshot!(judged(|facts| {
            let Operator::Installed(deployment, _) = &mut facts.operator else { panic!() };
            let containers = &mut deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers;
            containers[0].args = Some(vec!["--webhooks=false".to_owned()]);
        }), @"info AD0501: webhooks are switched off: what needs a look at other objects is told by the status alone");
    }

    #[test]
    fn what_the_operator_does_not_answer_is_told() {
        let answer = |answer: crate::error::Result<Option<String>>| {
            let text = judged(|facts| facts.installed.as_mut().unwrap().answer = Some(answer.clone()));
            text.lines().last().unwrap().to_owned()
        };
        insta::assert_snapshot!(answer(Ok(Some("failed calling webhook \"validate.appdeploy.dev\": context deadline exceeded".to_owned()))), @r#"error AD0503: the operator does not answer API servers: apps can't be created or changed (failed calling webhook "validate.appdeploy.dev": context deadline exceeded); next: let API servers reach the operator's pods at port 9443: often a firewall is in between"#);
        insta::assert_snapshot!(answer(Err(Error::failed("Error from server (Forbidden): appdeploys is forbidden").next("ask"))), @"warning AD0503: whether the operator answers API servers: n/a (forbidden); next: ask");
        insta::assert_snapshot!(answer(Err(Error::failed("admission webhook policy.example.com refuses it: nothing was changed"))), @"info AD0503: whether the operator answers is not known: the app that it was to be asked about is refused before (admission webhook policy.example.com refuses it: nothing was changed)");
    }
}
