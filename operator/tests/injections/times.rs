//! How long recoveries took, written into the documentation.

use std::fmt::Write as _;
use std::time::Duration;

/// The file to write the table into, between two lines that mark its place.
const FILE: &str = "APPDEPLOY_RECOVERY";
const BEGIN: &str = "<!-- recovery: begin -->\n";
const END: &str = "<!-- recovery: end -->\n";

pub struct Recovery {
    pub name: &'static str,
    pub deed: &'static str,
    pub took: Duration,
}

/// Writes the table, if that was asked for.
pub fn write(times: &[Recovery]) {
    let Some(path) = std::env::var_os(FILE) else { return };
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table(times))).unwrap();
}

fn table(times: &[Recovery]) -> String {
    let mut table = "| Injection | Action | Recovered after |\n|---|---|---|\n".to_owned();
    for Recovery { name, deed, took } in times {
        writeln!(table, "| {name} | {deed} | {:.1} s |", took.as_secs_f64()).unwrap();
    }
    let mut sorted: Vec<Duration> = times.iter().map(|recovery| recovery.took).collect();
    sorted.sort();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let longest = sorted.last().copied().unwrap_or_default().as_secs_f64();
    let median = sorted[sorted.len() / 2].as_secs_f64();
    let date = jiff::Zoned::now().date();
    writeln!(
        table,
        "\nAll {} were recovered from; the median is {median:.1} s, the longest {longest:.1} s. Measured on {date}, on a \
         machine with {cores} cores.",
        times.len()
    )
    .unwrap();
    table
}
