//! etcd: one member without fsync, which can be restarted with a backup of its data.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::Error;
use super::readiness::{Readiness, free_port, on_free_ports};
use crate::binaries::{Binaries, Program};
use crate::process::Process;

/// The program, the folder and the ports of an etcd.
#[derive(Debug)]
pub(super) struct Etcd {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    peers: u16,
}

impl Etcd {
    /// Starts etcd on free ports, without data.
    pub(super) fn start_empty(binaries: &Binaries, folder: &Path) -> Result<(Self, Process), Error> {
        on_free_ports(|| {
            let etcd = Self {
                program: binaries.path(Program::Etcd),
                folder: folder.to_owned(),
                port: free_port()?,
                peers: free_port()?,
            };
            // An earlier try may have stored its ports there.
            let _ = fs::remove_dir_all(etcd.data());
            let process = etcd.start()?;
            Ok((etcd, process))
        })
    }

    /// Starts it with its data.
    ///
    /// It needs no password, because it listens on loopback only.
    pub(super) fn start(&self) -> Result<Process, Error> {
        let url = self.url();
        let peer_url = format!("http://127.0.0.1:{}", self.peers);
        let mut command = Command::new(&self.program);
        command.arg("--data-dir").arg(self.data());
        command.args(["--unsafe-no-fsync", "--log-level", "warn"]);
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args([
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
        ]);
        command.args(["--initial-cluster", &format!("default={peer_url}")]);
        let mut process = Process::spawn(&command, &self.folder.join("etcd.log"))?;
        Readiness::of(&mut process).wait_for_port(self.port)?;
        Ok(process)
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Copies its data. It must not run.
    pub(super) fn save(&self, backup: &Path) -> io::Result<()> {
        copy(&self.data(), backup)
    }

    /// Replaces its data with a backup. It must not run.
    pub(super) fn set_back(&self, backup: &Path) -> io::Result<()> {
        fs::remove_dir_all(self.data())?;
        copy(backup, &self.data())
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    fn data(&self) -> PathBuf {
        self.folder.join("etcd")
    }
}

/// Copies a folder with its content and permissions: etcd rejects folders that others may read.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
