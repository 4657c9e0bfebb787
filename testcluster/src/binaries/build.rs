//! Runs `go build` for the programs of one module.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Error, Program, names};

/// How often the caller gets progress of a running command.
const TICK: Duration = Duration::from_secs(1);

/// Builds `programs` of one module into the folder `out`. One call of Go compiles shared packages once. `tick` receives
/// the elapsed time and the number of compiled packages, each second.
///
/// # Errors
/// When Go is missing or fails.
pub(super) fn build(
    programs: &[Program],
    scratch: &Path,
    out: &Path,
    tick: impl FnMut(Duration, usize),
) -> Result<(), Error> {
    let Some(first) = programs.first().copied() else {
        return Ok(());
    };
    let workdir = write_module(first, scratch)?;
    let (status, output) =
        wait(command(programs, first, &workdir, out), tick).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::FindGo {
                programs: names(programs),
            },
            _ => Error::RunGo {
                programs: names(programs),
                source,
            },
        })?;
    if !status.success() {
        return Err(Error::Build {
            programs: names(programs),
            output: complaint(&output),
        });
    }
    Ok(())
}

/// Returns Go's output without the packages that it downloaded and compiled.
fn complaint(output: &str) -> String {
    let lines = output
        .lines()
        .filter(|line| !is_package(line) && !line.starts_with("go: downloading "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns whether `go build -v` names a package in this line.
fn is_package(line: &str) -> bool {
    !line.is_empty() && !line.contains(char::is_whitespace)
}

/// Returns the folder with the sources of `program`.
pub(super) fn sources(program: Program, scratch: &Path) -> Result<PathBuf, Error> {
    let workdir = write_module(program, scratch)?;
    let output = go(&workdir)
        .args(["list", "-f", "{{.Module.Dir}}", program.package()])
        .output()
        .map_err(|source| Error::RunGo {
            programs: program.to_string(),
            source,
        })?;
    if output.status.success() {
        return Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    Err(Error::Build {
        programs: program.to_string(),
        output: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
    })
}

/// Writes the `go.mod` of `program`, and returns its folder.
fn write_module(program: Program, scratch: &Path) -> Result<PathBuf, Error> {
    let module = program.module();
    // Not the module's name: the program may have the same, and `go` then writes into the folder.
    let workdir = scratch.join("module");
    let write = || {
        std::fs::create_dir_all(&workdir)?;
        std::fs::write(workdir.join("go.mod"), module.go_mod)?;
        if let Some(main) = module.main {
            std::fs::write(workdir.join("main.go"), main)?;
        }
        std::fs::write(workdir.join("go.sum"), module.go_sum)
    };
    write().map_err(|source| Error::Write {
        path: workdir.clone(),
        source,
    })?;
    Ok(workdir)
}

fn command(programs: &[Program], first: Program, workdir: &Path, out: &Path) -> Command {
    let mut go = go(workdir);
    go.args(["build", "-v", "-ldflags"])
        .arg(first.module().ldflags())
        .arg("-tags")
        .arg(first.module().tags())
        .arg("-o");
    // Into a folder, Go names a program after its package, which for a single one may be another name.
    if programs.len() == 1 {
        go.arg(out.join(first.name()));
    } else {
        go.arg(out);
    }
    go.args(programs.iter().map(|program| program.package()));
    go
}

fn go(workdir: &Path) -> Command {
    let mut go = Command::new("go");
    // The user's own Go settings are for the user's own code. Without cgo no C compiler is needed, and the result runs on
    // any Linux.
    go.current_dir(workdir)
        .env("GOFLAGS", "-mod=readonly -trimpath -buildvcs=false")
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .env_remove("GOOS")
        .env_remove("GOARCH");
    go
}

/// Runs a command, and returns its standard error. `tick` receives the elapsed time and the number of packages so far,
/// each second.
pub(super) fn wait(mut command: Command, mut tick: impl FnMut(Duration, usize)) -> io::Result<(ExitStatus, String)> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let (send, receive) = mpsc::channel();
    let reader = child.stderr.take().map(|stderr| {
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        })
    });
    let mut output = String::new();
    let mut packages = 0;
    let mut next = started + TICK;
    loop {
        match receive.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                packages += usize::from(is_package(&line));
                output.push_str(&line);
                output.push('\n');
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                tick(started.elapsed(), packages);
                next += TICK;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait()?;
    drop(reader);
    Ok((status, output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaint_has_no_packages_and_no_downloads() {
        let output =
            "go: downloading k8s.io/api v0.36.3\ninternal/cpu\nk8s.io/api/core/v1\n# k8s.io/x\nx.go:1:2: oops\n";
        assert_eq!(complaint(output), "# k8s.io/x\nx.go:1:2: oops");
    }
}
