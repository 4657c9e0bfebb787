//! ElasticMQ, a queue server in Scala. It needs a Java runtime of version 11 or newer.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use super::QueueServer;
use super::install::{ensure_installed, run};

/// The files and their checksums, in the format of `sha256sum`.
const FILES: &str = include_str!("../../queue_servers/elasticmq.txt");
/// What Maven fetches.
const POM: &str = include_str!("../../queue_servers/pom.xml");
/// The goal that copies it into a folder.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// How often Maven is run until it succeeds.
const DOWNLOADS: u32 = 3;

/// The path that answers when it is ready.
const HEALTH: &str = "/health";

/// A running ElasticMQ. It accepts any credentials.
#[derive(Debug)]
pub struct ElasticMq(QueueServer);

impl ElasticMq {
    /// Downloads it if need be, which needs the network of the machine. Returns its folder.
    ///
    /// # Errors
    /// When Maven fails, or a file is not the expected one.
    pub fn install() -> Result<PathBuf> {
        ensure_installed("elasticmq", FILES, download)
    }

    /// Starts it on a free port of `ip`, which is also in the URLs of its queues. Returns when it is ready.
    ///
    /// # Errors
    /// When it can't be installed or started.
    pub fn start(ip: IpAddr) -> Result<Self> {
        Self::start_with(|command| QueueServer::start(ip, HEALTH, command))
    }

    /// As [`Self::start`], at this address.
    ///
    /// # Errors
    /// When it can't be installed or started, or the address is in use.
    pub fn start_at(address: SocketAddr) -> Result<Self> {
        Self::start_with(|command| QueueServer::start_at(address, HEALTH, command))
    }

    fn start_with(
        start: impl FnOnce(&dyn Fn(SocketAddr, &Path) -> Result<Command>) -> Result<QueueServer>,
    ) -> Result<Self> {
        let folder = Self::install()?;
        let server = start(&|address, scratch| {
            let settings = scratch.join("elasticmq.conf");
            fs::write(&settings, configuration(address)).context("failed to write its configuration")?;
            let mut java = Command::new("java");
            // A small heap, and a quick start instead of fast code.
            java.args(["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
                .arg(format!("-Dconfig.file={}", settings.display()))
                .arg("-cp")
                .arg(folder.join("*"))
                .arg("org.elasticmq.server.Main");
            Ok(java)
        })
        .context(
            "failed to start ElasticMQ, which needs Java 11 or newer (Debian: apt install default-jre-headless)",
        )?;
        Ok(Self(server))
    }
}

impl Deref for ElasticMq {
    type Target = QueueServer;

    fn deref(&self) -> &QueueServer {
        &self.0
    }
}

impl DerefMut for ElasticMq {
    fn deref_mut(&mut self) -> &mut QueueServer {
        &mut self.0
    }
}

/// Returns the configuration. By default it listens on all addresses.
fn configuration(address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "include classpath(\"application.conf\")
node-address {{ protocol = http, host = \"{ip}\", port = {port}, context-path = \"\" }}
rest-sqs {{ enabled = true, bind-hostname = \"{ip}\", bind-port = {port}, sqs-limits = strict }}
rest-stats {{ enabled = false }}
"
    )
}

fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once("  "))
}

/// Fetches all files into `folder` with Maven, which knows the repository and the proxy of this machine, and checks their
/// sums.
fn download(folder: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("failed to create a folder")?;
    let pom = scratch.path().join("pom.xml");
    fs::write(&pom, POM).context("failed to write the list for Maven")?;
    let mut maven = Command::new("mvn");
    // Without --quiet, which would hide the errors, too.
    maven
        .args([
            "--batch-mode",
            "--no-transfer-progress",
            COPY,
            "-DincludeScope=runtime",
            "--file",
        ])
        .arg(&pom)
        .arg(format!("-DoutputDirectory={}", folder.display()));
    // It fails with the first file that a repository does not send, and keeps those before it.
    let mut fetched = run(&mut maven);
    for _ in 1..DOWNLOADS {
        fetched = fetched.or_else(|_| run(&mut maven));
    }
    fetched.context("Maven fetches ElasticMQ (Debian: apt install maven)")?;
    for (sum, name) in list() {
        let file = folder.join(name);
        let bytes = fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let found = Sha256::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        ensure!(found == sum, "{name} has the checksum {found}, not {sum}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn files_have_distinct_names_and_sums() {
        let names: BTreeSet<_> = list().map(|(_, name)| name).collect();
        assert_eq!(names.len(), list().count());
        assert!(names.iter().any(|name| name.starts_with("elasticmq-server_")));
        let is_jar = |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "jar");
        assert!(list().all(|(sum, name)| sum.len() == 64 && is_jar(name) && !name.contains('/')));
    }
}
