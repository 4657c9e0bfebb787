//! A choice of what `make faults` does to an installation: one thing goes wrong, and the same command is run again.

use std::path::Path;
use std::sync::Mutex;

use faults::campaign::installation::{self, Campaign, Clusters};
use faults::campaign::plan::Plan;
use faults::campaign::run::Verdict;

#[test]
fn installation_converges_to_the_same_state_with_any_fault() {
    let clusters = Clusters::of(Path::new(env!("CARGO_BIN_EXE_kubectl-appdeploy")));
    let scenario = installation::all().swap_remove(0);
    let campaign = Campaign::of(&clusters, scenario).unwrap();
    let wanted = [
        "install: patch customresourcedefinitions appdeploys.appdeploy.dev: crash unanswered",
        "install: patch clusterroles appdeploy-operator: crash before",
        "install: patch deployments appdeploy-operator: crash after",
        "install: patch serviceaccounts appdeploy-operator: 504 but done",
        // Remedies: each of these was passed over in silence, or said nothing of what to do.
        "install: list endpointslices of kubernetes.io/service-name=kubernetes: 500",
        "install: patch services appdeploy-webhook: 410",
        "install: patch services appdeploy-webhook: hangs",
    ];
    let plans = campaign.plans().iter();
    let plans: Vec<Plan> = plans
        .filter(|plan| wanted.contains(&plan.to_string().as_str()))
        .cloned()
        .collect();
    assert_eq!(plans.len(), wanted.len(), "{plans:?}");
    let failed = Mutex::new(Vec::new());
    let carried_out = campaign.run_plans(&clusters, &plans, 2, |plan, verdict, _| {
        if *verdict != Verdict::Survived {
            failed.lock().unwrap().push(format!("{plan}: {verdict:#?}"));
        }
        Ok(())
    });
    carried_out.unwrap();
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
