//! One run of a command, with or without a fault.

use anyhow::{Result, bail};

use super::cluster::Cluster;
use super::command::{self, Done, End};
use super::snapshot::{Snapshot, history};
use super::{Baseline, Scenario, UNINSTALL};
use crate::campaign::call::{Call, calls};
use crate::campaign::fault::Fault;
use crate::campaign::oracle::Outcome;
use crate::campaign::plan::Plan;
use crate::campaign::run::Verdict;
use fault_proxy::Proxy;
use fault_proxy::{Record, Rule, Verb};

/// Flags that bound how long a command waits for an answer.
const BOUNDS: &str = "--request-timeout=5s --timeout=20s";
/// The HTTP status of a successful create.
const CREATED: u16 = 201;

/// The result of a fault-free run.
#[derive(Debug)]
pub(super) struct FaultFree {
    pub(super) outcome: Outcome,
    pub(super) calls: Vec<(Call, usize)>,
    pub(super) created: usize,
}

/// Runs a command without a fault.
pub(super) fn fault_free(cluster: &Cluster, scenario: &Scenario) -> Result<FaultFree> {
    let run = Run::start(cluster, scenario)?;
    let done = run.command(scenario.command, || false)?;
    if done.end != End::Exited(0) {
        bail!("{} fails without any fault: {}", scenario.name, done.said);
    }
    let moment = cluster.snapshot()?;
    let records = run.proxy.records();
    let found = FaultFree {
        outcome: run.outcome(&[&moment]),
        calls: calls(&records),
        created: created(&records),
    };
    let problems = leave(cluster)?;
    if !problems.is_empty() {
        bail!(
            "{} leaves objects without any fault: {}",
            scenario.name,
            problems.join("; ")
        );
    }
    Ok(found)
}

/// Runs a command with the fault of a plan, and then once more without it. Returns the verdict, and whether the cluster
/// was restored.
pub(super) fn with_fault(
    cluster: &Cluster,
    scenario: &Scenario,
    plan: &Plan,
    baseline: &Baseline,
) -> Result<(Verdict, bool)> {
    let run = Run::start(cluster, scenario)?;
    let Plan { call, fault, .. } = plan;
    let Some(action) = fault.action() else {
        bail!("{plan} has no call");
    };
    let rule = run.proxy.add(Rule::new(call.requests(), action).nth(call.nth));
    let is_to_die = matches!(fault, Fault::Crash(_));
    let first = run.command(&format!("{} {BOUNDS}", scenario.command), || {
        is_to_die && run.proxy.hits(rule) > 0
    })?;
    let reached = run.proxy.hits(rule) > 0;
    run.proxy.clear();
    let between = cluster.snapshot()?;
    let mut problems = first.problems();
    if first.end == End::Exited(0) {
        let differences = baseline.expected.differences(&run.outcome(&[&between]));
        problems.extend(
            differences
                .iter()
                .map(|difference| format!("it reported success, but: {difference}")),
        );
    }
    let again = run.command(scenario.command, || false)?;
    if again.end != End::Exited(0) {
        problems.push("the same command did not finish it in the second run".to_owned());
    }
    let last = cluster.snapshot()?;
    let differences = baseline.expected.differences(&run.outcome(&[&between, &last]));
    problems.extend(differences.iter().map(ToString::to_string));
    problems.extend(cluster.base.changed_third_party(&last));
    let created = created(&run.proxy.records());
    if created != baseline.created {
        problems.push(format!(
            "{created} objects were created, and {} without faults",
            baseline.created
        ));
    }
    let left = leave(cluster)?;
    let is_clean = left.is_empty();
    problems.extend(left);
    let verdict = match (problems.is_empty(), reached) {
        (false, _) => {
            problems.push(format!("the first output of the plugin:\n{}", first.said));
            problems.push(format!("the second output:\n{}", again.said));
            Verdict::Failed(problems)
        }
        (true, true) => Verdict::Survived,
        (true, false) => Verdict::Unreached,
    };
    Ok((verdict, is_clean))
}

/// Uninstalls, and returns the remaining objects and those that were not restored.
fn leave(cluster: &Cluster) -> Result<Vec<String>> {
    let Cluster {
        plugin, control_plane, ..
    } = cluster;
    let done = command::run(plugin, control_plane, &control_plane.kubeconfig(), UNINSTALL, || false)?;
    let mut problems = Vec::new();
    if done.end != End::Exited(0) {
        problems.push(format!("the uninstallation fails: {}", done.said));
    }
    let now = cluster.snapshot()?;
    let left = now.without(&cluster.base).titles();
    problems.extend(
        left.iter()
            .map(|title| format!("{title} is left after the uninstallation")),
    );
    problems.extend(cluster.base.changed_third_party(&now));
    Ok(problems)
}

/// Returns how many objects were created, according to the API server's answers.
fn created(records: &[Record]) -> usize {
    let is_created = |record: &&Record| {
        let request = &record.request;
        let is_kept = !request.resource.ends_with("reviews");
        is_kept && matches!(request.verb, Verb::Create | Verb::Patch) && record.status == Some(CREATED)
    };
    records.iter().filter(is_created).count()
}

/// A run in progress.
struct Run<'a> {
    cluster: &'a Cluster,
    proxy: Proxy,
    before: Snapshot,
}

impl<'a> Run<'a> {
    /// Creates the objects that exist before the command.
    fn start(cluster: &'a Cluster, scenario: &Scenario) -> Result<Self> {
        let Cluster {
            plugin, control_plane, ..
        } = cluster;
        if let Some(before) = scenario.before {
            let done = command::run(plugin, control_plane, &control_plane.kubeconfig(), before, || false)?;
            if done.end != End::Exited(0) {
                bail!("{before} fails: {}", done.said);
            }
        }
        for object in &scenario.objects {
            control_plane.apply(&object.to_string())?;
        }
        Ok(Self {
            proxy: Proxy::before(control_plane, "person", &["system:masters"])?,
            before: cluster.snapshot()?,
            cluster,
        })
    }

    fn command(&self, line: &str, is_far_enough: impl Fn() -> bool) -> Result<Done> {
        let Cluster {
            plugin, control_plane, ..
        } = self.cluster;
        command::run(plugin, control_plane, self.proxy.kubeconfig(), line, is_far_enough)
    }

    /// Returns the outcome from these snapshots and a new one.
    fn outcome(&self, moments: &[&Snapshot]) -> Outcome {
        let base = &self.cluster.base;
        let moments: Vec<Snapshot> = [&self.before]
            .into_iter()
            .chain(moments.iter().copied())
            .map(|moment| moment.without(base))
            .collect();
        Outcome::of(&history(&moments.iter().collect::<Vec<_>>()), crd::OPERATOR_NAMESPACE)
    }
}
