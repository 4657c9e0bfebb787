//! Resource usage of a process, from the kernel.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The open descriptors of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Established TCP connections to a port.
    pub connections: usize,
    /// Descriptors of any kind.
    pub descriptors: usize,
}

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

/// Returns the open descriptors of a process; connections are those to `port`.
///
/// # Errors
/// When it has exited.
pub fn open(pid: u32, port: u16) -> Result<Open> {
    let mut sockets = Vec::new();
    let mut descriptors = 0;
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    for entry in std::fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))? {
        descriptors += 1;
        // A descriptor may have been closed in the meantime.
        let target = entry.and_then(|entry| std::fs::read_link(entry.path()));
        let target = target.unwrap_or_default().to_string_lossy().into_owned();
        sockets.extend(
            target
                .strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']'))
                .map(str::to_owned),
        );
    }
    let mut known = read(pid, "net/tcp")?;
    known.push_str(&read(pid, "net/tcp6").unwrap_or_default());
    let established = established(&known, port);
    Ok(Open {
        connections: sockets
            .iter()
            .filter(|inode| established.contains(&inode.as_str()))
            .count(),
        descriptors,
    })
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

/// Returns the inodes of the established connections to a port, from the kernel's table.
fn established(table: &str, port: u16) -> Vec<&str> {
    let ending = format!(":{port:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 9 && row[2].ends_with(&ending) && row[3] == "01")
        .map(|row| row[9])
        .collect()
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
    fn only_established_connections_to_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1\n\
             1: 0100007F:D431 0100007F:192B 01 00000000:00000000 00:00000000 00000000     0        0 12 1\n\
             2: 0100007F:D432 0100007F:192B 06 00000000:00000000 00:00000000 00000000     0        0 13 1\n";
        assert_eq!(established(table, 6443), ["12"]);
    }

    #[test]
    fn own_process_uses_resources() {
        let pid = std::process::id();
        assert!(cpu(pid).is_ok());
        assert!(open(pid, 1).unwrap().descriptors > 2);
    }
}
