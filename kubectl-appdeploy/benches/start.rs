//! How long the plugin takes to start: what a person waits for before anything else, and a shell before each completion.

#![expect(clippy::print_stdout, reason = "it is a bench: what it prints is what it is for")]

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often each line is run. The first runs, which read the program from the disk, do not count.
const RUNS: usize = 100;
const FIRST: usize = 10;

fn main() -> io::Result<()> {
    println!("{:<44}  median  slowest of ten", "");
    for line in ["--help", "status --help", "version --client", "__complete sta"] {
        let mut times = Vec::new();
        for run in 0..FIRST + RUNS {
            let time = time(line)?;
            if run >= FIRST {
                times.push(time);
            }
        }
        times.sort();
        let milliseconds = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1000.0;
        println!(
            "kubectl-appdeploy {line:<26}  {:>4.1} ms  {:>4.1} ms",
            milliseconds(50),
            milliseconds(90)
        );
    }
    Ok(())
}

fn time(line: &str) -> io::Result<Duration> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-appdeploy"));
    command
        .args(line.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begin = Instant::now();
    command.status()?;
    Ok(begin.elapsed())
}
