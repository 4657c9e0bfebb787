//! That the campaign finds bugs: each of these is in the operator on purpose, and one plan finds it that is survived
//! without it. `make seeded` builds an operator with them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use faults::campaign::cluster::Cluster;
use faults::campaign::plan::Plan;
use faults::campaign::run::Verdict;
use faults::campaign::{Campaign, catalog, scenario};
use operator::seeded::Bug;

/// A bug, the plan that finds it, and what is then said: the table of docs/reliability.md.
const SEEDS: [(Bug, &str, &str); Bug::ALL.len()] = [
    (
        Bug::LostOnRelist,
        "app-heal: watch services of app.kubernetes.io/managed-by=appdeploy: unobserved",
        "it did not settle",
    ),
    (
        Bug::TakesForeign,
        "app-taken: create deployments bystander: 429",
        "services/bystander was changed, and is not ours",
    ),
    (
        Bug::GeneratedNames,
        "set-template: watch pods of appdeploy.dev/podset: stale",
        "pods where 2 were wanted at most",
    ),
    (
        Bug::NoController,
        "app-create: create services web: crash unanswered",
        "it did not settle",
    ),
    (
        Bug::WrongNamespace,
        "app-create: create services web: 504 but done",
        "services/web was made in the namespace default, and its owner is not there",
    ),
    (
        Bug::GivesUp,
        "app-heal: create services web #2: 500",
        "it did not settle",
    ),
    (
        Bug::LostIsDone,
        "app-heal: create services web #2: reset",
        "it did not settle",
    ),
    (
        Bug::StatusOnce,
        "set-scale: patch podsets/status set: 503",
        "it did not settle",
    ),
    (
        Bug::ForgetsOnConflict,
        "set-scale: delete pods set-4: 409",
        "pods/set-4: expected 1 created and 1 deleted, found 1 created and 0 deleted",
    ),
    (
        Bug::OwnerNotRead,
        "app-delete: watch appdeploys: frozen",
        "services/web: expected 1 created and 1 deleted",
    ),
    (
        Bug::StaleTrusted,
        "app-image: watch appdeploys: stale",
        "deployments/web.metadata.generation: expected 2, found 4",
    ),
    (Bug::Panics, "app-create: create services web: 410", "panicked"),
    (
        Bug::Exits,
        "app-create: create services web: 500",
        "the operator ended by itself",
    ),
    (
        Bug::DriftIgnored,
        "app-heal: watch services of app.kubernetes.io/managed-by=appdeploy: frozen",
        "it did not settle",
    ),
    (
        Bug::HostKept,
        "app-hosts: watch appdeploys: unobserved",
        "it did not settle",
    ),
    (
        Bug::NotLetGo,
        "set-release: patch pods set-0: reset",
        "it did not settle",
    ),
    (
        Bug::WritesUnled,
        "led-app: create services web: 500",
        "and did not hold the Lease",
    ),
];
const WORKERS: usize = 3;

/// Carries out plans, and returns what was wrong with each.
fn problems(cluster: &Cluster, campaign: &Campaign, plans: &[Plan]) -> Vec<(String, Verdict)> {
    let found = Mutex::new(Vec::new());
    let carried_out = campaign.run_plans(cluster, plans, WORKERS, |plan, verdict, _| {
        found.lock().unwrap().push((plan.to_string(), verdict.clone()));
        Ok(())
    });
    carried_out.unwrap();
    found.into_inner().unwrap()
}

/// Returns what is to be said of a scenario's bugs that were not found, and of plans that are not survived without them.
fn missed(cluster: &Cluster, scenario: scenario::Scenario) -> Vec<String> {
    let name = scenario.name;
    let of_scenario = |seed: &&(Bug, &str, &str)| seed.1.split(": ").next() == Some(name);
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
        let seeded = campaign.seeded(&format!("{bug:?}"));
        for (plan, verdict) in problems(cluster, &seeded, &[named(plan)]) {
            let is_found =
                matches!(&verdict, Verdict::Failed(problems) if problems.iter().any(|problem| problem.contains(said)));
            if !is_found {
                missed.push(format!("{bug:?} is not found by {plan}: {verdict:#?}"));
            }
        }
    }
    missed
}

#[test]
fn every_bug_is_found_by_a_plan_that_is_survived_without_it() {
    let seeded: Vec<Bug> = SEEDS.iter().map(|(bug, ..)| *bug).collect();
    assert_eq!(seeded, Bug::ALL);
    let cluster = Cluster::unconfined(Path::new(env!("CARGO_BIN_EXE_appdeploy-operator"))).unwrap();
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
fn the_page_says_what_finds_which_bug() {
    let page = include_str!("../../docs/reliability.md");
    for (bug, plan, said) in SEEDS {
        let row = format!("| `{bug:?}` | `{plan}` | {said} |");
        assert!(page.contains(&row), "docs/reliability.md lacks\n{row}");
    }
}
