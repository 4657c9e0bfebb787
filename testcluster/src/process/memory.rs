//! The memory of a process, from the kernel.

use std::io;

/// The resident memory of a process, in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// The current memory.
    pub now_mib: f64,
    /// The maximum so far.
    pub peak_mib: f64,
}

impl Memory {
    /// Returns the memory of a process.
    ///
    /// # Errors
    /// When the process has exited, or there is no /proc.
    pub fn of(pid: u32) -> io::Result<Self> {
        let path = format!("/proc/{pid}/status");
        let status = std::fs::read_to_string(&path)?;
        Self::parse(&status).ok_or_else(|| io::Error::other(format!("no resident memory in {path}")))
    }

    fn parse(status: &str) -> Option<Self> {
        let mib = |field: &str| {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
            let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
            Some(kib / 1024.0)
        };
        Some(Self {
            now_mib: mib("VmRSS")?,
            peak_mib: mib("VmHWM")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_mib() {
        let status = "Name:\tx\nVmPeak:\t  900 kB\nVmHWM:\t    3072 kB\nVmRSS:\t    2048 kB\n";
        let memory = Memory {
            now_mib: 2.0,
            peak_mib: 3.0,
        };
        assert_eq!(Memory::parse(status), Some(memory));
        assert!(Memory::of(std::process::id()).unwrap().now_mib > 0.5);
    }
}
