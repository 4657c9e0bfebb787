//! A choice of what `make faults` does, with one thing going wrong at a time. `make test-long` chooses more.

use std::path::Path;
use std::sync::{Arc, Mutex};

use faults::campaign::cluster::Cluster;
use faults::campaign::fault::Fault;
use faults::campaign::plan::{Plan, choose};
use faults::campaign::run::Verdict;
use faults::campaign::{Campaign, catalog};

use crate::harness::{Shared, is_long};

/// The number of runs of a campaign at a time. Several campaigns share the cluster.
const WORKERS: usize = 2;

fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| Cluster::start(Path::new(env!("CARGO_BIN_EXE_appdeploy-operator"))).unwrap())
}

/// Returns `all` of the plans in `make test-long`, and `some` of them in `make test`.
fn choice(plans: &[Plan], some: usize, all: usize) -> Vec<Plan> {
    choose(plans, if is_long() { all } else { some }, 1)
}

fn campaign(cluster: &Cluster, name: &str) -> Campaign {
    let mut scenarios = catalog::all().into_iter();
    let scenario = scenarios.find(|scenario| scenario.name == name);
    Campaign::of(cluster, scenario.unwrap()).unwrap()
}

fn survives(cluster: &Cluster, campaign: &Campaign, plans: &[Plan]) {
    let failed = Mutex::new(Vec::new());
    let carried_out = campaign.run_plans(cluster, plans, WORKERS, |plan, verdict, _| {
        // What a fault was not met by has shown nothing. Where a call comes up in every run, it is met.
        if *verdict != Verdict::Survived {
            failed.lock().unwrap().push(format!("{plan}: {verdict:#?}"));
        }
        Ok(())
    });
    carried_out.unwrap();
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn app_converges_to_the_same_state_with_any_fault() {
    let cluster = cluster();
    let campaign = campaign(&cluster, "app-image");
    let is_of_children = |plan: &&Plan| !plan.call.resource.contains('/');
    let crashes = campaign.plans().iter().filter(is_of_children);
    let crashes: Vec<Plan> = crashes
        .filter(|plan| matches!(plan.fault, Fault::Crash(_)))
        .cloned()
        .collect();
    // Three points of each write to a child: three creates and the patch with the new image.
    assert_eq!(crashes.len(), 12, "{crashes:?}");
    // How often a status is written is up to the time it takes.
    let others = campaign
        .plans()
        .iter()
        .filter(|plan| !crashes.contains(plan) && !plan.fault.is_slow() && plan.call.nth == 1);
    let others: Vec<Plan> = others.cloned().collect();
    let plans = [choice(&crashes, 6, 12), choice(&others, 4, 12)].concat();
    survives(&cluster, &campaign, &plans);
}

/// One plan for each fault of HTTP/2, of a list and of a watch. `make faults` injects them into every call and every watch.
#[test]
fn app_converges_to_the_same_state_with_faults_of_streams_and_watches() {
    let cluster = cluster();
    let campaign = campaign(&cluster, "app-heal");
    let of_services = "watch services of app.kubernetes.io/managed-by=appdeploy";
    let list_of_services = "list services of app.kubernetes.io/managed-by=appdeploy";
    let calls = [
        ("create services web #2", "GOAWAY"),
        ("create services web #2", "GOAWAY excludes it"),
        ("create services web #2", "stream refused"),
        ("create services web #2", "stream reset"),
        ("create services web #2", "stalled body"),
        ("create services web #2", "stalled answer"),
        (of_services, "GOAWAY"),
        (of_services, "GOAWAY excludes it"),
        (of_services, "stream reset"),
        (of_services, "interrupted"),
        (of_services, "frozen"),
        (of_services, "cut"),
        (list_of_services, "410"),
        (list_of_services, "truncated"),
    ];
    let plans: Vec<Plan> = calls
        .iter()
        .map(|(call, fault)| {
            let name = format!("app-heal: {call}: {fault}");
            let plan = campaign.plans().iter().find(|plan| plan.to_string() == name);
            assert!(plan.is_some(), "{name} is not one of {:#?}", campaign.plans());
            plan.unwrap().clone()
        })
        .collect();
    survives(&cluster, &campaign, &plans);
}

/// The watch sends nothing until the operator gives up after two minutes, while others on its connection do.
#[test]
#[ignore = "takes minutes: make test-long"]
fn stalled_watch_among_live_ones_is_restarted() {
    let cluster = cluster();
    let campaign = campaign(&cluster, "app-heal");
    let stalled = campaign
        .plans()
        .iter()
        .filter(|plan| plan.fault == Fault::Stalled && ["services", "ingresses"].contains(&&*plan.call.resource));
    let stalled: Vec<Plan> = stalled.cloned().collect();
    assert_eq!(stalled.len(), 2, "{:#?}", campaign.plans());
    survives(&cluster, &campaign, &stalled);
}

/// Remedy: an owner that has lost an object is re-read before the object is created again. Without it, each object was created and
/// garbage-collected many times a second, until the watch reported the deletion.
#[test]
fn nothing_is_created_for_an_owner_whose_deletion_is_reported_late() {
    let cluster = cluster();
    for (scenario, plan) in [
        ("app-delete", "app-delete: watch appdeploys: frozen"),
        ("set-delete", "set-delete: watch podsets: frozen"),
    ] {
        let campaign = campaign(&cluster, scenario);
        let named = campaign.plans().iter().filter(|one| one.to_string() == plan);
        let named: Vec<Plan> = named.cloned().collect();
        assert_eq!(named.len(), 1, "{plan}");
        survives(&cluster, &campaign, &named);
    }
}

/// A tenant who attacks between the steps, while something goes wrong. `make faults tenant` and `make faults guarded` do all of
/// it.
#[test]
fn hostile_tenant_gains_nothing_with_any_fault() {
    let cluster = cluster();
    for name in ["tenant-born", "guarded-host"] {
        let campaign = campaign(&cluster, name);
        let quick = |plan: &&Plan| !plan.fault.is_slow() && plan.call.nth == 1 && plan.call.is_write();
        let quick: Vec<Plan> = campaign.plans().iter().filter(quick).cloned().collect();
        survives(&cluster, &campaign, &choice(&quick, 1, 3));
    }
}

/// C1, with the campaign's invariants: the caches of a follower may be outdated when it becomes the leader, and only the leader
/// writes.
#[test]
fn follower_takes_over_with_current_objects() {
    let cluster = cluster();
    for (scenario, plans) in [
        (
            "led-app",
            [
                "led-app: watch appdeploys: stale",
                "led-app: create services web: crash unanswered",
            ],
        ),
        (
            "led-set",
            [
                "led-set: watch podsets: stale",
                "led-set: delete pods set-1: crash before",
            ],
        ),
    ] {
        let campaign = campaign(&cluster, scenario);
        let named = campaign
            .plans()
            .iter()
            .filter(|one| plans.contains(&one.to_string().as_str()));
        let named: Vec<Plan> = named.cloned().collect();
        assert_eq!(named.len(), plans.len(), "{:#?}", campaign.plans());
        survives(&cluster, &campaign, &named);
    }
}

/// Crashes and other faults at the calls of a queue service. `make faults NAME=queue` runs all of them.
#[test]
#[ignore = "takes minutes: make test-long"]
fn queues_converge_to_the_same_state_with_any_fault() {
    let cluster = cluster();
    for name in ["queue-delete", "queue-change", "queue-outside", "queue-credentials"] {
        let campaign = campaign(&cluster, name);
        // How often a queue is read is up to the time a run takes.
        let is_met = |plan: &&Plan| plan.call.is_outside() && plan.call.nth == 1;
        let all: Vec<Plan> = campaign.plans().iter().filter(is_met).cloned().collect();
        let of = |wanted: fn(&Plan) -> bool| -> Vec<Plan> { all.iter().filter(|plan| wanted(plan)).cloned().collect() };
        let crashes = of(|plan| plan.call.is_write() && matches!(plan.fault, Fault::Crash(_)));
        let others = of(|plan| !plan.fault.is_slow() && !matches!(plan.fault, Fault::Crash(_)));
        assert!(crashes.len() >= 3 && others.len() >= 12, "{:#?}", campaign.plans());
        let plans = [choice(&crashes, 3, crashes.len()), choice(&others, 4, 12)].concat();
        survives(&cluster, &campaign, &plans);
    }
}
