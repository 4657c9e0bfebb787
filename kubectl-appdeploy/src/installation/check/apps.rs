//! Whether the apps and pod sets of a cluster are managed. An app that is not ready is not a fault of the installation.

use model::{NextCommand, command};
use std::collections::BTreeSet;

use super::facts::{Facts, Installed};
use super::finding::Finding;
use crate::cluster::kind_info;
use crate::installation::check::code::Code;
use crate::installation::operator::{self, Operator};
use crate::output::formats::some;
use crate::resource::workload::Workload;
use crd::status::condition;

/// Returns the findings.
pub fn findings(facts: &Facts, installed: &Installed) -> Vec<Finding> {
    let all = match &installed.workloads {
        Ok(all) => all,
        Err(error) => return vec![Finding::unseen(Code::Watched, "apps and pod sets", error)],
    };
    let mut findings = vec![watched(facts, all)];
    findings.extend((!all.is_empty()).then(|| stalled(all)));
    findings
}

fn watched(facts: &Facts, all: &[Workload]) -> Finding {
    if all.is_empty() {
        return Finding::ok(Code::Watched, "no apps or pod sets exist");
    }
    let watched = match &facts.operator {
        Operator::Installed(deployment, _) => operator::watched(deployment),
        Operator::Absent | Operator::Unknown(_) => Vec::new(),
    };
    let is_watched = |one: &&Workload| watched.is_empty() || watched.iter().any(|name| name == one.namespace());
    let (inside, outside): (Vec<&Workload>, Vec<&Workload>) = all.iter().partition(is_watched);
    let overlooked: Vec<&Workload> = inside.into_iter().filter(|one| one.is_overlooked(facts.now)).collect();
    if let Some(first) = overlooked.first() {
        let absence = facts.operator.absence(Some(first.namespace()), facts.now);
        let why = absence.map_or_else(|| "the operator can't be seen".to_owned(), |(why, _)| why);
        let names: Vec<String> = overlooked.iter().map(|one| title(one)).collect();
        return Finding::error(Code::Watched, format!("no operator manages {}", some(&names)))
            .why(why)
            .next(command!(
                "kubectl -n {} logs deployment/{}",
                crd::OPERATOR_NAMESPACE,
                operator::NAME
            ));
    }
    if !outside.is_empty() {
        let namespaces: BTreeSet<&str> = outside.iter().map(|one| one.namespace()).collect();
        let namespaces: Vec<String> = namespaces.into_iter().map(ToOwned::to_owned).collect();
        return Finding::warning(
            Code::Watched,
            format!(
                "no operator manages {} in {}",
                count(outside.iter().copied()),
                some(&namespaces)
            ),
        )
        .why(format!("the operator watches only {}", some(&watched)))
        .next(command!(
            "kubectl appdeploy install --watch-namespace={},{}",
            watched.join(","),
            namespaces.join(",")
        ));
    }
    Finding::ok(Code::Watched, format!("the operator manages {}", count(all)))
}

fn stalled(all: &[Workload]) -> Finding {
    let stalled: Vec<&Workload> = all
        .iter()
        .filter(|one| one.is_observed() && one.is_true(condition::STALLED))
        .collect();
    if stalled.is_empty() {
        return Finding::ok(Code::Stalled, "no app or pod set is stalled");
    }
    let names: Vec<String> = stalled
        .iter()
        .map(|one| format!("{} ({})", title(one), one.reason()))
        .collect();
    let finding = Finding::warning(
        Code::Stalled,
        format!(
            "{} will not become ready without a change",
            count(stalled.iter().copied())
        ),
    )
    .why(some(&names));
    // One command for each kind that is concerned.
    let kinds: BTreeSet<crd::Kind> = stalled.iter().map(|one| one.kind()).collect();
    kinds
        .into_iter()
        .map(|kind| NextCommand::from(kind_info::of(kind).command).and("status -A"))
        .fold(finding, Finding::next)
}

fn title(one: &Workload) -> String {
    format!("{}/{}", one.namespace(), one.name())
}

/// Returns how many there are of each kind, in words.
fn count<'a>(all: impl IntoIterator<Item = &'a Workload>) -> String {
    let kinds: Vec<crd::Kind> = all.into_iter().map(Workload::kind).collect();
    let counts = crd::Kind::ALL.map(|kind| {
        let count = kinds.iter().filter(|one| **one == kind).count();
        (count > 0).then(|| kind_info::of(kind).count(count))
    });
    counts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::check::sample::{self, short};
    use serde_json::{Value, json};

    fn one(kind: crd::Kind, namespace: &str, status: &Value) -> Workload {
        let object = json!({"metadata": {"name": "shop", "namespace": namespace, "generation": 1, "creationTimestamp": "2026-01-01T11:00:00Z"},
            "spec": {"image": "nginx"}, "status": status});
        Workload::read(kind, &serde_json::from_value(object).unwrap())
    }

    fn judged(all: Vec<Workload>, watched: &str) -> String {
        let mut facts = sample::well();
        if let Operator::Installed(deployment, _) = &mut facts.operator
            && !watched.is_empty()
        {
            let containers = &mut deployment
                .spec
                .as_mut()
                .unwrap()
                .template
                .spec
                .as_mut()
                .unwrap()
                .containers;
            containers[0].args = Some(vec![format!("--watch-namespace={watched}")]);
        }
        let mut installed = facts.installed.clone().unwrap();
        installed.workloads = Ok(all);
        short(&findings(&facts, &installed))
    }

    #[test]
    fn unmanaged_apps_and_stalled_apps_are_separate_findings() {
        let stalled = json!({"observedGeneration": 1, "conditions": [
            {"type": "Ready", "status": "False", "reason": "ImageNotFound", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Stalled", "status": "True", "reason": "ImageNotFound", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let well = json!({"observedGeneration": 1});
        let (app, set) = (crd::Kind::AppDeploy, crd::Kind::PodSet);
        insta::assert_snapshot!(judged(vec![], ""), @"ok AD0601: no apps or pod sets exist");
        insta::assert_snapshot!(judged(vec![one(app, "a", &well), one(set, "a", &well)], ""), @r"
        ok AD0601: the operator manages 1 app and 1 pod set
        ok AD0602: no app or pod set is stalled
        ");
        insta::assert_snapshot!(judged(vec![one(app, "a", &well), one(app, "b", &stalled), one(set, "b", &stalled)], ""), @r"
        ok AD0601: the operator manages 2 apps and 1 pod set
        warning AD0602: 1 app and 1 pod set will not become ready without a change (b/shop (ImageNotFound), b/shop (ImageNotFound)); next: kubectl appdeploy status -A
        ");
        insta::assert_snapshot!(judged(vec![one(app, "a", &json!(null))], ""), @r"
        error AD0601: no operator manages a/shop (the operator runs, but has not seen it); next: kubectl -n appdeploy-system logs deployment/appdeploy-operator
        ok AD0602: no app or pod set is stalled
        ");
        insta::assert_snapshot!(judged(vec![one(app, "a", &well), one(app, "b", &json!(null))], "a,c"), @r"
        warning AD0601: no operator manages 1 app in b (the operator watches only a, c); next: kubectl appdeploy install --watch-namespace=a,c,b
        ok AD0602: no app or pod set is stalled
        ");
    }
}
