//! etcd: one member, which trusts its memory, and may be stopped and started again with what it knew earlier.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::Error;
use super::readiness::{Readiness, free_port, on_free_ports};
use crate::binaries::{Binaries, Program};
use crate::process::Process;

/// How etcd is run.
#[derive(Debug)]
pub(super) struct Etcd {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    peers: u16,
}

impl Etcd {
    /// Starts etcd on free ports, with nothing in it.
    pub(super) fn start_anew(binaries: &Binaries, folder: &Path) -> Result<(Self, Process), Error> {
        on_free_ports(|| {
            let etcd = Self {
                program: binaries.path(Program::Etcd),
                folder: folder.to_owned(),
                port: free_port()?,
                peers: free_port()?,
            };
            // A try before this one may have left its own ports in there.
            let _ = fs::remove_dir_all(etcd.data());
            let process = etcd.start()?;
            Ok((etcd, process))
        })
    }

    /// Starts it with what is there.
    ///
    /// It asks nobody for a password: it listens on loopback, for tests, as upstream's own do.
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

    /// Copies what it knows. It must not run.
    pub(super) fn save(&self, backup: &Path) -> io::Result<()> {
        copy(&self.data(), backup)
    }

    /// Replaces what it knows by what was saved. It must not run.
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

/// Copies a folder with all that is in it. etcd wants it for itself.
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
