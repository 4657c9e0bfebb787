//! The node's cgroups on the host: one group of its own, in each hierarchy of cgroup v1, or in that of cgroup v2.
//!
//! Nothing outside of that group is changed. With cgroup v2 the group is below the supervisor's own, which systemd
//! delegates (see `supervise.rs`), or directly below the root if the root already enables the controllers for its
//! children.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const ROOT: &str = "/sys/fs/cgroup";
/// The group of the node's own programs, below the node's group: with cgroup v2 a group that enables controllers for its
/// children may not have processes.
const PROGRAMS: &str = "init";
/// The controllers that kubelets use.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
/// The controllers that a node requires.
const REQUIRED: [&str; 3] = ["cpu", "memory", "pids"];

/// A node's groups.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    /// The node's group in each hierarchy.
    pub(crate) groups: Vec<PathBuf>,
    /// The group that processes join, in each hierarchy.
    pub(crate) entrances: Vec<PathBuf>,
}

/// Returns whether the machine has the one hierarchy of cgroup v2.
pub(crate) fn unified() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

/// Returns why cgroups can't be used here, if they can't.
pub(crate) fn missing() -> Option<String> {
    if !unified() {
        let names: Vec<String> = v1_hierarchies()
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        let has = |wanted: &&str| names.iter().any(|name| name.split(',').any(|part| part == *wanted));
        let missing: Vec<&str> = REQUIRED.iter().copied().filter(|name| !has(name)).collect();
        return (!missing.is_empty()).then(|| format!("the kernel has no cgroup for {}", missing.join(", ")));
    }
    if systemd() {
        return None;
    }
    let passed = fs::read_to_string(Path::new(ROOT).join("cgroup.subtree_control")).unwrap_or_default();
    let missing: Vec<&str> = REQUIRED
        .iter()
        .copied()
        .filter(|name| !passed.split_whitespace().any(|word| word == *name))
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "the root cgroup does not pass on {}, and there is no systemd that could",
            missing.join(", ")
        )
    })
}

/// Returns whether systemd manages this machine's cgroups.
pub(crate) fn systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Creates the node's groups, without processes.
pub(crate) fn create(name: &str) -> Result<Groups> {
    if unified() {
        return create_unified(name);
    }
    let groups: Vec<PathBuf> = v1_hierarchies().iter().map(|root| root.join(name)).collect();
    remove(&groups)?;
    for group in &groups {
        fs::create_dir(group).with_context(|| format!("failed to create the cgroup {}", group.display()))?;
        // A group without processors or memory nodes accepts no processes.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (from, to) = (group.with_file_name(file), group.join(file));
            if to.exists() {
                let value = fs::read_to_string(&from).with_context(|| format!("failed to read {}", from.display()))?;
                fs::write(&to, value.trim()).with_context(|| format!("failed to write {}", to.display()))?;
            }
        }
    }
    Ok(Groups {
        entrances: groups.clone(),
        groups,
    })
}

fn create_unified(name: &str) -> Result<Groups> {
    let own = own_unified()?;
    // A group that systemd has delegated to this program: this process must leave it before its controllers can be
    // enabled for children.
    let parent = if own.ends_with(format!("{name}.scope")) {
        let leaf = own.join("supervisor");
        fs::create_dir_all(&leaf).with_context(|| format!("failed to create the cgroup {}", leaf.display()))?;
        join(&[leaf], std::process::id())?;
        pass_on(&own)?;
        own
    } else {
        PathBuf::from(ROOT)
    };
    let group = parent.join(name);
    remove(std::slice::from_ref(&group))?;
    let programs = group.join(PROGRAMS);
    fs::create_dir_all(&programs).with_context(|| format!("failed to create the cgroup {}", programs.display()))?;
    pass_on(&group)?;
    Ok(Groups {
        groups: vec![group],
        entrances: vec![programs],
    })
}

/// Enables a group's controllers for its children.
fn pass_on(group: &Path) -> Result<()> {
    let have = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    let file = group.join("cgroup.subtree_control");
    for controller in have
        .split_whitespace()
        .filter(|name| CONTROLLERS.contains(name) || *name == "io")
    {
        fs::write(&file, format!("+{controller}")).with_context(|| format!("failed to write {}", file.display()))?;
    }
    Ok(())
}

/// Moves a process into groups.
pub(crate) fn join(groups: &[PathBuf], pid: u32) -> Result<()> {
    groups.iter().try_for_each(|group| {
        let file = group.join("cgroup.procs");
        fs::write(&file, pid.to_string()).with_context(|| format!("failed to write {}", file.display()))
    })
}

/// Removes groups and all groups below them. Their processes must be ending.
pub(crate) fn remove(groups: &[PathBuf]) -> Result<()> {
    groups
        .iter()
        .flat_map(|group| below(group))
        .try_for_each(|group| remove_one(&group))
}

/// A process that has just ended is still in its group for a moment.
fn remove_one(group: &Path) -> Result<()> {
    for _ in 0..200 {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ResourceBusy => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => {
                return Err(error).with_context(|| format!("failed to remove the cgroup {}", group.display()));
            }
        }
    }
    bail!("the cgroup {} still has processes", group.display())
}

/// Returns a group and all of its descendants, the deepest first.
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

/// The hierarchy of cgroup v1 without controllers. containerd reports no OOM kill if a process is in a hierarchy that is not
/// mounted.
pub(crate) const NAMED: &str = "systemd";

/// Returns the roots of the hierarchies of cgroup v1.
pub(crate) fn v1_hierarchies() -> Vec<PathBuf> {
    let known = fs::read_to_string("/proc/cgroups").unwrap_or_default();
    let known: Vec<&str> = known
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
    let mut roots: Vec<PathBuf> = entries
        // "cpu,cpuacct" is one hierarchy, with links for its two names.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| {
            let name = entry.file_name();
            name == NAMED || name.to_string_lossy().split(',').all(|part| known.contains(&part))
        })
        .map(|entry| entry.path())
        .filter(|root| root.join("cgroup.procs").exists())
        .collect();
    roots.sort();
    roots
}

/// Returns the group of this process with cgroup v2.
fn own_unified() -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").context("failed to read /proc/self/cgroup")?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    Ok(Path::new(ROOT).join(path.context("this process is in no cgroup")?))
}
