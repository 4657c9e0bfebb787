//! Describes why the API server rejects pods.

use super::{Diagnosis, Reason, Subject, diagnosis, edit, set_resources};
use crate::{NextCommand, command};

/// Whether a message is about an exceeded quota.
pub(super) fn is_quota(message: &str) -> bool {
    message.contains("exceeded quota: ") || message.contains("failed quota: ")
}

/// Returns the part of a message after the name of the rejected object.
pub(crate) fn detail(message: &str) -> &str {
    let after = |words| message.split_once(words).map(|(_, detail)| detail);
    after("is forbidden: ")
        .or_else(|| after("is invalid: : "))
        .unwrap_or(message)
}

/// Returns the diagnosis for rejected pods, from the API server's message to a ReplicaSet or to the operator, such as
/// `pods "web-5d8f-" is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4`.
pub(crate) fn diagnose(subject: Subject<'_>, message: &str) -> Diagnosis {
    let detail = detail(message);
    quota(subject, detail)
        .or_else(|| limit_range(subject, detail))
        .or_else(|| pod_security(subject, detail))
        .or_else(|| service_account(subject, detail))
        .or_else(|| webhook(subject, detail))
        .unwrap_or_else(|| {
            let next = match subject.kind {
                crd::Kind::AppDeploy => command!(
                    "kubectl describe replicaset -n {} -l {}",
                    subject.namespace,
                    subject.kind.pod_selector(subject.name)
                ),
                crd::Kind::PodSet => edit(subject),
            };
            let message = format!("pods can't be created: {}", one_line(detail));
            diagnosis(Reason::PodsRefused, &message, Some(next))
        })
}

fn quota(subject: Subject<'_>, detail: &str) -> Option<Diagnosis> {
    let describe = |quota: &str| Some(command!("kubectl describe quota {} -n {}", quota, subject.namespace));
    if let Some((_, words)) = detail.split_once("exceeded quota: ") {
        let quota = words.split(", ").next().unwrap_or(words);
        let amounts = |word: &str| pairs(words, word);
        let (requested, used, limited) = (amounts("requested: "), amounts("used: "), amounts("limited: "));
        let find = |of: &[(&str, &str)], resource: &str| {
            let found = of.iter().find(|(name, _)| *name == resource);
            found.map_or_else(|| "?".to_owned(), |(_, amount)| (*amount).to_owned())
        };
        let short: Vec<String> = requested
            .iter()
            .map(|(resource, amount)| {
                let (used, limited) = (find(&used, resource), find(&limited, resource));
                format!("{resource}: {used} of {limited} used, {amount} needed")
            })
            .collect();
        let needs = if short.is_empty() {
            words.to_owned()
        } else {
            short.join("; ")
        };
        let message = format!("ResourceQuota {quota} has no room for another pod ({needs})");
        return Some(diagnosis(Reason::QuotaExceeded, &message, describe(quota)));
    }
    let (quota, wants) = detail.split_once("failed quota: ")?.1.split_once(": must specify ")?;
    let mut fields: Vec<&str> = wants
        .split("; ")
        .flat_map(|part| part.split(" for: ").next().unwrap_or(part).split(','))
        .collect();
    fields.sort_unstable();
    fields.dedup();
    let message = format!(
        "ResourceQuota {quota} takes only pods that specify {}: write them in resources",
        fields.join(", ")
    );
    Some(diagnosis(Reason::QuotaExceeded, &message, Some(edit(subject))))
}

/// Reads `requested: pods=1,limits.cpu=2, used: …`.
fn pairs<'a>(words: &'a str, word: &str) -> Vec<(&'a str, &'a str)> {
    let Some((_, rest)) = words.split_once(word) else {
        return Vec::new();
    };
    let list = rest.split(", ").next().unwrap_or(rest);
    list.split(',').filter_map(|pair| pair.split_once('=')).collect()
}

/// Reads `[maximum memory usage per Container is 64Mi, but limit is 128Mi, …]`, or the same without brackets.
fn limit_range(subject: Subject<'_>, detail: &str) -> Option<Diagnosis> {
    if !(detail.contains(" usage per ") || detail.contains(" ratio per ")) {
        return None;
    }
    let words = detail.trim_matches(['[', ']']).replace(".  No ", ", but no ");
    let message = format!("a LimitRange of the namespace refuses the pods: {words}");
    let next = within(detail).map(|flag| set_resources(subject, flag));
    Some(diagnosis(
        Reason::OutsideLimitRange,
        &message,
        next.or_else(|| Some(edit(subject))),
    ))
}

/// Returns the flag that meets a single bound: `maximum memory usage per Container is 64Mi, but limit is 128Mi`.
fn within(words: &str) -> Option<NextCommand> {
    let (bound, is) = words.split_once(", but ")?;
    let (what, amount) = bound.split_once(" usage per Container is ")?;
    let resource = what
        .strip_prefix("maximum ")
        .or_else(|| what.strip_prefix("minimum "))?;
    let flag = if is.starts_with("limit ") { "limits" } else { "requests" };
    (!is.contains(',')).then(|| command!("--{}={}={}", flag, resource, amount))
}

/// Reads `violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "app" must set …), …`.
fn pod_security(subject: Subject<'_>, detail: &str) -> Option<Diagnosis> {
    let rest = detail.split_once("violates PodSecurity \"")?.1;
    let (standard, violations) = rest.split_once("\": ")?;
    let level = standard.split(':').next().unwrap_or(standard);
    let is_restricted = subject
        .pod
        .is_some_and(|pod| pod.profile() == crd::SecurityProfile::Restricted);
    let message = format!(
        "the namespace enforces the Pod Security Standard {level}, which the pods do not meet: {}",
        without_parentheses(violations)
    );
    let namespace = subject.namespace;
    let patch = match subject.kind {
        crd::Kind::AppDeploy => r#"{"spec":{"securityProfile":"Restricted"}}"#,
        crd::Kind::PodSet => r#"{"spec":{"template":{"securityProfile":"Restricted"}}}"#,
    };
    let next = if is_restricted {
        // Something else adds to the pods what the standard forbids.
        command!("kubectl get namespace {} --show-labels", namespace)
    } else {
        command!(
            "kubectl patch {} {} -n {} --type merge -p {}",
            subject.kind.singular(),
            subject.name,
            namespace,
            patch
        )
    };
    Some(diagnosis(Reason::PodSecurity, &message, Some(next)))
}

/// Reads `error looking up service account blue/shop: serviceaccount "shop" not found`. The ServiceAccount `default` of a new
/// namespace appears by itself.
fn service_account(subject: Subject<'_>, detail: &str) -> Option<Diagnosis> {
    let (_, why) = detail.split_once("error looking up service account ")?;
    let name = why.split_once("serviceaccount \"")?.1.split_once("\" not found")?.0;
    let named = subject.pod?.service_account.as_ref()?.name.as_deref();
    if named != Some(name) {
        return None;
    }
    let message = format!("ServiceAccount {name} does not exist, so no pods can be created");
    let next = command!("kubectl create serviceaccount {} -n {}", name, subject.namespace);
    Some(diagnosis(Reason::MissingServiceAccount, &message, Some(next)))
}

fn webhook(subject: Subject<'_>, detail: &str) -> Option<Diagnosis> {
    let refused = |who: String, why: &str| {
        let why = one_line(why);
        let space = if why.starts_with(':') { "" } else { " " };
        let message = format!("{who} refuses the pods{space}{why}");
        Some(diagnosis(Reason::PodsRefused, &message, Some(edit(subject))))
    };
    if let Some((_, rest)) = detail.split_once("admission webhook \"") {
        let (name, why) = rest.split_once("\" denied the request")?;
        return refused(format!("the webhook {name}"), why);
    }
    if let Some((who, why)) = detail.split_once(" denied request: ") {
        // `ValidatingAdmissionPolicy 'no-latest' with binding 'everywhere'`, after the name of the pod.
        let policy = who
            .rsplit_once("Policy '")
            .and_then(|(_, rest)| rest.split('\'').next());
        let name = policy.unwrap_or("of the cluster");
        return refused(format!("the admission policy {name}"), &format!(": {why}"));
    }
    let (_, rest) = detail.split_once("failed calling webhook \"")?;
    let (name, why) = rest.split_once("\": ")?;
    let why = why.rsplit(": ").next().unwrap_or(why);
    let message = format!(
        "no pods can be created while the webhook {name} does not answer: {}",
        one_line(why)
    );
    let next = "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations".into();
    Some(diagnosis(Reason::PodsRefused, &message, Some(next)))
}

/// Returns third-party text as one line of at most 300 characters.
fn one_line(text: &str) -> String {
    const MAX: usize = 300;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out.replace(" ,", ",").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_rejection_has_a_sentence_and_a_command() {
        let subject = Subject::named(crd::Kind::AppDeploy, "shop", "blue");
        let mut lines = Vec::new();
        for words in [
            "exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4",
            "exceeded quota: big, requested: limits.memory=1Gi,pods=1, used: limits.memory=4Gi,pods=4, limited: limits.memory=4Gi,pods=4",
            "failed quota: strict: must specify limits.cpu for: app; limits.memory for: app",
            "maximum memory usage per Container is 64Mi, but limit is 128Mi",
            "[minimum cpu usage per Container is 1.  No request is specified, maximum cpu usage per Pod is 2, but limit is 4]",
            "violates PodSecurity \"restricted:latest\": unrestricted capabilities (container \"app\" must set \
             securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"app\" must set \
             securityContext.runAsNonRoot=true)",
            "admission webhook \"validate.kyverno.svc-fail\" denied the request: \n\nresource Pod/blue/shop was blocked\n\nlabels: \
             check: 'team is required'\n",
            "admission webhook \"no.example.com\" denied the request without explanation",
            "ValidatingAdmissionPolicy 'no-latest' with binding 'everywhere' denied request: use a tag",
            "Internal error occurred: failed calling webhook \"sidecar.example.com\": failed to call webhook: Post \
             \"https://sidecar.mesh.svc:443/inject?timeout=10s\": dial tcp 10.0.0.7:443: connect: connection refused",
            "error looking up service account blue/default: serviceaccount \"default\" not found",
        ] {
            let found = diagnose(subject, &format!("pods \"shop-5d8f-\" is forbidden: {words}"));
            let (reason, next) = (found.reason.as_str(), found.next.unwrap());
            lines.push(format!("{reason}: {}\n  {next}", found.message));
        }
        insta::assert_snapshot!(lines.join("\n"), @r#"
        QuotaExceeded: ResourceQuota small has no room for another pod (pods: 4 of 4 used, 1 needed)
          kubectl describe quota small -n blue
        QuotaExceeded: ResourceQuota big has no room for another pod (limits.memory: 4Gi of 4Gi used, 1Gi needed; pods: 4 of 4 used, 1 needed)
          kubectl describe quota big -n blue
        QuotaExceeded: ResourceQuota strict takes only pods that specify limits.cpu, limits.memory: write them in resources
          kubectl appdeploy edit shop -n blue
        OutsideLimitRange: a LimitRange of the namespace refuses the pods: maximum memory usage per Container is 64Mi, but limit is 128Mi
          kubectl appdeploy set resources shop --limits=memory=64Mi -n blue
        OutsideLimitRange: a LimitRange of the namespace refuses the pods: minimum cpu usage per Container is 1, but no request is specified, maximum cpu usage per Pod is 2, but limit is 4
          kubectl appdeploy edit shop -n blue
        PodSecurity: the namespace enforces the Pod Security Standard restricted, which the pods do not meet: unrestricted capabilities, runAsNonRoot != true
          kubectl patch appdeploy shop -n blue --type merge -p '{"spec":{"securityProfile":"Restricted"}}'
        PodsRefused: the webhook validate.kyverno.svc-fail refuses the pods: resource Pod/blue/shop was blocked labels: check: 'team is required'
          kubectl appdeploy edit shop -n blue
        PodsRefused: the webhook no.example.com refuses the pods without explanation
          kubectl appdeploy edit shop -n blue
        PodsRefused: the admission policy no-latest refuses the pods: use a tag
          kubectl appdeploy edit shop -n blue
        PodsRefused: no pods can be created while the webhook sidecar.example.com does not answer: connection refused
          kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations
        PodsRefused: pods can't be created: error looking up service account blue/default: serviceaccount "default" not found
          kubectl describe replicaset -n blue -l appdeploy.dev/app=shop
        "#);
    }

    #[test]
    fn missing_service_account_of_the_spec_is_named() {
        let pod = serde_json::from_value(json!({"image": "nginx", "serviceAccount": {"name": "shop"}})).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let of = |name: &str| {
            let detail = format!("error looking up service account blue/{name}: serviceaccount \"{name}\" not found");
            diagnose(subject, &format!("pods \"shop-1\" is forbidden: {detail}"))
        };
        let found = of("shop");
        assert_eq!((found.reason, found.stalled), (Reason::MissingServiceAccount, true));
        assert_eq!(
            found.message,
            "ServiceAccount shop does not exist, so no pods can be created"
        );
        assert_eq!(
            found.next.unwrap().to_string(),
            "kubectl create serviceaccount shop -n blue"
        );
        assert_eq!(of("default").reason, Reason::PodsRefused);
    }

    #[test]
    fn restricted_profile_is_not_suggested_twice() {
        let pod = serde_json::from_value(json!({"image": "nginx", "securityProfile": "Restricted"})).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let found = diagnose(
            subject,
            "is forbidden: violates PodSecurity \"baseline:v1.36\": hostPort (container \"mesh\")",
        );
        assert_eq!(
            found.next.as_ref().map(NextCommand::as_str),
            Some("kubectl get namespace blue --show-labels")
        );
    }
}
