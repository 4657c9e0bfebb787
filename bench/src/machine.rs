//! The machine and the versions.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use testcluster::binaries::{Binaries, Component, Lines, Program};

use crate::result::Machine;

/// Returns the properties of this machine.
///
/// # Errors
/// When they can't be read from the kernel.
pub fn machine() -> Result<Machine> {
    Ok(Machine {
        cpu: field(&std::fs::read_to_string("/proc/cpuinfo")?, "model name").unwrap_or_default(),
        cores: thread::available_parallelism()?.get(),
        memory_gib: gib(&std::fs::read_to_string("/proc/meminfo")?).context("failed to read the size of the memory")?,
    })
}

/// Returns the load average of the last minute.
///
/// # Errors
/// When they can't be read from the kernel.
pub fn load() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    let first = text.split(' ').next().unwrap_or_default();
    first
        .parse()
        .with_context(|| format!("{first:?} is not a load average"))
}

/// Returns the versions of the measured operator and of its environment. The peer is a checkout in Go, if there is one.
///
/// # Errors
/// When a program is missing.
pub fn versions(operator: &Path, peer: Option<&Path>) -> Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::new();
    let binaries = Binaries::ensure(&[Component::ControlPlane], &mut Lines::stderr())?;
    let apiserver = said(Command::new(binaries.path(Program::KubeApiserver)).arg("--version"))?;
    versions.insert("Kubernetes".to_owned(), last_word(&apiserver));
    let etcd = said(Command::new(binaries.path(Program::Etcd)).arg("--version"))?;
    versions.insert("etcd".to_owned(), last_word(etcd.lines().next().unwrap_or_default()));
    // A source archive has no commit.
    let commit = said(Command::new("git").args(["rev-parse", "--short", "HEAD"])).unwrap_or_default();
    let ours = format!("{} {}", env!("CARGO_PKG_VERSION"), commit.trim());
    let linked = if is_static(&std::fs::read(operator)?) {
        " (static)"
    } else {
        ""
    };
    versions.insert("AppDeploy".to_owned(), format!("{}{linked}", ours.trim()));
    if let Some(peer) = peer {
        let mut list = Command::new("go");
        list.current_dir(peer)
            .args(["list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/controller-runtime"]);
        versions.insert("controller-runtime".to_owned(), last_word(&said(&mut list)?));
        let go = said(Command::new("go").args(["env", "GOVERSION"]))?;
        versions.insert("Go".to_owned(), last_word(&go).trim_start_matches("go").to_owned());
    }
    Ok(versions)
}

/// Whether a program names no dynamic loader, as the one of the image.
fn is_static(program: &[u8]) -> bool {
    !program.windows(9).any(|bytes| bytes == b"/ld-linux")
}

/// Runs a program and returns its output.
///
/// # Errors
/// When it fails, with its output.
pub fn said(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("failed to run {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn last_word(text: &str) -> String {
    text.split_whitespace().last().unwrap_or_default().to_owned()
}

fn field(text: &str, name: &str) -> Option<String> {
    let (_, value) = text.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}

/// Returns the memory in GiB: the kernel reserves a little, so it is rounded up.
fn gib(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix(" kB")?.parse().ok()?;
    Some(kib.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_read_from_the_kernel() {
        let cpu = "processor\t: 0\nmodel name\t: AMD EPYC 7B13\nprocessor\t: 1\nmodel name\t: other\n";
        assert_eq!(field(cpu, "model name").as_deref(), Some("AMD EPYC 7B13"));
        assert_eq!(gib("MemTotal:       24737856 kB\nMemFree: 1 kB\n"), Some(24));
        assert!(load().unwrap() >= 0.0);
    }

    #[test]
    fn version_is_the_last_word_of_the_output() {
        assert_eq!(last_word("Kubernetes v1.36.3\n"), "v1.36.3");
        assert_eq!(last_word("etcd Version: 3.6.5"), "3.6.5");
    }
}
