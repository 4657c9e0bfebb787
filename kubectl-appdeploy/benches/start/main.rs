//! How long the plugin takes: to start, which a shell waits for before each completion, and to list many apps.

#![expect(clippy::print_stdout, reason = "a bench prints its results")]

mod apps;
mod run;

use std::path::Path;

use anyhow::Result;
use run::Run;

/// How often each line is run that sends no request. The first runs, which read the program from the disk, do not count.
const RUNS: usize = 100;
const FIRST: usize = 10;

fn main() -> Result<()> {
    if run::is_measurement() {
        return run::measure();
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average: {}", load.trim_end());
    println!("{:<46} median  slowest of ten  processor   memory", "kubectl-appdeploy");
    for line in ["--help", "status --help", "version --client", "__complete sta"] {
        print(line, Run::several(line, Path::new(""), FIRST, RUNS)?);
    }
    let apps = apps::Apps::start()?;
    for count in [1_000, 10_000] {
        apps.grow_to(count)?;
        for line in ["status -A", "status -A -o name"] {
            print(
                &format!("{line}, {count} apps"),
                Run::several(line, &apps.kubeconfig(), 1, 10)?,
            );
        }
    }
    Ok(())
}

/// Prints the medians of several runs, and the time of the slowest of ten.
fn print(name: &str, runs: Vec<Run>) {
    let of = |part: fn(&Run) -> f64, share: usize| {
        let mut all: Vec<f64> = runs.iter().map(part).collect();
        all.sort_by(f64::total_cmp);
        all[(all.len() * share / 100).min(all.len() - 1)]
    };
    let time: fn(&Run) -> f64 = |run| run.time.as_secs_f64() * 1000.0;
    let processor: fn(&Run) -> f64 = |run| run.processor.as_secs_f64() * 1000.0;
    let memory: fn(&Run) -> f64 = |run| run.memory_mib;
    println!(
        "{name:<42} {:>7.1} ms      {:>7.1} ms {:>7.1} ms {:>4.1} MiB",
        of(time, 50),
        of(time, 90),
        of(processor, 50),
        of(memory, 50)
    );
}
