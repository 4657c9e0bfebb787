//! The open descriptors of a process, from the kernel.

use std::io;

/// The open descriptors of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Established TCP connections to a port.
    pub connections: usize,
    /// Descriptors of any kind.
    pub descriptors: usize,
}

impl Open {
    /// Returns the open descriptors of a process; connections are those to `port`.
    ///
    /// # Errors
    /// When the process has exited, or there is no /proc.
    pub fn of(pid: u32, port: u16) -> io::Result<Self> {
        let mut sockets = Vec::new();
        let mut descriptors = 0;
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
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
        let mut known = std::fs::read_to_string(format!("/proc/{pid}/net/tcp"))?;
        known.push_str(&std::fs::read_to_string(format!("/proc/{pid}/net/tcp6")).unwrap_or_default());
        let established = established(&known, port);
        Ok(Self {
            connections: sockets
                .iter()
                .filter(|inode| established.contains(&inode.as_str()))
                .count(),
            descriptors,
        })
    }
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
    fn only_established_connections_to_the_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1\n\
             1: 0100007F:D431 0100007F:192B 01 00000000:00000000 00:00000000 00000000     0        0 12 1\n\
             2: 0100007F:D432 0100007F:192B 06 00000000:00000000 00:00000000 00000000     0        0 13 1\n";
        assert_eq!(established(table, 6443), ["12"]);
    }

    #[test]
    fn own_process_has_descriptors() {
        assert!(Open::of(std::process::id(), 1).unwrap().descriptors > 2);
    }
}
