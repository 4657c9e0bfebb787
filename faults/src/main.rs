//! Runs the campaign: every fault at every call of every scenario, for the operator and the plugin.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use faults::campaign::cluster::Cluster;
use faults::campaign::installation::{self, Clusters};
use faults::campaign::journal::{self, Journal};
use faults::campaign::page::{self, BEGIN, END, Environment};
use faults::campaign::plan::{Plan, choose};
use faults::campaign::run::Verdict;
use faults::campaign::{Campaign, catalog};
use testcluster::binaries::Program;

/// Run every scenario with every fault at every call, and compare the results with those of fault-free runs.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// Run only plans with this text in their name, such as `app-create: create`.
    #[arg(default_value = "")]
    name: String,
    /// List the plans without running them.
    #[arg(long)]
    list: bool,
    /// Run this many randomly chosen plans of each scenario.
    #[arg(long, value_name = "N")]
    choose: Option<usize>,
    /// Seed of the random choice.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of concurrent runs.
    #[arg(long, value_name = "N", default_value_t = 4)]
    workers: usize,
    /// Also run plans that the same program has already survived [default: skip them].
    #[arg(long)]
    again: bool,
    /// The operator [default: the one next to this program].
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// The plugin [default: the one next to this program].
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// File for the results of the plans, one line of JSON each.
    #[arg(long, value_name = "FILE", default_value = "target/faults/results.jsonl")]
    results: PathBuf,
    /// Run no plans, and write the results into this page, between its markers.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    page: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  # Run all plans that have not passed yet
  make faults

  # Kill the operator while it creates a Deployment
  make faults NAME='create deployments web: crash'

  # Run all plans of the scenarios whose name begins with queue
  make faults NAME=queue

  # Interrupt an installation at each of its calls
  make faults NAME='install:'

  # Write the results into docs/reliability.md
  make reliability

Exit code: 0 if all plans survived, 1 if not.";

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all plans survived.
fn run(cli: &Cli) -> Result<bool> {
    if let Some(page) = &cli.page {
        write_page(&cli.results, page)?;
        return Ok(true);
    }
    let sibling_program = |given: &Option<PathBuf>, name: &str| match given {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().map(|this| this.with_file_name(name)),
    };
    let mut total = Tally::default();
    // The calls of a scenario are known only after a fault-free run, so only its name is compared here.
    let all = catalog::all();
    let names = all
        .iter()
        .map(|one| one.name)
        .chain(installation::all().into_iter().map(|one| one.name));
    let is_of_scenarios = !cli.name.is_empty() && names.clone().any(|name| name.starts_with(&cli.name));
    let is_selected = |name: &str| match cli.name.split_once(':') {
        Some((only, _)) => only == name,
        None => !is_of_scenarios || name.starts_with(&cli.name),
    };

    let scenarios: Vec<_> = all.into_iter().filter(|one| is_selected(one.name)).collect();
    if !scenarios.is_empty() {
        let operator = sibling_program(&cli.operator, "appdeploy-operator")?;
        let mut journal = Journal::open(&cli.results, &operator)?;
        let cluster = Cluster::start(&operator).context("failed to start a cluster")?;
        for scenario in scenarios {
            let name = scenario.name;
            let tally = match Campaign::of(&cluster, scenario) {
                Ok(campaign) => run_scenario(
                    cli,
                    &mut journal,
                    name,
                    campaign.plans(),
                    campaign.compared(),
                    |plans, each| campaign.run_plans(&cluster, plans, cli.workers, each),
                )?,
                Err(error) => report_failure(name, &error)?,
            };
            total.add(tally);
        }
    }

    let scenarios: Vec<_> = installation::all()
        .into_iter()
        .filter(|one| is_selected(one.name))
        .collect();
    if !scenarios.is_empty() {
        let plugin = sibling_program(&cli.plugin, "kubectl-appdeploy")?;
        let mut journal = Journal::open(&cli.results, &plugin)?;
        let clusters = Clusters::of(&plugin);
        for scenario in scenarios {
            let name = scenario.name;
            let tally = match installation::Campaign::of(&clusters, scenario) {
                Ok(campaign) => run_scenario(
                    cli,
                    &mut journal,
                    name,
                    campaign.plans(),
                    campaign.compared(),
                    |plans, each| campaign.run_plans(&clusters, plans, cli.workers, each),
                )?,
                Err(error) => report_failure(name, &error)?,
            };
            total.add(tally);
        }
    }

    if !cli.list {
        eprint_line(&format!(
            "{} survived, {} failed, {} whose call did not occur; see {} for details",
            total.survived,
            total.failed,
            total.unreached,
            cli.results.display()
        ))?;
    }
    Ok(total.failed == 0)
}

/// Reports that a scenario can't be run, which is a failure.
fn report_failure(name: &str, error: &anyhow::Error) -> Result<Tally> {
    eprint_line(&format!("{name}: {error:#}"))?;
    Ok(Tally {
        failed: 1,
        ..Tally::default()
    })
}

/// The callback for the result of a plan.
type Each<'a> = &'a mut (dyn FnMut(&Plan, &Verdict, Duration) -> Result<()> + Send);

/// Lists the plans of a scenario, or runs those that are left.
fn run_scenario(
    cli: &Cli,
    journal: &mut Journal,
    name: &str,
    plans: &[Plan],
    (compared, varying): (usize, usize),
    run_plans: impl FnOnce(&[Plan], Each<'_>) -> Result<()>,
) -> Result<Tally> {
    let all = plans.len();
    let plans = selected(plans, cli);
    let mut tally = Tally::default();
    if cli.list {
        for plan in &plans {
            writeln!(io::stdout(), "{plan}")?;
        }
        return Ok(tally);
    }
    journal.begin(name, all)?;
    let known = |plan: &&Plan| !cli.again && journal.entry(&plan.to_string()).is_some();
    let left: Vec<Plan> = plans.iter().filter(|plan| !known(plan)).cloned().collect();
    eprint_line(&format!(
        "{name}: {} of {} plans left; {compared} fields are compared, {varying} differ between runs",
        left.len(),
        plans.len()
    ))?;
    let started = Instant::now();
    let mut done = 0_u32;
    run_plans(&left, &mut |plan, verdict, took| {
        done += 1;
        journal.write(&plan.to_string(), verdict, took)?;
        let left = left.len().saturating_sub(done as usize);
        let remaining = started.elapsed() / done * u32::try_from(left).unwrap_or(u32::MAX);
        let (seconds, remaining) = (took.as_secs_f64(), minutes(remaining));
        let word = tally.count(verdict);
        eprint_line(&format!(
            "{word} in {seconds:.1} s: {plan}; {left} left, about {remaining}"
        ))?;
        if let Verdict::Failed(problems) = verdict {
            for problem in problems {
                eprint_line(&format!("  {}", problem.replace('\n', "\n    ")))?;
            }
        }
        Ok(())
    })?;
    Ok(tally)
}

fn write_page(results: &Path, page: &Path) -> Result<()> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()));
    let environment = Environment {
        appdeploy: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes: Program::KubeApiserver.version().to_owned(),
        cores: thread::available_parallelism()?.get(),
    };
    let shown = page::results(&journal::found(&read(results)?), &environment);
    let text = page::insert(&read(page)?, &shown).with_context(|| {
        format!(
            "{} does not have the lines {} and {}",
            page.display(),
            BEGIN.trim_end(),
            END.trim_end()
        )
    })?;
    fs::write(page, text).with_context(|| format!("failed to write {}", page.display()))
}

fn selected(plans: &[Plan], cli: &Cli) -> Vec<Plan> {
    let named = plans.iter().filter(|plan| plan.to_string().contains(&cli.name));
    let named: Vec<Plan> = named.cloned().collect();
    match cli.choose {
        Some(count) => choose(&named, count, cli.seed),
        None => named,
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    survived: usize,
    failed: usize,
    unreached: usize,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.survived += other.survived;
        self.failed += other.failed;
        self.unreached += other.unreached;
    }

    /// Counts a verdict, and returns its name.
    fn count(&mut self, verdict: &Verdict) -> &'static str {
        let (count, word) = match verdict {
            Verdict::Survived => (&mut self.survived, "survived"),
            Verdict::Failed(_) => (&mut self.failed, "FAILED"),
            Verdict::Unreached => (&mut self.unreached, "its call did not occur"),
        };
        *count += 1;
        word
    }
}

fn minutes(time: Duration) -> String {
    format!("{} min", time.as_secs().div_ceil(60))
}

fn eprint_line(line: &str) -> Result<()> {
    Ok(writeln!(io::stderr(), "{line}")?)
}
