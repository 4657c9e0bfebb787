//! The content of the images' root folders.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::local::layout;
use crate::local::tool::Tool;

/// The files that do not come from Debian: their path in an image, and their text.
pub(super) const FILES: [(&str, &str); 6] = [
    ("etc/passwd", include_str!("../../../images/passwd")),
    ("etc/group", include_str!("../../../images/group")),
    ("pause.c", include_str!("../../../images/pause/pause.c")),
    ("etc/nginx/nginx.conf", include_str!("../../../images/nginx/nginx.conf")),
    (
        "etc/nginx/conf.d/default.conf",
        include_str!("../../../images/nginx/default.conf"),
    ),
    (
        "usr/share/nginx/html/index.html",
        include_str!("../../../images/nginx/index.html"),
    ),
];

/// The pause image: one static program of a few kilobytes.
pub(super) fn pause(root: &Path, scratch: &Path) -> Result<()> {
    write(scratch, "pause.c")?;
    Tool::new("musl-gcc")
        .args(["-static", "-Os", "-s", "-Wall", "-Werror", "-o"])
        .arg(root.join("pause"))
        .arg(scratch.join("pause.c"))
        .run()
        .map(drop)
}

/// The busybox image: Debian's static busybox, a link for each applet, and the folders that programs expect.
/// (Debian 12's `wget` crashes with `-T`; `timeout 5 wget …` does the same.)
pub(super) fn busybox(root: &Path, scratch: &Path) -> Result<()> {
    shell(root, scratch)?;
    users(root)
}

/// The nginx image: Debian's nginx with the libraries that it links to, laid out as the public image is.
pub(super) fn nginx(root: &Path, scratch: &Path) -> Result<()> {
    let unpacked = scratch.join("nginx");
    let debs = unpack(&["nginx", "nginx-common"], &unpacked)?;
    let deb = debs.iter().find(|file| file.to_string_lossy().contains("/nginx_"));
    let deb = deb.context("apt-get downloaded no nginx package")?;
    let depends = Tool::new("dpkg-deb").arg("-f").arg(deb).arg("Depends").run()?;
    unpack(&libraries(&depends), &unpacked)?;
    // Only files that are used at run time, no documentation.
    for path in [
        "lib",
        "lib64",
        "usr/lib",
        "usr/lib64",
        "usr/sbin/nginx",
        "etc/nginx/mime.types",
    ] {
        if unpacked.join(path).exists() {
            let target = root.join(path);
            layout::create(target.parent().unwrap_or(root))?;
            Tool::new("cp").arg("-a").arg(unpacked.join(path)).arg(target).run()?;
        }
    }
    shell(root, scratch)?;
    users(root)?;
    for path in [
        "etc/nginx/nginx.conf",
        "etc/nginx/conf.d/default.conf",
        "usr/share/nginx/html/index.html",
    ] {
        write(root, path)?;
    }
    for dir in ["run", "var/log/nginx", "var/lib/nginx"] {
        layout::create(&root.join(dir))?;
    }
    link("/dev/stdout", &root.join("var/log/nginx/access.log"))?;
    link("/dev/stderr", &root.join("var/log/nginx/error.log"))
}

/// Downloads Debian packages and unpacks them into `dir`; nothing is installed. Returns their files.
fn unpack(names: &[impl AsRef<str>], dir: &Path) -> Result<Vec<PathBuf>> {
    let debs = dir.join("debs");
    layout::create(&debs)?;
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let fetch = || Tool::new("apt-get").arg("download").args(&names).dir(&debs).run();
    // The package lists of a fresh machine are empty, and those of an old one have packages that no longer exist.
    fetch().or_else(|_| Tool::new("apt-get").arg("update").run().and_then(|_| fetch()))?;
    let files = files(&debs)?;
    for deb in &files {
        Tool::new("dpkg-deb").arg("-x").arg(deb).arg(dir).run()?;
    }
    Ok(files)
}

/// Returns the library packages of a `Depends` line; the first of alternatives.
fn libraries(depends: &str) -> Vec<String> {
    let mut names: Vec<_> = depends
        .split(',')
        .filter_map(|entry| entry.split_whitespace().next())
        .filter(|name| name.starts_with("lib") || name.starts_with("zlib"))
        .map(String::from)
        .collect();
    names.dedup();
    names
}

fn shell(root: &Path, scratch: &Path) -> Result<()> {
    // Not this machine's own: that may be the package with shared libraries.
    let unpacked = scratch.join("busybox");
    unpack(&["busybox-static"], &unpacked)?;
    let bin = root.join("bin");
    layout::create(&bin)?;
    let busybox = bin.join("busybox");
    let from = ["bin/busybox", "usr/bin/busybox"].map(|path| unpacked.join(path));
    let from = from
        .iter()
        .find(|file| file.exists())
        .context("busybox-static holds no busybox")?;
    fs::copy(from, &busybox).with_context(|| format!("failed to copy {}", from.display()))?;
    for applet in Tool::new(&busybox)
        .arg("--list")
        .run()?
        .lines()
        .filter(|applet| *applet != "busybox")
    {
        link("/bin/busybox", &bin.join(applet))?;
    }
    Ok(())
}

fn users(root: &Path) -> Result<()> {
    write(root, "etc/passwd")?;
    write(root, "etc/group")?;
    layout::create(&root.join("root"))?;
    let tmp = root.join("tmp");
    layout::create(&tmp)?;
    fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777)).context("failed to open /tmp of the image to all")
}

fn write(root: &Path, path: &str) -> Result<()> {
    let text = FILES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text);
    let text = text.with_context(|| format!("no file {path} for the image"))?;
    let file = root.join(path);
    layout::create(file.parent().unwrap_or(root))?;
    fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))
}

fn link(target: &str, file: &Path) -> Result<()> {
    symlink(target, file).with_context(|| format!("failed to link {}", file.display()))
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("failed to read {}", dir.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_parsed_for_debian_12_and_13() {
        assert_eq!(
            libraries("libc6 (>= 2.34), libpcre2-8-0 (>= 10.22), zlib1g, iproute2, nginx-common (<< 1)"),
            ["libc6", "libpcre2-8-0", "zlib1g"]
        );
        assert_eq!(
            libraries("libssl3t64 (>= 3.0.0) | libssl4, nginx-common"),
            ["libssl3t64"]
        );
    }
}
