//! Programs of upstream releases, downloaded with `curl` and used only if their SHA-256 checksum is the one in
//! `releases.txt`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::Program;
use super::build::wait;

/// The checksums, in the format of `sha256sum`; paths are relative to the server's address.
const RELEASES: &str = include_str!("../../releases.txt");
/// Where Kubernetes publishes its programs.
const SERVER: &str = "https://dl.k8s.io/release";
/// The variable for another server with the same files. An empty value disables downloads.
pub(super) const VARIABLE: &str = "APPDEPLOY_KUBE_URL";

/// The timeout of a server's first answer.
const ANSWER: &str = "3";
/// The timeout of a stalled transfer.
const STALLED: &str = "15";

/// A program that upstream publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Release {
    /// Its path on the server.
    path: &'static str,
    /// Its SHA-256 checksum, in lower-case hexadecimal.
    sum: &'static str,
}

/// An error of a download.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// `curl` failed.
    #[error("{0}")]
    Fetch(String),
    /// The file differs from the one that upstream published.
    #[error("its checksum is {0}")]
    Sum(String),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
}

impl Release {
    /// Returns the release of `program` for this machine, if there is one.
    pub(super) fn of(program: Program) -> Option<Self> {
        Self::find(RELEASES, program, std::env::consts::OS, std::env::consts::ARCH)
    }

    fn find(list: &'static str, program: Program, system: &str, processor: &str) -> Option<Self> {
        let processor = match processor {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let wanted = format!("v{}/bin/{system}/{processor}/{}", program.version(), program.name());
        list.lines().find_map(|line| {
            let (sum, path) = line.split_once("  ")?;
            (path == wanted).then_some(Self { path, sum })
        })
    }

    /// Fetches the program from `server` into `target`, a file that does not exist. `tick` gets the elapsed time and the bytes
    /// so far, each second.
    ///
    /// # Errors
    /// When the server does not have it or stalls, or the file is not the one that upstream published.
    pub(super) fn fetch(self, server: &str, target: &Path, mut tick: impl FnMut(Duration, u64)) -> Result<(), Error> {
        let mut curl = Command::new("curl");
        curl.args(["--fail", "--location", "--silent", "--show-error"])
            .args([
                "--connect-timeout",
                ANSWER,
                "--speed-limit",
                "1",
                "--speed-time",
                STALLED,
            ])
            .arg("--output")
            .arg(target)
            .arg(format!("{server}/{}", self.path));
        let (status, output) = wait(curl, |elapsed, _| {
            tick(elapsed, target.metadata().map_or(0, |file| file.len()));
        })?;
        if !status.success() {
            return Err(Error::Fetch(output.trim().to_owned()));
        }
        let sum = sum(target)?;
        if sum != self.sum {
            return Err(Error::Sum(sum));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(target, std::fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    /// Returns whether `server` answers within three seconds that it has this program.
    pub(super) fn is_on(self, server: &str) -> bool {
        let mut curl = Command::new("curl");
        curl.args(["--fail", "--location", "--silent", "--head", "--output", "/dev/null"])
            .args(["--max-time", ANSWER])
            .arg(format!("{server}/{}", self.path));
        wait(curl, |_, _| ()).is_ok_and(|(status, _)| status.success())
    }
}

/// Returns the server to fetch from, if it is not switched off.
pub(super) fn server(variable: Option<String>) -> Option<String> {
    match variable {
        None => Some(SERVER.to_owned()),
        Some(server) if server.trim().is_empty() => None,
        Some(server) => Some(server.trim_end_matches('/').to_owned()),
    }
}

fn sum(file: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut file = File::open(file)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => digest.update(&buffer[..read]),
        }
    }
    Ok(digest.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::Instant;

    use super::*;

    const BODY: &[u8] = b"#!/bin/sh\necho kubectl\n";
    /// Of BODY, by `sha256sum`.
    const RELEASE: Release = Release {
        path: "v1/kubectl",
        sum: "fbc2a86aa5a395f5eba8b48a0df7c0c47b19976728dccbd7fcf6808f1899656f",
    };

    /// Serves one file, for as long as the test runs, and returns its address.
    fn serve(answer: impl Fn(TcpStream, &str) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap())
                    .lines()
                    .map_while(Result::ok);
                let request = lines.next().unwrap_or_default();
                lines.find(String::is_empty);
                answer(stream, &request);
            }
        });
        address
    }

    fn send(mut stream: TcpStream, length: usize, body: &[u8]) {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    }

    fn fetch(server: &str) -> (Result<(), Error>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (RELEASE.fetch(server, &folder.path().join("kubectl"), |_, _| ()), folder)
    }

    #[test]
    fn program_with_the_right_sum_is_fetched_and_runs() {
        let server = serve(|stream, request| {
            assert!(request.starts_with("GET /v1/kubectl ") || request.starts_with("HEAD /v1/kubectl "));
            send(stream, BODY.len(), if request.starts_with("GET") { BODY } else { b"" });
        });
        assert!(RELEASE.is_on(&server));
        let (result, folder) = fetch(&server);
        result.unwrap();
        let output = Command::new(folder.path().join("kubectl")).output().unwrap();
        assert_eq!(output.stdout, b"kubectl\n");
    }

    #[test]
    fn another_file_is_refused() {
        let server = serve(|stream, _| send(stream, 7, b"malware"));
        assert!(matches!(fetch(&server).0, Err(Error::Sum(_))));
    }

    #[test]
    fn truncated_file_is_refused() {
        // The server ends the connection too early, and one that claims the shorter length.
        let broken = serve(|stream, _| send(stream, BODY.len(), &BODY[..9]));
        assert!(matches!(fetch(&broken).0, Err(Error::Fetch(_))));
        let short = serve(|stream, _| send(stream, 9, &BODY[..9]));
        assert!(matches!(fetch(&short).0, Err(Error::Sum(_))));
    }

    #[test]
    fn missing_file_has_no_release() {
        let server = serve(|mut stream, _| {
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        });
        assert!(!RELEASE.is_on(&server));
        assert!(matches!(fetch(&server).0, Err(Error::Fetch(_))));
    }

    #[test]
    fn server_that_never_answers_is_given_up_after_three_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let started = Instant::now();
        assert!(!RELEASE.is_on(&server));
        let took = started.elapsed();
        assert!((3..6).contains(&took.as_secs()), "it took {took:?}");
    }

    #[test]
    fn refused_connection_is_given_up_immediately() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let started = Instant::now();
        assert!(!RELEASE.is_on(&server));
        assert!(started.elapsed() < Duration::from_secs(3));
    }

    #[test]
    fn every_kubernetes_program_has_a_sum_for_both_processors() {
        use Program::{KubeApiserver, KubeControllerManager, KubeProxy, KubeScheduler, Kubectl, Kubelet};
        for program in [
            KubeApiserver,
            KubeControllerManager,
            KubeProxy,
            KubeScheduler,
            Kubectl,
            Kubelet,
        ] {
            for processor in ["x86_64", "aarch64"] {
                let release = Release::find(RELEASES, program, "linux", processor);
                let release = release.unwrap_or_else(|| panic!("{program} for {processor} has no sum"));
                assert!(release.sum.len() == 64 && release.sum.bytes().all(|byte| byte.is_ascii_hexdigit()));
            }
        }
        let lines = RELEASES.lines().filter(|line| !line.starts_with('#'));
        let mut sums: Vec<&str> = lines
            .filter_map(|line| line.split_once("  "))
            .map(|(sum, _)| sum)
            .collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), 12, "two programs have the same sum, or one has none");
        assert_eq!(Release::find(RELEASES, Program::Kubelet, "macos", "aarch64"), None);
        assert_eq!(Release::find(RELEASES, Program::Etcd, "linux", "x86_64"), None);
    }

    #[test]
    fn server_can_be_replaced_and_switched_off() {
        assert_eq!(server(None).as_deref(), Some(SERVER));
        assert_eq!(server(Some(String::new())), None);
        assert_eq!(
            server(Some("http://mirror/k8s/".into())).as_deref(),
            Some("http://mirror/k8s")
        );
    }
}
