//! What the operating system says of this process, under the names that all Prometheus clients use. Where there is no
//! `/proc`, only the start is known.

use std::fmt;
use std::fs;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// How often a second Linux counts the time that a process had. It is the same on every machine that this runs on.
const TICKS: f64 = 100.0;

/// This process, looked at whenever it is asked about.
#[derive(Debug)]
pub struct Process {
    /// Seconds since 1970.
    started: f64,
}

impl Process {
    /// Takes now for the time at which the process started.
    pub fn new() -> Self {
        Self {
            started: Timestamp::now().as_duration().as_secs_f64(),
        }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name: &str, help: &str, value: Option<f64>| match value {
            Some(value) => {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
            }
            None => Ok(()),
        };
        let start = Some(self.started);
        gauge(
            "process_start_time_seconds",
            "When the process started, in seconds since 1970",
            start,
        )?;
        gauge("process_resident_memory_bytes", "Resident memory", resident_memory())?;
        gauge("process_open_fds", "Open files and connections", open_files())?;
        gauge("process_max_fds", "How many may be open", most_files())?;
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let help = "Time on a CPU, in the kernel and outside";
            counter.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}

fn resident_memory() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn cpu_seconds() -> Option<f64> {
    ticks(&fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| ticks / TICKS)
}

/// Reads the two fields after the name, which may itself contain blanks and parentheses.
fn ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn open_files() -> Option<f64> {
    // The folder that is being read is one of them.
    let open = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u32::try_from(open).ok().map(f64::from)
}

fn most_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_in_a_process_name_do_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 12345 1000 200";
        assert_eq!(ticks(stat), Some(300.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_files() {
        assert!(resident_memory() > Some(1e6));
        assert!(open_files() >= Some(3.0) && open_files() < most_files());
        assert!(cpu_seconds().is_some());
    }
}
