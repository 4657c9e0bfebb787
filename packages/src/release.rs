//! The folder of a release: archives of the plugin, the packed chart, Krew's manifest, checksums.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::VERSION;
use crate::archive::{self, Entry};
use crate::fill::fill;
use crate::output::{self, Files};
use crate::platform::{PLATFORMS, Platform};
use crate::source;

/// The file of checksums, in the format of `sha256sum --check`.
pub const CHECKSUMS: &str = "SHA256SUMS";
/// The URL of releases.
const DOWNLOADS: &str = "https://github.com/appdeploy/appdeploy/releases/download";

/// The folder of the programs that kubectl calls for completion of the plugin's command line.
const COMPLETERS: &str = "kubectl-appdeploy/src/commands/completion";

/// Writes the admission policies into one file, and returns it.
///
/// # Errors
/// When a manifest is missing or the file can't be written.
pub fn write_policies(config: &Path, out: &Path) -> Result<PathBuf> {
    let manifests = source::read(config, "policy")?;
    let texts: Vec<String> = manifests.into_iter().map(|manifest| manifest.text).collect();
    put(
        out,
        &format!("appdeploy-policies-v{VERSION}.yaml"),
        texts.join("---\n").as_bytes(),
    )
}

/// Packs the plugin for a platform, with license and README, and returns the archive.
///
/// # Errors
/// When a file is missing or can't be written.
pub fn pack_plugin(
    checkout: &Path,
    platform: Platform,
    program: &Path,
    date: Timestamp,
    out: &Path,
) -> Result<PathBuf> {
    let entry = |name: &str, path: PathBuf, is_program| -> Result<Entry> {
        let content = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Entry {
            name: name.to_owned(),
            content,
            is_program,
        })
    };
    let entries = [
        entry(platform.program(), program.to_owned(), true)?,
        // The program that kubectl calls for completion of the plugin's command line.
        entry(
            platform.completer(),
            checkout.join(COMPLETERS).join(platform.completer()),
            true,
        )?,
        entry("LICENSE", checkout.join("LICENSE"), false)?,
        entry("README.md", checkout.join("README.md"), false)?,
    ];
    let packed = if platform.is_windows() {
        archive::zip(&entries, date)?
    } else {
        archive::tar_gz(&entries, date)?
    };
    put(out, &platform.archive(), &packed)
}

/// Packs the chart as `helm package` does, and returns the archive.
///
/// # Errors
/// When it can't be written.
pub fn pack_chart(chart: &Files, date: Timestamp, out: &Path) -> Result<PathBuf> {
    let entries: Vec<Entry> = chart
        .iter()
        .map(|(path, text)| Entry {
            name: format!("appdeploy/{}", path.display()),
            content: text.clone().into_bytes(),
            is_program: false,
        })
        .collect();
    put(
        out,
        &format!("appdeploy-{VERSION}.tgz"),
        &archive::tar_gz(&entries, date)?,
    )
}

/// Writes Krew's manifest for the existing archives, and returns it.
///
/// # Errors
/// When there are none, or one can't be read.
pub fn write_krew(out: &Path) -> Result<PathBuf> {
    let mut platforms = String::new();
    for platform in PLATFORMS {
        let archive = platform.archive();
        if !out.join(&archive).is_file() {
            continue;
        }
        let text = fill(
            include_str!("../krew/platform.yaml"),
            &[
                ("os", platform.os),
                ("arch", platform.arch),
                ("uri", &format!("{DOWNLOADS}/v{VERSION}/{archive}")),
                ("sha256", &checksum(&out.join(archive))?),
                ("program", platform.program()),
            ],
        )?;
        platforms.push_str(&text);
    }
    ensure!(
        !platforms.is_empty(),
        "{} has no archive of this version",
        out.display()
    );
    let blanks = [("version", VERSION), ("platforms", platforms.trim_end())];
    put(
        out,
        "appdeploy.yaml",
        fill(include_str!("../krew/plugin.yaml"), &blanks)?.as_bytes(),
    )
}

/// Writes the checksums of all files of a release, and returns the file.
///
/// # Errors
/// When a file can't be read.
pub fn write_checksums(out: &Path) -> Result<PathBuf> {
    let read = || format!("failed to read {}", out.display());
    let mut names = Vec::new();
    for file in out.read_dir().with_context(read)? {
        let file = file.with_context(read)?;
        let name = file
            .file_name()
            .into_string()
            .ok()
            .context("a file name is not UTF-8")?;
        if file.path().is_file() && name != CHECKSUMS {
            names.push(name);
        }
    }
    names.sort_unstable();
    let mut text = String::new();
    for name in names {
        writeln!(text, "{}  {name}", checksum(&out.join(&name))?)?;
    }
    put(out, CHECKSUMS, text.as_bytes())
}

fn checksum(path: &Path) -> Result<String> {
    let content = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    let digest = Sha256::digest(content);
    let mut text = String::new();
    for byte in digest {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

fn put(out: &Path, name: &str, content: &[u8]) -> Result<PathBuf> {
    let path = out.join(name);
    output::make(out)?;
    std::fs::write(&path, content).with_context(|| format!("failed to write {}", path.display()))?;
    Ok(path)
}
