//! The processes of the cluster, which are recorded so that exactly these can be stopped.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use testcluster::process::{Record, detach};

use super::layout::Layout;
use super::tool::last_lines;

/// One started process.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    record: Record,
    /// The command: another version or setting requires another process.
    command: Vec<String>,
}

/// The processes of one cluster, in a file of its state folder.
#[derive(Debug)]
pub(crate) struct Daemons {
    file: PathBuf,
    logs: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl Daemons {
    /// Reads the recorded processes; an unreadable file counts as empty.
    pub(crate) fn load(layout: &Layout) -> Self {
        let file = layout.at("processes.json");
        let entries = std::fs::read(&file)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        Self {
            file,
            logs: layout.at("logs"),
            entries,
        }
    }

    /// Returns whether the process of this name runs.
    pub(crate) fn alive(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.record.is_alive())
    }

    /// Returns each process's name, and whether it runs.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&str, u32, bool)> {
        self.entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry.record.pid, entry.record.is_alive()))
    }

    /// Ensures that exactly this command runs under `name`.
    pub(crate) fn ensure(&mut self, name: &str, program: &Path, args: &[String], env: &[(&str, &OsStr)]) -> Result<()> {
        let mut words = vec![program.display().to_string()];
        words.extend(args.iter().cloned());
        if self
            .entries
            .get(name)
            .is_some_and(|entry| entry.record.is_alive() && entry.command == words)
        {
            return Ok(());
        }
        self.end(name)?;
        super::layout::create(&self.logs)?;
        let log = self.log(name);
        // The log of the failed run is useful; older ones are not.
        let _ = std::fs::rename(&log, log.with_extension("log.old"));
        let mut command = Command::new(program);
        command.args(args).current_dir("/");
        // A proxy of the host does not know the addresses of pods and Services.
        for variable in [
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
        ] {
            command.env_remove(variable);
        }
        command.envs(env.iter().copied());
        let record = detach(command, &log)?;
        self.entries.insert(name.into(), Entry { record, command: words });
        self.save()
    }

    /// Stops the process of this name, if it runs.
    pub(crate) fn end(&mut self, name: &str) -> Result<()> {
        if let Some(entry) = self.entries.remove(name) {
            entry
                .record
                .end(Duration::from_secs(10))
                .with_context(|| format!("failed to end {name}"))?;
            self.save()?;
        }
        Ok(())
    }

    /// Waits until `ready` returns true; fails with the end of the log when the process exits or after a timeout.
    pub(crate) fn wait(&self, name: &str, seconds: u64, ready: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            let dead = !self.alive(name);
            if dead || start.elapsed() > Duration::from_secs(seconds) {
                let log = self.log(name);
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                let what = if dead {
                    "ended".to_owned()
                } else {
                    format!("was not ready after {seconds} s")
                };
                bail!("{name} {what}; {} ends with:\n{}", log.display(), last_lines(&text, 8));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// Written to another file and renamed: a kill at this point must not lose the other records.
    fn save(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.entries).context("failed to write down the processes")?;
        let new = self.file.with_extension("new");
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, &self.file))
            .with_context(|| format!("failed to write {}", self.file.display()))
    }
}

/// Returns whether a server listens on this address.
pub(crate) fn answers(address: &str) -> bool {
    address
        .parse()
        .is_ok_and(|address| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok())
}
