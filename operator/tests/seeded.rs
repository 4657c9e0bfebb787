//! The campaign finds bugs. `seeded.patch` adds bugs to a copy of the operator's sources, and each of them must be found by one
//! plan, which passes without the bug.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use faults::campaign::cluster::Cluster;
use faults::campaign::plan::Plan;
use faults::campaign::run::Verdict;
use faults::campaign::{Campaign, catalog, scenario};
use testcluster::checkout::root;

use crate::harness::{build_operator, run};

/// A bug, the plan that finds it, and a part of the reported problem: the table of docs/reliability.md.
const SEEDS: [(&str, &str, &str); 25] = [
    (
        "LostOnRelist",
        "app-heal: watch services of app.kubernetes.io/managed-by=appdeploy: unobserved",
        "it did not settle",
    ),
    (
        "TakesForeign",
        "app-taken: create deployments bystander: 429",
        "third-party object services/bystander was changed",
    ),
    (
        "GeneratedNames",
        "set-template: create pods set-0 #2: late after a crash",
        "pods, at most 2 were allowed",
    ),
    (
        "NoController",
        "app-create: create services web: crash unanswered",
        "it did not settle",
    ),
    (
        "WrongNamespace",
        "app-create: create services web: 504 but done",
        "services/web was created in namespace default, but its owner is in another namespace",
    ),
    ("GivesUp", "app-heal: create services web #2: 500", "it did not settle"),
    (
        "LostIsDone",
        "app-heal: create services web #2: reset",
        "it did not settle",
    ),
    (
        "StatusOnce",
        "set-scale: patch podsets/status set: 503",
        "it did not settle",
    ),
    (
        "ForgetsOnConflict",
        "set-scale: delete pods set-4: 409",
        "pods/set-4: expected 1 created and 1 deleted, found 1 created and 0 deleted",
    ),
    (
        "OwnerNotRead",
        "app-delete: watch appdeploys: frozen",
        "services/web: expected 1 created and 1 deleted",
    ),
    (
        "StaleTrusted",
        "app-image: watch appdeploys: stale",
        "deployments/web.metadata.generation: expected 2, found 4",
    ),
    (
        "TakesOverBlindly",
        "led-app: watch appdeploys: stale",
        "deployments/web.metadata.generation: expected 2, found 4",
    ),
    ("Panics", "app-create: create services web: 410", "panicked"),
    (
        "Exits",
        "app-create: create services web: 500",
        "the operator ended by itself",
    ),
    (
        "DriftIgnored",
        "app-heal: watch services of app.kubernetes.io/managed-by=appdeploy: frozen",
        "it did not settle",
    ),
    (
        "HostKept",
        "app-hosts: watch appdeploys: unobserved",
        "it did not settle",
    ),
    ("NotLetGo", "set-release: patch pods set-0: reset", "it did not settle"),
    (
        "WritesUnled",
        "led-app: create services web: 500",
        "and did not hold the Lease",
    ),
    (
        "FinalizerFirst",
        "queue-delete: DeleteQueue orders: crash before",
        "queue NAMESPACE_orders is left outside",
    ),
    (
        "TagsNotRead",
        "queue-delete: CreateQueue orders: InternalError",
        "the third-party queue was",
    ),
    (
        "Untagged",
        "queue-create: CreateQueue orders: done but lost",
        "queue orders has no tag with the UID of its AppQueue",
    ),
    (
        "KeepsShutDown",
        "app-heal: create services web #2: GOAWAY",
        "it did not settle",
    ),
    (
        "NoDeadline",
        "app-heal: create services web #2: stalled body",
        "it did not settle",
    ),
    (
        "ListedOnce",
        "app-heal: list services of app.kubernetes.io/managed-by=appdeploy: truncated",
        "it did not settle",
    ),
    (
        "NotResumed",
        "app-heal: watch services of app.kubernetes.io/managed-by=appdeploy: interrupted",
        "it did not settle",
    ),
];
const WORKERS: usize = 3;

/// Runs plans, and returns their verdicts.
fn problems(cluster: &Cluster, campaign: &Campaign, plans: &[Plan]) -> Vec<(String, Verdict)> {
    let found = Mutex::new(Vec::new());
    let result = campaign.run_plans(cluster, plans, WORKERS, |plan, verdict, _| {
        found.lock().unwrap().push((plan.to_string(), verdict.clone()));
        Ok(())
    });
    result.unwrap();
    found.into_inner().unwrap()
}

/// Returns the bugs of a scenario that were not found, and the plans that fail without a bug.
fn missed(cluster: &Cluster, scenario: scenario::Scenario) -> Vec<String> {
    let name = scenario.name;
    let of_scenario = |seed: &&(&str, &str, &str)| seed.1.split(": ").next() == Some(name);
    let seeds: Vec<_> = SEEDS.iter().filter(of_scenario).collect();
    if seeds.is_empty() {
        return Vec::new();
    }
    let campaign = Campaign::of(cluster, scenario).unwrap();
    let named = |name: &str| -> Plan {
        let plan = campaign.plans().iter().find(|plan| plan.to_string() == name);
        assert!(plan.is_some(), "{name} is not one of {:#?}", campaign.plans());
        plan.unwrap().clone()
    };
    let plans: BTreeSet<Plan> = seeds.iter().map(|(_, plan, _)| named(plan)).collect();
    let plans: Vec<Plan> = plans.into_iter().collect();
    let without = problems(cluster, &campaign, &plans).into_iter();
    let without = without.filter(|(_, verdict)| *verdict != Verdict::Survived);
    let mut missed: Vec<String> = without
        .map(|(plan, verdict)| format!("{plan} without a bug: {verdict:#?}"))
        .collect();
    for (bug, plan, said) in seeds {
        let seeded = campaign.seeded(bug);
        for (plan, verdict) in problems(cluster, &seeded, &[named(plan)]) {
            let is_found =
                matches!(&verdict, Verdict::Failed(problems) if problems.iter().any(|problem| problem.contains(said)));
            if !is_found {
                missed.push(format!("{bug} is not found by {plan}: {verdict:#?}"));
            }
        }
    }
    missed
}

/// The patch with the bugs.
fn patch() -> PathBuf {
    root().join("operator/tests/seeded.patch")
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(root());
    git
}

/// Builds the operator with all bugs, of the sources that `make seeded` has patched. The variable `APPDEPLOY_SEEDED_BUG` enables one
/// of them.
fn seeded_operator() -> PathBuf {
    let folder = root().join("target/seeded");
    build_operator(&folder.join("sources"), &folder.join("target"))
}

/// Fails early when a change of the operator moves the code of a bug: then update the patch.
#[test]
fn patch_of_seeded_bugs_applies_to_the_sources() {
    run(git().args(["apply", "--check"]).arg(patch()));
    let patch = std::fs::read_to_string(patch()).unwrap();
    for (bug, ..) in SEEDS {
        assert!(patch.contains(&format!("is(\"{bug}\")")), "the patch has no {bug}");
    }
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn every_bug_is_found_by_a_plan_that_passes_without_it() {
    let cluster = Cluster::unconfined(&seeded_operator()).unwrap();
    let missed: Vec<String> = thread::scope(|scope| {
        let scenarios = catalog::all().into_iter();
        let cluster = &cluster;
        let each: Vec<_> = scenarios
            .map(|scenario| scope.spawn(|| missed(cluster, scenario)))
            .collect();
        each.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn docs_list_the_seeded_bugs() {
    let page = include_str!("../../docs/reliability.md");
    for (bug, plan, said) in SEEDS {
        let row = format!("| `{bug}` | `{plan}` | {said} |");
        assert!(page.contains(&row), "docs/reliability.md lacks\n{row}");
    }
}
