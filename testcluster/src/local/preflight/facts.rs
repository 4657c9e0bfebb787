//! Reads the state of the machine.

use std::fs;
use std::io::IsTerminal;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use testcluster::binaries::{self, Binaries, Program};
use testcluster::disk;

use super::{Facts, Programs, Root};
use crate::local::layout::Layout;
use crate::local::mode::Mode;
use crate::local::{network, packages, tool};

/// The port of Ingresses.
const INGRESS: u16 = 8080;

/// Bits of a process's effective capabilities, from linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;

/// Reads the state of the machine without changing it.
pub(crate) fn gather(layout: &Layout, fake: bool) -> Facts {
    let _ = fs::create_dir_all(&layout.cache);
    Facts {
        fake,
        linux: cfg!(target_os = "linux"),
        root: root(),
        confined: confined(),
        no_cgroups: no_cgroups(),
        packages: packages::missing(layout),
        apt: tool::find("apt-get").is_some(),
        downloads: downloads(layout),
        real: programs(Mode::Real),
        fakes: programs(Mode::Fake),
        tools: ["go"].into_iter().filter(|name| tool::find(name).is_none()).collect(),
        disk: disk::free(&layout.cache).unwrap_or(u64::MAX),
        memory: memory().unwrap_or(u64::MAX),
        busy: [
            (INGRESS, "the ingress controller"),
            (network::API_PORT, "the API server"),
        ]
        .into_iter()
        // With fake nodes there is no ingress controller.
        .filter(|(port, _)| !fake || *port != INGRESS)
        .filter(|(port, _)| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_err())
        .collect(),
        other_fake: other_fake(layout),
        kubelet: kubelet(),
        cache: layout.cache.display().to_string(),
    }
}

fn root() -> Root {
    if nix::unistd::Uid::effective().is_root() {
        return Root::Is;
    }
    let silent = || tool::Tool::new("sudo").args(["-n", "true"]).succeeds();
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let yes = std::env::var_os("YES").is_some_and(|value| value == "1");
    if tool::find("sudo").is_some() && (terminal || (yes && silent())) {
        Root::Sudo
    } else {
        Root::No
    }
}

/// Returns why even root lacks the permissions for a node, if it does.
fn confined() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    if !all {
        return Some("this is a container without the rights of the machine's root".into());
    }
    if nix::unistd::Uid::effective().is_root() && !(capable(CAP_SYS_ADMIN) && capable(CAP_NET_ADMIN)) {
        return Some("this container forbids to create mounts and network links".into());
    }
    None
}

#[cfg(target_os = "linux")]
fn no_cgroups() -> Option<String> {
    crate::local::sandbox::cgroups::missing()
}

#[cfg(not(target_os = "linux"))]
const fn no_cgroups() -> Option<String> {
    None
}

/// Returns whether this process may lower its own OOM score; otherwise runc fails.
pub(crate) fn may_lower_oom_score() -> bool {
    capable(CAP_SYS_RESOURCE)
}

fn capable(bit: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> bit & 1 == 1)
}

/// Returns the missing downloads for a real node, without Kubernetes' programs.
#[cfg(target_os = "linux")]
fn downloads(layout: &Layout) -> Vec<&'static str> {
    use crate::local::{images, ingress};
    [
        (!ingress::path(&layout.cache).exists(), "Traefik, with pip; 185 MB"),
        (
            images::missing(layout),
            "nginx and busybox for images, with apt-get; 20 MB",
        ),
    ]
    .into_iter()
    .filter_map(|(missing, text)| missing.then_some(text))
    .collect()
}

#[cfg(not(target_os = "linux"))]
const fn downloads(_: &Layout) -> Vec<&'static str> {
    Vec::new()
}

/// Returns the programs that are not in the cache.
fn programs(mode: Mode) -> Programs {
    let missing = Binaries::missing(mode.components()).unwrap_or_default();
    let names = |programs: &[Program]| programs.iter().map(|program| program.name()).collect();
    let megabytes = |programs: &[Program]| programs.iter().map(|program| program.megabytes()).sum();
    Programs {
        fetch: names(&missing.fetch),
        fetch_megabytes: megabytes(&missing.fetch),
        server: binaries::answering()
            .filter(|_| !missing.fetch.is_empty())
            .unwrap_or_default()
            .to_owned(),
        silent: missing.silent.clone(),
        build: names(&missing.build),
        build_megabytes: megabytes(&missing.build),
        minutes: binaries::usual(&missing.build).as_secs().div_ceil(60),
    }
}

/// Returns the available memory in bytes.
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

/// Returns whether a kubelet runs outside of the nodes of this program.
fn kubelet() -> bool {
    let own = fs::read_link("/proc/self/ns/pid").ok();
    fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| {
        let process = entry.path();
        fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "kubelet")
            && fs::read_link(process.join("ns/pid")).ok() == own
    })
}

/// Returns the state folder of another cluster with fake nodes that runs.
fn other_fake(layout: &Layout) -> Option<String> {
    let other = fs::read_to_string(layout.cache.join(FAKE)).ok()?;
    let state = Path::new(other.trim());
    if state == layout.state {
        return None;
    }
    let other = Layout {
        state: state.to_path_buf(),
        ..layout.clone()
    };
    let runs = crate::local::daemons::Daemons::load(&other)
        .states()
        .any(|(_, _, alive)| alive);
    runs.then(|| other.state.display().to_string())
}

/// The file of the cache that names the state folder of the last cluster with fake nodes.
pub(crate) const FAKE: &str = "fake-cluster";
