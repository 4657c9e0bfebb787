//! The campaign: every fault at every call of every scenario, and what the operator made of it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use faults::campaign::journal::{self, Journal};
use faults::campaign::page::{self, BEGIN, Circumstances, END};
use faults::campaign::plan::{Plan, choose};
use faults::campaign::run::Verdict;
use faults::campaign::stage::Stage;
use faults::campaign::{Campaign, scenario};
use testcluster::binaries::Program;

/// Run every scenario with every fault at every call, and compare how it ends with how it ends undisturbed.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// Only plans with this text in their name, such as `app-create: create`.
    #[arg(default_value = "")]
    name: String,
    /// Say which plans there are, and run none.
    #[arg(long)]
    list: bool,
    /// Draw so many of each scenario, and don't run all.
    #[arg(long, value_name = "N")]
    choose: Option<usize>,
    /// What they are drawn by: the same number draws the same again.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many runs go on at a time.
    #[arg(long, value_name = "N", default_value_t = 4)]
    workers: usize,
    /// Run also what is known to be survived by the same operator.
    #[arg(long)]
    again: bool,
    /// The operator [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Where to write what became of each plan, a line of JSON each.
    #[arg(long, value_name = "FILE", default_value = "target/faults/results.jsonl")]
    results: PathBuf,
    /// Run nothing, and write what the results say into this page, between the lines that mark its place.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    page: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  # Everything that has not been survived yet
  make faults

  # What happens when the operator dies while it creates something
  make faults NAME='create deployments web: crash'

  # What became of them, written into the page about it
  make reliability

Exit code: 0 if all were survived, 1 if not.";

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

/// Returns whether everything was survived.
fn run(cli: &Cli) -> Result<bool> {
    if let Some(page) = &cli.page {
        write_page(&cli.results, page)?;
        return Ok(true);
    }
    let operator = match &cli.operator {
        Some(operator) => operator.clone(),
        None => std::env::current_exe()?.with_file_name("appdeploy-operator"),
    };
    let mut journal = Journal::open(&cli.results, &operator)?;
    let stage = Stage::start(&operator).context("failed to start a cluster")?;
    let mut total = Tally::default();
    for scenario in scenario::all() {
        let name = scenario.name;
        if cli.name.split_once(':').is_some_and(|(only, _)| only != name) {
            continue;
        }
        let campaign = match Campaign::of(&stage, scenario) {
            Ok(campaign) => campaign,
            Err(error) => {
                say(&format!("{name}: {error:#}"))?;
                total.failed += 1;
                continue;
            }
        };
        let plans = selected(&campaign, cli);
        if cli.list {
            for plan in &plans {
                writeln!(io::stdout(), "{plan}")?;
            }
            continue;
        }
        journal.begin(name, campaign.plans().len())?;
        let (compared, varying) = campaign.compared();
        let known = |plan: &&Plan| !cli.again && journal.entry(&plan.to_string()).is_some();
        let left: Vec<Plan> = plans.iter().filter(|plan| !known(plan)).cloned().collect();
        say(&format!(
            "{name}: {} of {} plans left; {compared} fields are compared, beside {varying} that differ by themselves",
            left.len(),
            plans.len()
        ))?;
        let tally = carry_out(&campaign, &stage, &left, cli.workers, &mut journal)?;
        total.add(tally);
    }
    if !cli.list {
        say(&format!(
            "{} survived, {} failed, {} did not come up; {} has the details",
            total.survived,
            total.failed,
            total.unreached,
            journal.path().display()
        ))?;
    }
    Ok(total.failed == 0)
}

fn write_page(results: &Path, page: &Path) -> Result<()> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()));
    let circumstances = Circumstances {
        appdeploy: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes: Program::KubeApiserver.version().to_owned(),
        cores: thread::available_parallelism()?.get(),
    };
    let shown = page::results(&journal::found(&read(results)?), &circumstances);
    let text = page::insert(&read(page)?, &shown).with_context(|| {
        format!(
            "{} lacks the line {} or {}",
            page.display(),
            BEGIN.trim_end(),
            END.trim_end()
        )
    })?;
    fs::write(page, text).with_context(|| format!("failed to write {}", page.display()))
}

fn selected(campaign: &Campaign, cli: &Cli) -> Vec<Plan> {
    let named = campaign
        .plans()
        .iter()
        .filter(|plan| plan.to_string().contains(&cli.name));
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
}

fn carry_out(
    campaign: &Campaign,
    stage: &Stage,
    plans: &[Plan],
    workers: usize,
    journal: &mut Journal,
) -> Result<Tally> {
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut done = 0_u32;
    campaign.carry_out(stage, plans, workers, |plan, verdict, took| {
        done += 1;
        journal.write(&plan.to_string(), verdict, took)?;
        let left = plans.len().saturating_sub(done as usize);
        let remaining = started.elapsed() / done * u32::try_from(left).unwrap_or(u32::MAX);
        let word = match verdict {
            Verdict::Survived => {
                tally.survived += 1;
                "survived"
            }
            Verdict::Failed(_) => {
                tally.failed += 1;
                "FAILED"
            }
            Verdict::Unreached => {
                tally.unreached += 1;
                "did not come up"
            }
        };
        let (seconds, remaining) = (took.as_secs_f64(), minutes(remaining));
        say(&format!(
            "{word} in {seconds:.1} s: {plan}; {left} left, about {remaining}"
        ))?;
        if let Verdict::Failed(problems) = verdict {
            for problem in problems {
                say(&format!("  {}", problem.replace('\n', "\n    ")))?;
            }
        }
        Ok(())
    })?;
    Ok(tally)
}

fn minutes(time: Duration) -> String {
    format!("{} min", time.as_secs().div_ceil(60))
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(io::stderr(), "{line}")?)
}
