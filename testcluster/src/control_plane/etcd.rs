//! etcd: one member without fsync, which can be restarted with a backup of its data.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use super::Error;
use super::readiness::{Readiness, free_port, on_free_ports};
use crate::binaries::{Binaries, Program};
use crate::http::Request;
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
        // Another process may listen on this port: then etcd has not tried to bind it yet, and ends when it does.
        Readiness::of(&mut process).wait_for(|| self.answers(&peer_url))?;
        Ok(process)
    }

    /// Returns an error unless the etcd with this peer URL answers.
    fn answers(&self, peer_url: &str) -> Result<(), String> {
        let request = Request {
            method: "POST",
            path: "/v3/cluster/member/list",
            body: "{}",
            timeout: Duration::from_secs(1),
            ..Request::default()
        };
        let response = request.send((Ipv4Addr::LOCALHOST, self.port).into());
        let response = response.map_err(|error| error.to_string())?;
        let is_own = response.body.contains(peer_url);
        is_own
            .then_some(())
            .ok_or(format!("another process answers: {}", response.body))
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::binaries::{Component, Quiet};

    #[test]
    fn etcd_whose_port_is_taken_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let etcd = Etcd {
            program: Binaries::ensure(&[Component::ControlPlane], &mut Quiet)
                .unwrap()
                .path(Program::Etcd),
            folder: folder.path().to_owned(),
            port: taken.local_addr().unwrap().port(),
            peers: free_port().unwrap(),
        };
        let Err(Error::Ended { log, .. }) = etcd.start() else {
            panic!("another process is taken for etcd");
        };
        assert!(log.contains("address already in use"), "{log}");
    }
}
