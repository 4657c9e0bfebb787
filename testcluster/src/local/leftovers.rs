//! What a killed cluster leaves on the machine: processes, mounts and files, found without anything written down.

use std::path::Path;

use anyhow::{Result, bail};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::containerd;
use super::layout::{self, Layout, RUN};

/// Returns the processes of this cluster among `names`, whether written down or not: those that run one of our
/// programs and name one of our folders. (Only these names: a person may be using our kubectl.)
pub(crate) fn processes(layout: &Layout, names: &[&str]) -> Vec<i32> {
    let ours = |id: &i32| {
        let Ok(program) = std::fs::read_link(format!("/proc/{id}/exe")) else {
            return false;
        };
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned());
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        program.starts_with(layout.cache.join("bin"))
            && name.is_some_and(|name| names.contains(&name.trim_end_matches(" (deleted)")))
            && (words.contains(&format!("{RUN}/")) || words.contains(&format!("{}/", layout.state.display())))
    };
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(ours)
        .collect()
}

/// Kills processes; one that is gone by now is just as well.
pub(crate) fn end(ids: impl IntoIterator<Item = i32>) {
    for id in ids {
        let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
    }
}

/// Removes what the node's programs write outside our folders, and folders there that are empty now.
pub(crate) fn remove_files() {
    let results = std::fs::read_dir(containerd::CNI_RESULTS)
        .into_iter()
        .flatten()
        .flatten();
    let ours = format!("{}-", containerd::NETWORK);
    for entry in results.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours)) {
        let _ = std::fs::remove_file(entry.path());
    }
    for file in ["kubelet.sock", "kubelet_internal_checkpoint"] {
        let _ = std::fs::remove_file(Path::new(DEVICE_PLUGINS).join(file));
    }
    for dir in [
        containerd::CNI_RESULTS,
        "/var/lib/cni",
        DEVICE_PLUGINS,
        "/var/lib/kubelet",
        "/run/containerd/s",
        "/run/containerd",
    ] {
        // Fails where somebody else has files in it, as it should.
        let _ = std::fs::remove_dir(dir);
    }
}

/// Where the kubelet listens for device plugins, whatever its root folder is.
const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";

/// Returns the shims' sockets, which containerd keeps outside its state folder: each shim's folder tells its own.
pub(crate) fn shim_sockets() -> Vec<String> {
    let tasks = layout::run("containerd/io.containerd.runtime.v2.task/k8s.io");
    std::fs::read_dir(tasks)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("bootstrap.json")).ok())
        .filter_map(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
        .filter_map(|value| Some(value.get("address")?.as_str()?.strip_prefix("unix://")?.to_owned()))
        .collect()
}

/// Unmounts all that is mounted under our folders. Must leave nothing: the folders are deleted next, and through a
/// mount that would delete somebody else's files.
pub(crate) fn unmount(layout: &Layout) -> Result<()> {
    let state = layout.state.canonicalize().unwrap_or_else(|_| layout.state.clone());
    for _ in 0..5 {
        let mounts = mounts_under(&[Path::new(RUN), &state]);
        if mounts.is_empty() {
            return Ok(());
        }
        // The latest first, as they may lie on each other.
        for mount in mounts.iter().rev() {
            let _ =
                umount2(mount.as_str(), MntFlags::empty()).or_else(|_| umount2(mount.as_str(), MntFlags::MNT_DETACH));
        }
    }
    let rest = mounts_under(&[Path::new(RUN), &state]);
    if rest.is_empty() {
        return Ok(());
    }
    bail!(
        "failed to unmount {}; `umount -l {}` may say why",
        rest.join(", "),
        rest.join(" ")
    )
}

fn mounts_under(roots: &[&Path]) -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    parse_mounts(&text, roots)
}

/// Reads the mount points under `roots` from a mountinfo; spaces in a path are written as octal there.
fn parse_mounts(text: &str, roots: &[&Path]) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|path| path.replace("\\040", " ").replace("\\134", "\\"))
        .filter(|path| roots.iter().any(|root| Path::new(path).starts_with(root)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_below_our_folders_are_ours() {
        let text = "1 2 0:1 / / rw - ext4 a rw\n2 3 0:2 / /run/appdeploy/ns/a\\040b rw - nsfs n rw\n\
                    3 3 0:3 / /run/appdeployed rw - tmpfs t rw";
        assert_eq!(
            parse_mounts(text, &[Path::new("/run/appdeploy")]),
            ["/run/appdeploy/ns/a b"]
        );
    }
}
