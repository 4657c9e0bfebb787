//! The node's file system: the host's programs read-only, the cluster's own folder, and nothing else of the host.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};

use super::cgroups;
use crate::local::layout::{self, Layout};

/// Folders of programs and libraries.
const PROGRAMS: [&str; 8] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt/cni"];
/// Files that programs read in /etc: users, certificates, alternatives.
const SETTINGS: [&str; 8] = [
    "passwd",
    "group",
    "nsswitch.conf",
    "ssl",
    "ca-certificates",
    "pki",
    "alternatives",
    "ld.so.cache",
];
/// Empty folders in memory.
const EMPTY: [&str; 9] = ["proc", "sys", "dev", "run", "root", "mnt", "var/lib", "var/log", "etc"];

/// The kernel settings that a kubelet would change for the whole machine, with its values. It does not write values that
/// are already right.
const KERNEL: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

const NOTHING: Option<&str> = None;

/// Builds the file system and makes it the root of this mount namespace. It is not visible on the host.
pub(super) fn build(layout: &Layout) -> Result<()> {
    // Changes of the host's mounts are visible here, but not the other way round.
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_SLAVE, NOTHING)
        .context("failed to detach the mounts")?;
    let root = layout.dir("root")?;
    mount_new("tmpfs", &root, MsFlags::empty(), "mode=755")?;
    for name in EMPTY {
        layout::create(&root.join(name))?;
    }
    for name in ["tmp", "var/tmp"] {
        layout::create(&root.join(name))?;
        let open = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(root.join(name), open).with_context(|| format!("failed to open /{name} to all"))?;
    }
    link("/run", &root.join("var/run"))?;
    for name in PROGRAMS {
        show(&Path::new("/").join(name), &root)?;
    }
    settings(&root)?;
    bind(&layout.state, &root, false)?;
    bind(&layout.cache, &root, true)?;
    for folder in prebuilt() {
        bind(&folder, &root, true)?;
    }
    let this = std::env::current_exe().context("failed to find this program")?;
    bind(this.parent().unwrap_or(&this), &root, true)?;
    devices(&root)?;
    mount_new("proc", &root.join("proc"), hardened(), "")?;
    mount_new("sysfs", &root.join("sys"), hardened(), "")?;
    control_groups(&root.join("sys/fs/cgroup"))?;
    enter(&root)?;
    kernel_settings()?;
    // Pods may use mounts that appear in other pods.
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_SHARED, NOTHING).context("failed to share the mounts")
}

/// Returns the folders of programs that the user has built or downloaded, unless the file system has them already.
fn prebuilt() -> Vec<PathBuf> {
    testcluster::binaries::PREBUILT
        .iter()
        .filter_map(|name| std::path::absolute(std::env::var_os(name)?).ok())
        .filter(|folder| folder.is_dir() && !folder.starts_with("/usr"))
        .collect()
}

const fn hardened() -> MsFlags {
    MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC)
}

fn mount_new(kind: &str, target: &Path, flags: MsFlags, options: &str) -> Result<()> {
    mount(Some(kind), target, Some(kind), flags, Some(options))
        .with_context(|| format!("failed to mount {kind} on {}", target.display()))
}

/// Mounts a folder of the host, or its symbolic link, read-only under the same path.
fn show(path: &Path, root: &Path) -> Result<()> {
    if let Ok(target) = fs::read_link(path) {
        return symlink(&target, root.join(path.strip_prefix("/").unwrap_or(path)))
            .with_context(|| format!("failed to link {}", path.display()));
    }
    if path.exists() { bind(path, root, true) } else { Ok(()) }
}

/// Mounts a folder or a file of the host under the same path.
fn bind(path: &Path, root: &Path, read_only: bool) -> Result<()> {
    let target = root.join(path.strip_prefix("/").unwrap_or(path));
    if path.is_dir() {
        layout::create(&target)?;
    } else {
        layout::create(target.parent().unwrap_or(root))?;
        fs::write(&target, "").with_context(|| format!("failed to create {}", target.display()))?;
    }
    bind_at(path, &target, read_only)
}

fn bind_at(path: &Path, target: &Path, read_only: bool) -> Result<()> {
    let context = || format!("failed to mount {}", path.display());
    mount(Some(path), target, NOTHING, MsFlags::MS_BIND, NOTHING).with_context(context)?;
    if read_only {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(NOTHING, target, NOTHING, flags, NOTHING).with_context(context)?;
    }
    Ok(())
}

fn settings(root: &Path) -> Result<()> {
    for name in SETTINGS {
        let path = Path::new("/etc").join(name);
        // The target of a link may be outside of the visible folders.
        if let Ok(real) = path.canonicalize() {
            let target = root.join("etc").join(name);
            if real.is_dir() {
                layout::create(&target)?;
            } else {
                fs::write(&target, "").with_context(|| format!("failed to create {}", target.display()))?;
            }
            bind_at(&real, &target, true)?;
        }
    }
    for (name, text) in [
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ("hostname", "local\n"),
        // No name server: the node has no external network.
        ("resolv.conf", ""),
    ] {
        let file = root.join("etc").join(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
    }
    Ok(())
}

fn devices(root: &Path) -> Result<()> {
    let dev = root.join("dev");
    mount(Some("/dev"), &dev, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING).context("failed to mount /dev")?;
    let memory = dev.join("shm");
    if memory.is_dir() {
        mount_new("tmpfs", &memory, hardened(), "mode=1777")?;
    }
    Ok(())
}

/// Mounts the hierarchies again: in the new namespace their root is the node's own group.
fn control_groups(target: &Path) -> Result<()> {
    if cgroups::unified() {
        return mount_new("cgroup2", target, hardened(), "");
    }
    mount_new("tmpfs", target, hardened(), "mode=755")?;
    for hierarchy in cgroups::v1_hierarchies() {
        let Some(name) = hierarchy.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let folder = target.join(name);
        layout::create(&folder)?;
        let named = format!("none,name={name}");
        let options = if name == cgroups::NAMED { &named } else { name };
        mount_new("cgroup", &folder, hardened(), options)?;
        for part in name.split(',').filter(|part| *part != name) {
            link(name, &target.join(part))?;
        }
    }
    Ok(())
}

fn link(to: &str, file: &Path) -> Result<()> {
    symlink(to, file).with_context(|| format!("failed to link {}", file.display()))
}

/// Makes `root` the root folder, and unmounts the host's.
fn enter(root: &Path) -> Result<()> {
    chdir(root).context("failed to enter the node's file system")?;
    // Mounts the old root on top of the new one, from where it is unmounted.
    pivot_root(".", ".").context("failed to change the root folder")?;
    umount2(".", MntFlags::MNT_DETACH).context("failed to unmount the host's file system")?;
    chdir("/").context("failed to enter the node's file system")
}

/// Makes the machine's settings read-only, except those of the node's own network, and hides those that a kubelet sets.
fn kernel_settings() -> Result<()> {
    let all = Path::new("/proc/sys");
    let network = all.join("net");
    bind_at(all, all, false)?;
    bind_at(&network, &network, false)?;
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    let values = PathBuf::from("/run/kernel-settings");
    for (name, value) in KERNEL {
        let file = values.join(name);
        layout::create(file.parent().unwrap_or(&values))?;
        fs::write(&file, format!("{value}\n")).with_context(|| format!("failed to write {}", file.display()))?;
        let setting = all.join(name);
        if setting.exists() {
            bind_at(&file, &setting, true)?;
        }
    }
    mount(NOTHING, all, NOTHING, flags, NOTHING).context("failed to protect the kernel's settings")
}
