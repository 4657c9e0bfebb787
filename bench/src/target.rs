//! Targets, and whether they are met.

use crate::contender::Contender::{self, AppDeploy, Floor, Peer};
use crate::format::{apps, figure};
use crate::result::{Operator, Report, Run};
use crate::statistics::{Rounds, number};

/// A target and its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The target.
    pub wanted: String,
    /// The measurement, in words.
    pub measured: String,
    /// Whether it is met; `None` if it was not measured.
    pub met: Option<bool>,
}

/// The maximum time of all apps, relative to the floor.
const FACTOR: f64 = 1.15;
/// The maximum time to restore 99 of 100 children, in ms.
const HEALED_MS: f64 = 100.0;
/// The number of apps for the factor; the next one is for properties that grow with the number of apps.
const MANY: usize = 1000;
const MOST: usize = 10_000;

/// Returns the targets with the results of a report.
#[must_use]
pub fn targets(report: &Report) -> Vec<Target> {
    vec![
        requests(report),
        factor(report),
        restart(report),
        memory(report),
        healed(report),
    ]
}

/// Returns the time of a contender for a number of apps relative to the floor, by the medians of the rounds.
#[must_use]
pub fn times_floor(report: &Report, contender: Contender, apps: usize) -> Option<f64> {
    let seconds = |contender| median(report, contender, apps, |run| Some(run.converge.all_s));
    Some(seconds(contender)? / seconds(Floor)?)
}

fn requests(report: &Report) -> Target {
    let runs: Vec<&Run> = report.runs.iter().filter(|run| run.contender == AppDeploy).collect();
    let measured = (!runs.is_empty()).then(|| {
        let (mut writes, mut reads): (Vec<f64>, Vec<f64>) = runs
            .iter()
            .map(|run| (run.writes_per_app(), run.reads_per_app()))
            .unzip();
        for values in [&mut writes, &mut reads] {
            values.sort_by(f64::total_cmp);
            values.dedup();
        }
        let words = |values: &[f64]| {
            values
                .iter()
                .map(|value| figure(*value))
                .collect::<Vec<_>>()
                .join(" or ")
        };
        let met = writes == [4.0] && reads == [0.0];
        (format!("{} writes, {} reads", words(&writes), words(&reads)), met)
    });
    target(
        "4 writes and 0 reads for each new app, exactly, in every run".to_owned(),
        measured,
    )
}

fn factor(report: &Report) -> Target {
    let measured = times_floor(report, AppDeploy, MANY).map(|times| (format!("{times:.2}"), times <= FACTOR));
    target(
        format!("{} have converged within {FACTOR} times the floor", apps(MANY)),
        measured,
    )
}

fn restart(report: &Report) -> Target {
    let writes = |run: &Run| Some(number(run.operator.as_ref()?.restart.asked.writes()));
    let measured = worst(report, MOST, writes).map(|writes| (format!("{} writes", figure(writes)), writes == 0.0));
    target(format!("0 writes at a restart among {}", apps(MOST)), measured)
}

fn memory(report: &Report) -> Target {
    let mib = |contender| median(report, contender, MOST, |run| Some(run.operator.as_ref()?.settled_mib));
    let measured = mib(AppDeploy).zip(mib(Peer)).map(|(ours, peers)| {
        let words = format!("{} MiB compared with {} MiB", figure(ours), figure(peers));
        (words, ours < peers)
    });
    target(
        format!("less memory than the Go operator with {}", apps(MOST)),
        measured,
    )
}

fn healed(report: &Report) -> Target {
    let operators: Vec<&Operator> = report
        .runs
        .iter()
        .filter(|run| run.contender == AppDeploy)
        .filter_map(|run| run.operator.as_ref())
        .collect();
    let lost: usize = operators.iter().map(|operator| operator.lost).sum();
    let slowest = operators
        .iter()
        .map(|operator| operator.heal_ms.p99)
        .max_by(f64::total_cmp);
    let measured = slowest.map(|slowest| {
        let words = format!("at most {} ms in a run, {lost} were not restored", figure(slowest));
        (words, slowest <= HEALED_MS && lost == 0)
    });
    target(
        format!("99 of 100 deleted or changed children are restored within {HEALED_MS} ms, in every run"),
        measured,
    )
}

fn target(wanted: String, measured: Option<(String, bool)>) -> Target {
    let (measured, met) = measured.unzip();
    Target {
        wanted,
        measured: measured.unwrap_or_else(|| "not measured".to_owned()),
        met,
    }
}

fn values(report: &Report, contender: Contender, apps: usize, of: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    report.of(contender, apps).filter_map(of).collect()
}

fn median(report: &Report, contender: Contender, apps: usize, of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    Rounds::of(values(report, contender, apps, of)).map(|rounds| rounds.median)
}

fn worst(report: &Report, apps: usize, of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    Rounds::of(values(report, AppDeploy, apps, of)).map(|rounds| rounds.most)
}
