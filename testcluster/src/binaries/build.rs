//! Runs `go build` for one program.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Error, Program, Progress};

/// How often a long build says that it is still at it.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// Builds `program` in `scratch`, and moves it to `target` when it is whole.
pub(super) fn build(program: Program, scratch: &Path, target: &Path, progress: &mut dyn Progress) -> Result<(), Error> {
    let workdir = write_module(program, scratch)?;
    let out = scratch.join(program.name());

    let started = Instant::now();
    let (status, output) = wait(command(program, &workdir, &out), |elapsed| {
        progress.still_building(program, elapsed);
    })
    .map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::FindGo { program },
        _ => Error::RunGo { program, source },
    })?;
    if !status.success() {
        return Err(Error::Build {
            program,
            output: output.trim_end().to_owned(),
        });
    }
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    };
    let bytes = std::fs::metadata(&out).map_err(io(&out))?.len();
    // Within one file system, so that nobody ever sees half a program.
    std::fs::rename(&out, target).map_err(io(target))?;
    progress.built(program, started.elapsed(), bytes);
    Ok(())
}

/// Returns the folder with the sources of `program`.
pub(super) fn sources(program: Program, scratch: &Path) -> Result<PathBuf, Error> {
    let workdir = write_module(program, scratch)?;
    let output = go(&workdir)
        .args(["list", "-f", "{{.Module.Dir}}", program.package()])
        .output()
        .map_err(|source| Error::RunGo { program, source })?;
    if output.status.success() {
        return Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    Err(Error::Build {
        program,
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

fn command(program: Program, workdir: &Path, out: &PathBuf) -> Command {
    let mut go = go(workdir);
    go.arg("build")
        .arg("-ldflags")
        .arg(program.module().ldflags())
        .arg("-tags")
        .arg(program.module().tags())
        .arg("-o")
        .arg(out)
        .arg(program.package());
    go
}

fn go(workdir: &Path) -> Command {
    let mut go = Command::new("go");
    // The caller's own Go settings are for the caller's own code. Without cgo no C compiler is
    // needed, and what is built runs on any Linux.
    go.current_dir(workdir)
        .env("GOFLAGS", "-mod=readonly -trimpath -buildvcs=false")
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .env_remove("GOOS")
        .env_remove("GOARCH");
    go
}

fn wait(mut command: Command, mut still: impl FnMut(Duration)) -> io::Result<(ExitStatus, String)> {
    let started = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(child.wait_with_output()));
    loop {
        match receive.recv_timeout(SIGN_OF_LIFE) {
            Ok(done) => {
                let done = done?;
                return Ok((done.status, String::from_utf8_lossy(&done.stderr).into_owned()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => still(started.elapsed()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that waited is gone"));
            }
        }
    }
}
