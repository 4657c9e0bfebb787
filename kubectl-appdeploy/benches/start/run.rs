//! One run of the plugin: its time, its processor time and its peak memory.
//!
//! The kernel sums up what the children of a process used. So that this is one run of the plugin only, it is the child of
//! another process of this program.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// The variable that names the arguments of a run to measure.
const MEASURED: &str = "BENCH_START_LINE";

/// What one run used.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub time: Duration,
    /// User and system time.
    pub processor: Duration,
    /// The maximum of its resident memory.
    pub memory_mib: f64,
}

impl Run {
    /// Runs a line several times, and returns all runs but the first.
    pub fn several(line: &str, kubeconfig: &Path, first: usize, runs: usize) -> Result<Vec<Self>> {
        let all = (0..first + runs).map(|_| Self::of(line, kubeconfig));
        Ok(all.collect::<Result<Vec<_>>>()?.split_off(first))
    }

    fn of(line: &str, kubeconfig: &Path) -> Result<Self> {
        let output = Command::new(env::current_exe()?)
            .env(MEASURED, line)
            .env("KUBECONFIG", kubeconfig)
            .stderr(Stdio::inherit())
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [time, processor, memory] = numbers[..] else {
            anyhow::bail!("failed to run {line}");
        };
        Ok(Self {
            time: Duration::from_micros(time),
            processor: Duration::from_micros(processor),
            memory_mib: f64::from(u32::try_from(memory)?) / 1024.0,
        })
    }
}

/// Whether this process is one that measures a run.
pub fn is_measurement() -> bool {
    env::var_os(MEASURED).is_some()
}

/// Runs the plugin once, and prints its time, its processor time in microseconds, and its memory in KiB.
pub fn measure() -> Result<()> {
    let line = env::var(MEASURED)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-appdeploy"));
    command
        .args(line.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begin = Instant::now();
    let output = command.output()?;
    let time = begin.elapsed();
    ensure!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).context("failed to read the resource usage")?;
    let microseconds = |time: TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    let processor = microseconds(used.user_time()) + microseconds(used.system_time());
    println!("{} {processor} {}", time.as_micros(), used.max_rss());
    Ok(())
}
