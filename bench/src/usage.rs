//! The CPU time of a process, from the kernel.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// Returns the CPU time of a process, with all its threads.
///
/// # Errors
/// When it has exited.
pub fn cpu(pid: u32) -> Result<Duration> {
    let text = read(pid, "stat")?;
    ticks(&text)
        .map(|ticks| Duration::from_millis(ticks * 1000 / TICKS))
        .with_context(|| format!("failed to understand the processor time of {pid}"))
}

/// The number of ticks in a second of CPU time, on every Linux.
const TICKS: u64 = 100;

fn read(pid: u32, what: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{what}");
    std::fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))
}

/// Returns user and system time. The name of the program is in parentheses before them, and may contain anything.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_parsed_after_any_program_name() {
        let stat = "77 (a ) 1 2) S 1 77 77 0 -1 4194560 900 0 0 0 250 31 0 0 20 0 5 0 100 1000 200";
        assert_eq!(ticks(stat), Some(281));
    }

    #[test]
    fn own_process_uses_resources() {
        assert!(cpu(std::process::id()).is_ok());
    }
}
