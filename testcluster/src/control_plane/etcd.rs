//! etcd: one member, which trusts its memory.

use std::path::Path;
use std::process::Command;

use super::Error;
use super::readiness::{Readiness, free_port, on_free_ports};
use crate::binaries::{Binaries, Program};
use crate::process::Process;

/// Starts etcd, and returns it with its URL.
///
/// It asks nobody for a password: it listens on loopback, for tests, as upstream's own do.
pub(super) fn start_etcd(binaries: &Binaries, folder: &Path) -> Result<(Process, String), Error> {
    on_free_ports(|| {
        let (port, peers) = (free_port()?, free_port()?);
        let url = format!("http://127.0.0.1:{port}");
        let peer_url = format!("http://127.0.0.1:{peers}");
        let data = folder.join("etcd");
        // A try before this one may have left its own ports in there.
        let _ = std::fs::remove_dir_all(&data);
        let mut etcd = Command::new(binaries.path(Program::Etcd));
        etcd.arg("--data-dir").arg(data);
        etcd.args(["--unsafe-no-fsync", "--log-level", "warn"]);
        etcd.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        etcd.args([
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
        ]);
        etcd.args(["--initial-cluster", &format!("default={peer_url}")]);
        let mut process = Process::spawn(&etcd, &folder.join("etcd.log"))?;
        Readiness::of(&mut process).wait_for_port(port)?;
        Ok((process, url))
    })
}
