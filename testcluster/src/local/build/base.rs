//! A replacement for the Dockerfile's base image, on machines without access to a registry.
//!
//! It is an empty image with the name of the base, whose system folders and Rust toolchain are this machine's own,
//! mounted for the build only. Only the build stage uses it: the final image is `FROM scratch`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::local::layout::Layout;
use crate::local::tool::{self, Tool};

/// The folder of the toolchain and Cargo's downloads in the replacement; outside /usr, which is this machine's and
/// read-only.
const RUSTUP: &str = "/opt/rustup";
const CARGO: &str = "/opt/cargo";

/// The folders of the machine that are visible in the build. Not all of /usr: a build may mount its caches into
/// /usr/local.
const SYSTEM: [&str; 10] = [
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/include",
    "/usr/share/ca-certificates",
    "/etc/ssl",
    "/etc/alternatives",
    "/usr/local/share/ca-certificates",
    "/etc/ca-certificates",
];

/// The environment variables for network access.
const ENVIRONMENT: [&str; 13] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CARGO_HTTP_PROXY",
    "CARGO_NET_OFFLINE",
    "CARGO_REGISTRIES_CRATES_IO_PROTOCOL",
];

/// Returns the target of a static program, installed if needed.
fn target() -> Result<String> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    if target_missing()? {
        if tool::find("rustup").is_none() {
            bail!("Rust's target {target} is missing, which a static program needs");
        }
        Tool::new("rustup").args(["target", "add", &target]).run()?;
    }
    Ok(target)
}

/// Returns whether the target of a static program must be installed first.
fn target_missing() -> Result<bool> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    Ok(!toolchain()?.join("lib/rustlib").join(target).exists())
}

fn toolchain() -> Result<PathBuf> {
    let sysroot = Tool::new("rustc").args(["--print", "sysroot"]).run();
    let sysroot = sysroot.context("Rust is missing: https://rustup.rs")?;
    Ok(PathBuf::from(sysroot.trim()))
}

/// Creates a replacement for each missing base image of the Dockerfile, and returns the mounts of the build.
pub(super) fn ensure(layout: &Layout, dockerfile: &str) -> Result<Vec<String>> {
    target()?;
    let toolchain = toolchain()?;
    for name in bases(dockerfile) {
        stand_in(layout, name)?;
    }
    let mut volumes: Vec<String> = SYSTEM
        .iter()
        .filter(|dir| PathBuf::from(dir).is_dir())
        .map(|dir| format!("--volume={dir}:{dir}:ro"))
        .collect();
    for dir in ["/bin", "/lib", "/lib64", "/lib32"]
        .map(PathBuf::from)
        .iter()
        .filter(|dir| dir.is_dir())
    {
        volumes.push(format!("--volume={0}:{0}:ro", dir.display()));
    }
    volumes.push(format!("--volume={}:{RUSTUP}:ro", toolchain.display()));
    let cargo = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let cargo = cargo.context("found no home folder; set CARGO_HOME")?;
    for part in ["registry", "git"] {
        let dir = cargo.join(part);
        crate::local::layout::create(&dir)?;
        volumes.push(format!("--volume={}:{CARGO}/{part}", dir.display()));
    }
    Ok(volumes)
}

/// Returns the Dockerfile with tags only, without digests.
pub(super) fn without_digests(dockerfile: &str) -> String {
    let plain = |line: &str| match line.split_once("@sha256:") {
        Some((name, rest)) if line.starts_with("FROM ") => {
            let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
            format!("{name}{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    dockerfile.lines().map(plain).collect()
}

/// Returns the images that a Dockerfile starts from, without its own stages and the empty one.
fn bases(dockerfile: &str) -> Vec<&str> {
    let mut stages = vec!["scratch"];
    let mut bases = Vec::new();
    for line in dockerfile.lines() {
        let mut words = line.split_whitespace().filter(|word| !word.starts_with("--"));
        if words.next() != Some("FROM") {
            continue;
        }
        let Some(name) = words.next() else { continue };
        if !stages.contains(&name) {
            bases.push(name);
        }
        stages.extend(words.nth(1));
    }
    bases
}

fn stand_in(layout: &Layout, name: &str) -> Result<()> {
    let buildah = |args: &[&str]| Ok::<_, anyhow::Error>(super::buildah(layout)?.args(args));
    let path = format!("PATH={RUSTUP}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let mut settings = vec![path, format!("CARGO_HOME={CARGO}")];
    settings.extend(
        ENVIRONMENT
            .iter()
            .filter_map(|key| Some(format!("{key}={}", std::env::var(key).ok()?))),
    );
    // The settings are its whole content, so they show whether it is current.
    let mark = settings.join("\n");
    let format = "{{index .OCIv1.Config.Labels \"stand-in\"}}";
    if let Ok(label) = buildah(&["inspect", "--type", "image", "--format", format, name])?.run() {
        let label = label.trim();
        if label == mark.trim() || label.is_empty() || label == "<no value>" {
            return Ok(()); // ours and right, or the real one
        }
    }
    let container = buildah(&["from", "scratch"])?.run()?;
    let container = container.trim();
    let mut config = buildah(&["config", "--label"])?.arg(format!("stand-in={mark}"));
    for setting in &settings {
        config = config.args(["--env", setting]);
    }
    let made = config
        .arg(container)
        .run()
        .and_then(|_| buildah(&["commit", "--quiet", container, name])?.run())
        .with_context(|| format!("failed to make a stand-in for {name}"));
    buildah(&["rm", container])?.run()?;
    made.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_a_base_image_is_removed() {
        let text = "# x@sha256:1\nFROM docker.io/library/rust:1-alpine@sha256:0af1 AS build\nRUN echo a@sha256:1\nFROM scratch\n";
        let plain = text.replacen("rust:1-alpine@sha256:0af1", "rust:1-alpine", 1);
        assert_eq!(without_digests(text), plain);
    }

    #[test]
    fn stages_and_scratch_are_not_base_images() {
        let text = "# FROM x\nFROM --platform=$BUILDPLATFORM docker.io/library/rust:1-alpine AS build\nRUN true\n\
                    FROM scratch\nFROM build";
        assert_eq!(bases(text), ["docker.io/library/rust:1-alpine"]);
    }
}
