//! The benchmark: this operator, the floor and an operator in Go, in turns.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use bench::contender::{Contender, Entry};
use bench::journal::{About, Journal};
use bench::run::{Size, run};
use bench::section::{self, Markers};
use bench::{format, machine, memory, page, plot, queues, scale};
use clap::{Parser, Subcommand};
use testcluster::checkout::root;

/// Measure the cost of an operator: time, requests, memory.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// The folder of the results.
    #[arg(long, global = true, value_name = "FOLDER", default_value = "target/bench")]
    results: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measure, and print the results as Markdown.
    Run(Run),
    /// Measure the operator's peak memory under its limit, with many apps and under attack.
    Memory(Memory),
    /// Measure the cost of queues outside of the cluster that nothing changes.
    Queues(Queues),
    /// Measure how far one operator goes: many apps, restarts while images change, and many pods that fail at the same time.
    Scale(Scale),
    /// Write the results into a folder, as performance.json, performance.md and performance.svg.
    Page {
        /// The folder. It has a performance.md with a place for results.
        #[arg(default_value = "docs", value_name = "FOLDER")]
        docs: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Memory {
    /// How many apps the largest case has.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    apps: usize,
    /// This operator [default: the one next to this program].
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Page to write the figures into. Without it, they are only printed.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Queues {
    /// How many queues there are.
    #[arg(long = "queues", default_value_t = 1000, value_name = "N")]
    count: usize,
    /// How many minutes to measure.
    #[arg(long, default_value_t = 5, value_name = "MINUTES")]
    minutes: u32,
    /// This operator [default: the one next to this program].
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Page to write the figures into. Without it, they are only printed.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Scale {
    /// How many apps there are.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    apps: usize,
    /// This operator [default: the one next to this program].
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Page to write the figures into. Without it, they are only printed.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Run {
    /// Numbers of apps, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100,1000,10000",
        value_name = "NUMBERS"
    )]
    apps: Vec<usize>,
    /// How often to measure each number of apps.
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// How long to record requests in a steady cluster, with the most apps, in seconds.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    steady: u64,
    /// The checkout of an operator in Go, which is built with `go build` [default: bench/peer-go, if Go is installed].
    #[arg(long, value_name = "FOLDER")]
    peer: Option<PathBuf>,
    /// Measure no operator in Go.
    #[arg(long, conflicts_with = "peer")]
    no_peer: bool,
    /// This operator [default: the one next to this program].
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Keep existing runs, and only make those that are missing.
    #[arg(long)]
    resume: bool,
}

const EXAMPLES: &str = "Examples:
  # Everything
  make bench-apps

  # Everything, compared with another operator in Go
  make bench-apps PEER=../operator-in-go

  # A quick look
  make bench-apps ARGS='--apps 100 --rounds 1 --steady 0 --no-peer'";

fn main() -> ExitCode {
    match execute(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: &Cli) -> Result<()> {
    let journal = Journal::new(&cli.results);
    match &cli.verb {
        Verb::Run(options) => measure(options, &journal, &cli.results),
        Verb::Memory(options) => measure_memory(options),
        Verb::Queues(options) => measure_queues(options),
        Verb::Scale(options) => measure_scale(options),
        Verb::Page { docs } => write_page(&journal, docs),
    }
}

fn measure(options: &Run, journal: &Journal, results: &Path) -> Result<()> {
    ensure!(
        options.rounds > 0 && !options.apps.contains(&0),
        "there is nothing to measure"
    );
    let peer = peer(options)?;
    let entries = entries(options, peer.as_deref(), results)?;
    if !options.resume {
        journal.clear()?;
    }
    journal.begin(&About {
        date: jiff::Timestamp::now().strftime("%F").to_string(),
        machine: machine::machine()?,
        versions: machine::versions(&operator(options.operator.as_ref())?, peer.as_deref())?,
    })?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let most = options.apps.iter().copied().max().unwrap_or_default();
    let mut failed = 0;
    for apps in &options.apps {
        for round in 1..=options.rounds {
            let size = Size {
                apps: *apps,
                round,
                steady_s: if *apps == most && round == 1 { options.steady } else { 0 },
            };
            // Each round begins with another contender.
            let turns = entries.iter().cycle().skip(round - 1).take(entries.len());
            for entry in turns.filter(|entry| !journal.has(entry.contender, *apps, round)) {
                if let Err(error) = one(entry, size, journal) {
                    failed += 1;
                    say(&format!("{}: {error:#}", entry.contender))?;
                }
            }
        }
    }
    writeln!(io::stdout(), "{}", page::results(&journal.report()?))?;
    ensure!(failed == 0, "{failed} runs failed");
    Ok(())
}

fn measure_memory(options: &Memory) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bench = memory::Bench {
        operator: operator(options.operator.as_ref())?,
        apps: options.apps,
        note: &|what| {
            // A failure to print does not stop the measurement.
            let _ = say(what);
        },
    };
    publish(
        &memory::results(&bench.run()?),
        options.page.as_deref(),
        memory::MARKERS,
    )
}

fn measure_queues(options: &Queues) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bench = queues::Bench {
        operator: operator(options.operator.as_ref())?,
        count: options.count,
        minutes: options.minutes,
    };
    publish(
        &queues::results(&bench.run()?),
        options.page.as_deref(),
        queues::MARKERS,
    )
}

fn measure_scale(options: &Scale) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let started = Instant::now();
    let figures = scale::Bench {
        operator: operator(options.operator.as_ref())?,
        apps: options.apps,
        note: &mut |what| {
            // A failure to print does not stop the measurement.
            let _ = say(&format!("{:5.0} s  {what}", started.elapsed().as_secs_f64()));
        },
    }
    .run()?;
    publish(&scale::results(&figures), options.page.as_deref(), scale::MARKERS)
}

/// Prints figures, and writes them into a page if there is one.
fn publish(figures: &str, page: Option<&Path>, markers: Markers) -> Result<()> {
    writeln!(io::stdout(), "{figures}")?;
    page.map_or(Ok(()), |page| write_section(page, markers, figures))
}

fn write_section(path: &Path, markers: Markers, text: &str) -> Result<()> {
    let page = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    let page = section::replace(&page, markers, text)
        .with_context(|| format!("{} has no place for the figures", path.display()))?;
    Ok(std::fs::write(path, page)?)
}

/// Returns the operator's program.
fn operator(named: Option<&PathBuf>) -> Result<PathBuf> {
    let operator = match named {
        Some(operator) => operator.clone(),
        None => std::env::current_exe()?.with_file_name("appdeploy-operator"),
    };
    ensure!(operator.is_file(), "there is no operator at {}", operator.display());
    Ok(operator)
}

fn one(entry: &Entry, size: Size, journal: &Journal) -> Result<()> {
    let Size { apps, round, .. } = size;
    let name = entry.contender.title();
    say(&format!("{name}, {}, round {round}", format::apps(apps)))?;
    let started = Instant::now();
    let mut note = |what: &str| {
        // A failure to print does not stop the measurement.
        let _ = say(&format!("  {:5.1} s  {what}", started.elapsed().as_secs_f64()));
    };
    let run = run(entry, size, machine::load()?, &mut note)?;
    note(&format!("all had converged after {:.2} s", run.converge.all_s));
    journal.write(&run)
}

/// Returns the contenders.
fn entries(options: &Run, peer: Option<&Path>, results: &Path) -> Result<Vec<Entry>> {
    let crds = memory::crds();
    let operator = operator(options.operator.as_ref())?;
    let entry = |contender, program, crds| Entry {
        contender,
        program,
        crds,
    };
    let mut entries = vec![
        entry(Contender::Floor, None, crds.clone()),
        entry(Contender::AppDeploy, Some(operator), crds.clone()),
    ];
    if let Some(peer) = peer {
        let own = peer.join("crd.yaml");
        let crds = if own.is_file() { vec![own] } else { crds };
        entries.push(entry(Contender::Peer, Some(build(peer, results)?), crds));
    }
    Ok(entries)
}

/// Returns the checkout of the operator in Go; `None` if there is none to measure.
fn peer(options: &Run) -> Result<Option<PathBuf>> {
    if options.no_peer || options.peer.is_some() {
        return Ok(options.peer.clone());
    }
    if Command::new("go").arg("version").output().is_err() {
        say("no operator in Go is measured, because Go is not installed: https://go.dev/doc/install")?;
        return Ok(None);
    }
    Ok(Some(root().join("bench/peer-go")))
}

/// Builds an operator in Go, and returns the program. Its checkout is not changed.
fn build(checkout: &Path, into: &Path) -> Result<PathBuf> {
    ensure!(
        checkout.join("go.mod").is_file(),
        "{} is not a checkout of a Go module",
        checkout.display()
    );
    let program = std::path::absolute(into.join("peer-operator"))?;
    let mut go = Command::new("go");
    go.current_dir(checkout)
        .env("CGO_ENABLED", "0")
        .args(["build", "-trimpath", "-ldflags=-s -w", "-o"])
        .args([program.as_os_str(), ".".as_ref()]);
    machine::said(&mut go).context("failed to build the operator in Go")?;
    Ok(program)
}

fn write_page(journal: &Journal, docs: &Path) -> Result<()> {
    let numbers = docs.join("performance.json");
    bench::journal::write(&numbers, &journal.report()?)?;
    // Read from the file, so that the page is the same for everyone.
    let report = bench::journal::read(&numbers)?;
    write_section(&docs.join("performance.md"), page::MARKERS, &page::results(&report))?;
    Ok(std::fs::write(docs.join("performance.svg"), plot::plot(&report))?)
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(io::stderr(), "{line}")?)
}
