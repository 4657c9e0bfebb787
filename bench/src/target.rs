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

/// The largest value that meets a target.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// This value.
    Value(f64),
    /// A multiple of the same value of the floor.
    OfFloor(f64),
    /// A multiple of the same value of the operator in Go.
    OfPeer(f64),
}

use Bound::{OfFloor, OfPeer, Value};

/// A value that should be small: what it is, with its unit, the number of apps, and the bound.
struct Goal(&'static str, usize, fn(&Run) -> Option<f64>, Bound);

const SOME: usize = 1000;
const MANY: usize = 10_000;

/// The median of the rounds counts.
const GOALS: [Goal; 19] = [
    Goal("all converged, s", SOME, all_converged, OfFloor(1.03)),
    Goal("all converged, s", MANY, all_converged, OfFloor(1.03)),
    Goal("CPU of the operator for each app, ms", SOME, cpu, Value(1.5)),
    Goal("CPU of the operator for each app, ms", MANY, cpu, Value(1.5)),
    Goal("CPU of API server and etcd, s", SOME, server_cpu, OfFloor(1.05)),
    Goal("CPU of API server and etcd, s", MANY, server_cpu, OfFloor(1.05)),
    Goal(
        "a new image, p50, ms",
        MANY,
        |run| of(run, |it| it.change_ms.p50),
        OfPeer(1.0),
    ),
    Goal(
        "a new image, p99, ms",
        MANY,
        |run| of(run, |it| it.change_ms.p99),
        OfPeer(1.0),
    ),
    Goal(
        "new images of all, s",
        MANY,
        |run| of(run, |it| it.update.all_s),
        OfPeer(1.0),
    ),
    Goal(
        "a changed child is restored, p50, ms",
        MANY,
        |run| of(run, |it| it.restored_ms.p50),
        OfPeer(1.0),
    ),
    Goal(
        "a changed child is restored, p99, ms",
        MANY,
        |run| of(run, |it| it.restored_ms.p99),
        OfPeer(1.0),
    ),
    Goal(
        "ready after a restart, ms",
        MANY,
        |run| of(run, |it| it.restart.ready_ms),
        OfPeer(0.8),
    ),
    Goal(
        "a new app during a restart, ms",
        MANY,
        |run| of(run, |it| it.restart.canary_ms),
        Value(1500.0),
    ),
    Goal(
        "memory without an app, MiB",
        SOME,
        |run| of(run, |it| it.idle_mib),
        Value(12.0),
    ),
    Goal("memory, MiB", SOME, |run| of(run, |it| it.settled_mib), Value(25.0)),
    Goal("memory, MiB", MANY, |run| of(run, |it| it.settled_mib), Value(80.0)),
    Goal(
        "connections to the API server",
        MANY,
        |run| of(run, |it| number(it.connections)),
        Value(4.0),
    ),
    Goal(
        "reads at new images, for each app",
        MANY,
        reads_at_new_images,
        Value(0.0),
    ),
    Goal(
        "program, MiB",
        SOME,
        |run| run.operator.as_ref()?.program_mib,
        Value(12.0),
    ),
];

/// Returns the targets with the results of a report.
#[must_use]
pub fn targets(report: &Report) -> Vec<Target> {
    let counts = [requests(report), restart(report), restored(report)];
    counts
        .into_iter()
        .chain(GOALS.iter().map(|goal| reached(report, goal)))
        .collect()
}

/// Returns the time of a contender for a number of apps relative to the floor, by the medians of the rounds.
#[must_use]
pub fn times_floor(report: &Report, contender: Contender, apps: usize) -> Option<f64> {
    let seconds = |contender| median(report, contender, apps, all_converged);
    Some(seconds(contender)? / seconds(Floor)?)
}

fn reached(report: &Report, &Goal(what, count, value, bound): &Goal) -> Target {
    let (limit, compared) = match bound {
        Value(limit) => (figure(limit), None),
        OfFloor(factor) => (format!("{} that of the floor", times(factor)), Some((Floor, factor))),
        OfPeer(factor) => (
            format!("{} that of the Go operator", times(factor)),
            Some((Peer, factor)),
        ),
    };
    let measured = median(report, AppDeploy, count, value).and_then(|ours| {
        let Some((other, factor)) = compared else {
            let Value(limit) = bound else { return None };
            return Some((figure(ours), ours <= limit));
        };
        let theirs = median(report, other, count, value)?;
        let measured = format!(
            "{} compared with {}, {}",
            figure(ours),
            figure(theirs),
            times(ours / theirs)
        );
        Some((measured, ours <= factor * theirs))
    });
    target(format!("{}: {what}: at most {limit}", apps(count)), measured)
}

fn times(factor: f64) -> String {
    format!("{factor:.2} times")
}

#[expect(clippy::unnecessary_wraps, reason = "other values do not exist in every run")]
fn all_converged(run: &Run) -> Option<f64> {
    Some(run.converge.all_s)
}

fn cpu(run: &Run) -> Option<f64> {
    of(run, |it| it.cpu_ms_per_app)
}

#[expect(clippy::unnecessary_wraps, reason = "other values do not exist in every run")]
fn server_cpu(run: &Run) -> Option<f64> {
    Some(run.converge.apiserver_cpu_s + run.converge.etcd_cpu_s)
}

fn reads_at_new_images(run: &Run) -> Option<f64> {
    of(run, |it| number(it.update.asked.reads()) / number(run.apps))
}

fn of(run: &Run, value: impl Fn(&Operator) -> f64) -> Option<f64> {
    run.operator.as_ref().map(value)
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

fn restart(report: &Report) -> Target {
    let writes = |operator: &Operator| number(operator.restart.asked.writes());
    let measured = worst(report, writes).map(|writes| (format!("{} writes", figure(writes)), writes == 0.0));
    target("0 writes at a restart, in every run".to_owned(), measured)
}

fn restored(report: &Report) -> Target {
    let lost = worst(report, |operator| number(operator.lost));
    let measured = lost.map(|lost| (format!("{} were not", figure(lost)), lost == 0.0));
    target(
        "all deleted or changed children are restored, in every run".to_owned(),
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

fn median(report: &Report, contender: Contender, apps: usize, value: fn(&Run) -> Option<f64>) -> Option<f64> {
    Rounds::of(report.of(contender, apps).filter_map(value).collect()).map(|rounds| rounds.median)
}

/// Returns the largest value of all runs.
fn worst(report: &Report, value: impl Fn(&Operator) -> f64) -> Option<f64> {
    let ours = report.runs.iter().filter(|run| run.contender == AppDeploy);
    let values = ours.filter_map(|run| run.operator.as_ref()).map(value);
    values.max_by(f64::total_cmp)
}
