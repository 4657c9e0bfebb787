//! A choice of what `make faults` does: an app is made and given another image, with one thing going wrong at a time.

use std::path::Path;
use std::sync::Mutex;

use faults::campaign::fault::Fault;
use faults::campaign::plan::{Plan, choose};
use faults::campaign::run::Verdict;
use faults::campaign::stage::Stage;
use faults::campaign::{Campaign, scenario};

/// How many are drawn beside the crashes.
const DRAWN: usize = 12;
const WORKERS: usize = 4;

#[test]
fn an_app_ends_the_same_whatever_goes_wrong_on_the_way() {
    let stage = Stage::start(Path::new(env!("CARGO_BIN_EXE_appdeploy-operator"))).unwrap();
    let scenarios = scenario::all();
    let scenario = scenarios.into_iter().find(|scenario| scenario.name == "app-image");
    let campaign = Campaign::of(&stage, scenario.unwrap()).unwrap();

    let is_of_children = |plan: &&Plan| !plan.call.resource.contains('/');
    let crashes = campaign.plans().iter().filter(is_of_children);
    let mut plans: Vec<Plan> = crashes
        .filter(|plan| matches!(plan.fault, Fault::Crash(_)))
        .cloned()
        .collect();
    // Three points of each write to a child: three creates and the patch with the new image.
    assert_eq!(plans.len(), 12, "{plans:?}");
    // How often a status is written is up to the time it takes.
    let others = campaign
        .plans()
        .iter()
        .filter(|plan| !plans.contains(plan) && !plan.fault.is_slow() && plan.call.nth == 1);
    plans.extend(choose(&others.cloned().collect::<Vec<_>>(), DRAWN, 1));

    let failed = Mutex::new(Vec::new());
    let carried_out = campaign.carry_out(&stage, &plans, WORKERS, |plan, verdict, _| {
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
