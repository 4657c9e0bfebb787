//! What this machine allows: a real node, or only the appearance of one; and which cgroups it has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::layout::CGROUP;

const CGROUPS: &str = "/sys/fs/cgroup";
/// Bits of a process's effective capabilities, from linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;

/// Returns why no real node can run here, or nothing if one can.
pub(crate) fn why_no_node() -> Option<&'static str> {
    if !cfg!(target_os = "linux") {
        return Some("a node needs Linux");
    }
    if !nix::unistd::Uid::effective().is_root() {
        return Some("a node needs root; run the command as root for real pods");
    }
    if !capable(CAP_SYS_ADMIN) || !capable(CAP_NET_ADMIN) {
        return Some("a node needs to mount and to add network links, which this container forbids even to root");
    }
    None
}

/// Tells whether a process may lower its own OOM score; runc dies where it tries and may not.
pub(crate) fn may_lower_oom_score() -> bool {
    capable(CAP_SYS_RESOURCE)
}

/// Tells whether the machine has the one hierarchy of cgroup v2.
pub(crate) fn unified_cgroups() -> bool {
    Path::new(CGROUPS).join("cgroup.controllers").exists()
}

/// Creates the cgroup of all pods, in each hierarchy: the kubelet wants its root to exist.
pub(crate) fn create_cgroups() -> Result<()> {
    for root in hierarchies() {
        let group = root.join(CGROUP);
        fs::create_dir_all(&group).with_context(|| format!("failed to create the cgroup {}", group.display()))?;
        if unified_cgroups() {
            delegate(&root)?;
            delegate(&group)?;
        } else if root.ends_with("cpuset") {
            // Without it a child starts with no CPU and no memory, and refuses every process.
            fs::write(group.join("cgroup.clone_children"), "1")
                .with_context(|| format!("failed to set up {}", group.display()))?;
            for name in ["cpuset.cpus", "cpuset.mems"] {
                let value = fs::read_to_string(root.join(name)).unwrap_or_default();
                fs::write(group.join(name), value.trim()).with_context(|| format!("failed to set {name}"))?;
            }
        }
    }
    Ok(())
}

/// Returns the processes of all pods.
pub(crate) fn pod_processes() -> Vec<i32> {
    let mut ids: Vec<i32> = hierarchies()
        .iter()
        .flat_map(|root| below(&root.join(CGROUP)))
        .filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok())
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Removes the pods' cgroups, which must be empty by now.
pub(crate) fn remove_cgroups() -> Result<()> {
    for root in hierarchies() {
        for group in below(&root.join(CGROUP)) {
            remove_group(&group).with_context(|| format!("failed to remove the cgroup {}", group.display()))?;
        }
    }
    Ok(())
}

/// A process that has just ended still counts for a moment.
fn remove_group(group: &Path) -> std::io::Result<()> {
    let mut tries = 0;
    loop {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy && tries < 50 => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            result => return result,
        }
    }
}

/// Returns the roots of all hierarchies that can hold the pods' group.
fn hierarchies() -> Vec<PathBuf> {
    if unified_cgroups() {
        return vec![CGROUPS.into()];
    }
    let entries = fs::read_dir(CGROUPS).into_iter().flatten().flatten();
    entries
        // cpu,cpuacct is one hierarchy, with links for its two names.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|root| root.join("cgroup.procs").exists())
        .collect()
}

/// Returns a group and all below it, the deepest first, as removal wants them.
fn below(group: &Path) -> Vec<PathBuf> {
    let mut groups: Vec<PathBuf> = fs::read_dir(group)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .flat_map(|entry| below(&entry.path()))
        .collect();
    if group.exists() {
        groups.push(group.to_path_buf());
    }
    groups
}

/// Hands a group's controllers down to its children.
fn delegate(group: &Path) -> Result<()> {
    let have = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    for controller in have.split_whitespace() {
        let needed = ["cpu", "cpuset", "memory", "pids", "io"].contains(&controller);
        if let (true, Err(error)) = (
            needed,
            fs::write(group.join("cgroup.subtree_control"), format!("+{controller}")),
        ) {
            return Err(error).with_context(|| {
                format!(
                    "failed to hand the controller {controller} down from the cgroup {}",
                    group.display()
                )
            });
        }
    }
    Ok(())
}

fn capable(bit: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> bit & 1 == 1)
}
