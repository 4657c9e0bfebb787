//! Renders the results, and inserts them into a page.

use std::fmt::Write as _;

use crate::contender::{CONCURRENCY, Contender};
use crate::format::{apps, figure};
use crate::request::NAMESPACES;
use crate::result::{Operator, Report, Run};
use crate::section::Markers;
use crate::statistics::{Rounds, number};
use crate::target::{targets, times_floor};

/// The markers around the results in a page.
pub const MARKERS: Markers = Markers {
    begin: "<!-- results: written by `make performance` -->\n",
    end: "<!-- end of the results -->\n",
};

/// Renders the results as Markdown.
#[must_use]
pub fn results(report: &Report) -> String {
    let machine = &report.machine;
    let versions = report
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"));
    let mut page = format!(
        "Measured on {} on {} cores of an {} with {} GiB: {}.\n\n",
        report.date,
        machine.cores,
        machine.cpu,
        machine.memory_gib,
        versions.collect::<Vec<_>>().join(", ")
    );
    let _ = writeln!(
        page,
        "{NAMESPACES} namespaces, {CONCURRENCY} concurrent requests of clients; the floor and the operators write {CONCURRENCY} apps at \
         a time. With several rounds: the median, and the minimum and maximum in parentheses.\n"
    );
    page.push_str("| Target | Measured | |\n|---|---|---|\n");
    for target in targets(report) {
        let met = match target.met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "",
        };
        let _ = writeln!(page, "| {} | {} | {met} |", target.wanted, target.measured);
    }
    for size in report.sizes() {
        page.push('\n');
        page.push_str(&table(report, size));
    }
    page
}

/// A row of a table: its title, and its value in a run.
type Row = (&'static str, fn(&Run) -> Option<f64>);

const FIRST: [Row; 7] = [
    ("all converged, s", |run| Some(run.converge.all_s)),
    ("one converged, p50, ms", |run| Some(run.converge.each_ms.p50)),
    ("one converged, p99, ms", |run| Some(run.converge.each_ms.p99)),
    ("writes for each app", |run| Some(run.writes_per_app())),
    ("reads for each app", |run| Some(run.reads_per_app())),
    ("API server, CPU s", |run| Some(run.converge.apiserver_cpu_s)),
    ("etcd, CPU s", |run| Some(run.converge.etcd_cpu_s)),
];

const SECOND: [Row; 25] = [
    ("program, MiB", |run| run.operator.as_ref()?.program_mib),
    ("operator, CPU ms for each app", |run| of(run, |it| it.cpu_ms_per_app)),
    ("start to ready, no app, ms", |run| of(run, |it| it.start_ms)),
    ("memory, no app, MiB", |run| of(run, |it| it.idle_mib)),
    ("memory, all converged, MiB", |run| of(run, |it| it.settled_mib)),
    ("memory, peak until then, MiB", |run| of(run, |it| it.peak_mib)),
    ("connections to the API server", |run| {
        of(run, |it| number(it.connections))
    }),
    ("open descriptors", |run| of(run, |it| number(it.descriptors))),
    ("requests in a steady minute", |run| {
        let steady = run.operator.as_ref()?.steady.as_ref()?;
        Some(number(steady.asked.all()) * 60.0 / number(usize::try_from(steady.seconds).ok()?))
    }),
    ("restart: start to ready, ms", |run| of(run, |it| it.restart.ready_ms)),
    ("restart: writes", |run| of(run, |it| number(it.restart.asked.writes()))),
    ("restart: reads", |run| of(run, |it| number(it.restart.asked.reads()))),
    ("restart: revisions of etcd", |run| {
        let revisions = run.operator.as_ref()?.restart.revisions;
        usize::try_from(revisions).ok().map(number)
    }),
    ("restart: memory, MiB", |run| of(run, |it| it.restart.settled_mib)),
    ("restart: memory, peak, MiB", |run| of(run, |it| it.restart.peak_mib)),
    ("restart: a new app, ms", |run| of(run, |it| it.restart.canary_ms)),
    ("a new image, p50, ms", |run| of(run, |it| it.change_ms.p50)),
    ("a new image, p99, ms", |run| of(run, |it| it.change_ms.p99)),
    ("new images of all, s", |run| of(run, |it| it.update.all_s)),
    ("new images: writes for each app", |run| {
        of(run, |it| number(it.update.asked.writes()) / number(run.apps))
    }),
    ("a changed child is restored, p50, ms", |run| {
        of(run, |it| it.restored_ms.p50)
    }),
    ("a changed child is restored, p99, ms", |run| {
        of(run, |it| it.restored_ms.p99)
    }),
    ("a deleted child is restored, p50, ms", |run| {
        of(run, |it| it.recreated_ms.p50)
    }),
    ("a deleted child is restored, p99, ms", |run| {
        of(run, |it| it.recreated_ms.p99)
    }),
    ("children that were not restored", |run| of(run, |it| number(it.lost))),
];

fn of(run: &Run, value: impl Fn(&Operator) -> f64) -> Option<f64> {
    run.operator.as_ref().map(value)
}

fn table(report: &Report, size: usize) -> String {
    let contenders: Vec<Contender> = report
        .contenders()
        .into_iter()
        .filter(|contender| report.of(*contender, size).next().is_some())
        .collect();
    let mut table = format!("| {} |", apps(size));
    for contender in &contenders {
        let _ = write!(table, " {} |", contender.title());
    }
    table.push_str("\n|---|");
    table.push_str(&"---:|".repeat(contenders.len()));
    table.push('\n');
    let mut row = |name: &str, cells: Vec<Option<String>>| {
        if cells.iter().any(Option::is_some) {
            let cells: Vec<String> = cells
                .into_iter()
                .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
                .collect();
            let _ = writeln!(table, "| {name} | {} |", cells.join(" | "));
        }
    };
    for (place, (name, value)) in FIRST.into_iter().chain(SECOND).enumerate() {
        let rounds = |contender: &Contender| Rounds::of(report.of(*contender, size).filter_map(value).collect());
        row(name, contenders.iter().map(|one| rounds(one).map(cell)).collect());
        if place == 0 {
            let times =
                |contender: &Contender| times_floor(report, *contender, size).map(|times| format!("{times:.2}"));
            row("times the floor", contenders.iter().map(times).collect());
        }
    }
    table
}

fn cell(rounds: Rounds) -> String {
    let median = figure(rounds.median);
    if rounds.least < rounds.most {
        format!("{median} ({}-{})", figure(rounds.least), figure(rounds.most))
    } else {
        median
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use crate::format::grouped;
    use crate::plot;
    use crate::result::{Converge, Machine, Restart, Steady, Tally, Update};
    use crate::section;
    use crate::statistics::Spread;

    /// Returns a run in which everything takes `pace` times as long as in the fastest.
    pub(crate) fn sample(contender: Contender, apps: usize, round: usize, pace: f64) -> Run {
        let asked =
            |all: &[(&str, usize)]| Tally(all.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect());
        let spread = |p50: f64| Spread {
            p50,
            p99: p50 * 4.0,
            max: p50 * 5.0,
            count: apps,
        };
        let created = asked(&[
            ("create deployments", apps),
            ("create ingresses", apps),
            ("create services", apps),
            ("patch appdeploys/status", apps),
        ]);
        let operator = Operator {
            program_mib: Some(10.0 * pace),
            start_ms: 12.0 * pace,
            idle_mib: 9.5 * pace,
            cpu_ms_per_app: 0.8 * pace,
            connections: 64,
            descriptors: 80,
            settled_mib: 10.0 * pace + number(apps) / 500.0,
            peak_mib: 12.0 * pace + number(apps) / 400.0,
            steady: (apps == 1000).then(|| Steady {
                seconds: 60,
                asked: Tally::default(),
            }),
            restart: Restart {
                ready_ms: 30.0 * pace,
                asked: asked(&[("list deployments", 1)]),
                revisions: 0,
                settled_mib: 9.0 * pace,
                peak_mib: 11.0 * pace,
                canary_ms: 44.4 * pace,
            },
            change_ms: spread(3.0 * pace),
            update: Update {
                all_s: number(apps) / 400.0 * pace,
                asked: asked(&[("patch deployments", apps), ("patch appdeploys/status", apps)]),
            },
            restored_ms: spread(4.0 * pace),
            recreated_ms: spread(6.0 * pace),
            lost: 0,
        };
        Run {
            contender,
            apps,
            round,
            load_before: 0.1,
            converge: Converge {
                all_s: number(apps) / 200.0 * pace,
                created_s: number(apps) / 900.0,
                each_ms: spread(500.0 * pace),
                asked: created,
                failed: 0,
                apiserver_cpu_s: number(apps) / 120.0,
                etcd_cpu_s: number(apps) / 500.0,
            },
            operator: (contender != Contender::Floor).then_some(operator),
        }
    }

    pub(crate) fn report() -> Report {
        let mut runs = Vec::new();
        for (apps, round) in [(100, 1), (1000, 1), (1000, 2), (1000, 3), (10_000, 1)] {
            for (contender, pace) in [
                (Contender::Floor, 1.0),
                (Contender::AppDeploy, 1.1),
                (Contender::Peer, 1.5),
            ] {
                runs.push(sample(contender, apps, round, pace * (1.0 + number(round) / 50.0)));
            }
        }
        let versions = [("AppDeploy", "0.1.0"), ("Kubernetes", "v1.36.3")];
        Report {
            date: "2026-01-02".to_owned(),
            machine: Machine {
                cpu: "AMD EPYC".to_owned(),
                cores: 2,
                memory_gib: 24,
            },
            versions: versions
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .into(),
            runs,
        }
    }

    #[test]
    fn numbers_have_their_significant_digits() {
        let figures = [0.0, 4.0, 0.123, 9.876, 12.34, 456.7, 12_000.0].map(figure);
        assert_eq!(figures, ["0", "4", "0.12", "9.88", "12.3", "457", "12000"]);
        assert_eq!(
            [7, 1000, 10_020, 1_234_567].map(grouped),
            ["7", "1,000", "10,020", "1,234,567"]
        );
    }

    #[test]
    fn results_have_the_targets_and_a_table_for_each_size() {
        let mut report = report();
        report.runs.retain(|run| run.apps > 100);
        insta::assert_snapshot!(results(&report), @r"
        Measured on 2026-01-02 on 2 cores of an AMD EPYC with 24 GiB: AppDeploy 0.1.0, Kubernetes v1.36.3.

        50 namespaces, 64 concurrent requests of clients; the floor and the operators write 64 apps at a time. With several rounds: the median, and the minimum and maximum in parentheses.

        | Target | Measured | |
        |---|---|---|
        | 4 writes and 0 reads for each new app, exactly, in every run | 4 writes, 0 reads | met |
        | 0 writes at a restart, in every run | 0 writes | met |
        | all deleted or changed children are restored, in every run | 0 were not | met |
        | 1,000 apps: all converged, s: at most 1.03 times that of the floor | 5.72 compared with 5.20, 1.10 times | **missed** |
        | 10,000 apps: all converged, s: at most 1.03 times that of the floor | 56.1 compared with 51, 1.10 times | **missed** |
        | 1,000 apps: CPU of the operator for each app, ms: at most 1.50 | 0.92 | met |
        | 10,000 apps: CPU of the operator for each app, ms: at most 1.50 | 0.90 | met |
        | 1,000 apps: CPU of API server and etcd, s: at most 1.05 times that of the floor | 10.3 compared with 10.3, 1.00 times | met |
        | 10,000 apps: CPU of API server and etcd, s: at most 1.05 times that of the floor | 103 compared with 103, 1.00 times | met |
        | 10,000 apps: a new image, p50, ms: at most 1.00 times that of the Go operator | 3.37 compared with 4.59, 0.73 times | met |
        | 10,000 apps: a new image, p99, ms: at most 1.00 times that of the Go operator | 13.5 compared with 18.4, 0.73 times | met |
        | 10,000 apps: new images of all, s: at most 1.00 times that of the Go operator | 28.1 compared with 38.2, 0.73 times | met |
        | 10,000 apps: a changed child is restored, p50, ms: at most 1.00 times that of the Go operator | 4.49 compared with 6.12, 0.73 times | met |
        | 10,000 apps: a changed child is restored, p99, ms: at most 1.00 times that of the Go operator | 18.0 compared with 24.5, 0.73 times | met |
        | 10,000 apps: ready after a restart, ms: at most 0.80 times that of the Go operator | 33.7 compared with 45.9, 0.73 times | met |
        | 10,000 apps: a new app during a restart, ms: at most 1500 | 49.8 | met |
        | 1,000 apps: memory without an app, MiB: at most 12 | 10.9 | met |
        | 1,000 apps: memory, MiB: at most 25 | 13.4 | met |
        | 10,000 apps: memory, MiB: at most 80 | 31.2 | met |
        | 10,000 apps: connections to the API server: at most 4 | 64 | **missed** |
        | 10,000 apps: reads at new images, for each app: at most 0 | 0 | met |
        | 1,000 apps: program, MiB: at most 12 | 11.4 | met |

        | 1,000 apps | Floor | AppDeploy | Go operator |
        |---|---:|---:|---:|
        | all converged, s | 5.20 (5.10-5.30) | 5.72 (5.61-5.83) | 7.80 (7.65-7.95) |
        | times the floor | 1.00 | 1.10 | 1.50 |
        | one converged, p50, ms | 520 (510-530) | 572 (561-583) | 780 (765-795) |
        | one converged, p99, ms | 2080 (2040-2120) | 2288 (2244-2332) | 3120 (3060-3180) |
        | writes for each app | 4 | 4 | 4 |
        | reads for each app | 0 | 0 | 0 |
        | API server, CPU s | 8.33 | 8.33 | 8.33 |
        | etcd, CPU s | 2 | 2 | 2 |
        | program, MiB | - | 11.4 (11.2-11.7) | 15.6 (15.3-15.9) |
        | operator, CPU ms for each app | - | 0.92 (0.90-0.93) | 1.25 (1.22-1.27) |
        | start to ready, no app, ms | - | 13.7 (13.5-14.0) | 18.7 (18.4-19.1) |
        | memory, no app, MiB | - | 10.9 (10.7-11.1) | 14.8 (14.5-15.1) |
        | memory, all converged, MiB | - | 13.4 (13.2-13.7) | 17.6 (17.3-17.9) |
        | memory, peak until then, MiB | - | 16.2 (16.0-16.5) | 21.2 (20.9-21.6) |
        | connections to the API server | - | 64 | 64 |
        | open descriptors | - | 80 | 80 |
        | requests in a steady minute | - | 0 | 0 |
        | restart: start to ready, ms | - | 34.3 (33.7-35.0) | 46.8 (45.9-47.7) |
        | restart: writes | - | 0 | 0 |
        | restart: reads | - | 1 | 1 |
        | restart: revisions of etcd | - | 0 | 0 |
        | restart: memory, MiB | - | 10.3 (10.1-10.5) | 14.0 (13.8-14.3) |
        | restart: memory, peak, MiB | - | 12.6 (12.3-12.8) | 17.2 (16.8-17.5) |
        | restart: a new app, ms | - | 50.8 (49.8-51.8) | 69.3 (67.9-70.6) |
        | a new image, p50, ms | - | 3.43 (3.37-3.50) | 4.68 (4.59-4.77) |
        | a new image, p99, ms | - | 13.7 (13.5-14.0) | 18.7 (18.4-19.1) |
        | new images of all, s | - | 2.86 (2.81-2.92) | 3.90 (3.83-3.98) |
        | new images: writes for each app | - | 2 | 2 |
        | a changed child is restored, p50, ms | - | 4.58 (4.49-4.66) | 6.24 (6.12-6.36) |
        | a changed child is restored, p99, ms | - | 18.3 (18.0-18.7) | 25.0 (24.5-25.4) |
        | a deleted child is restored, p50, ms | - | 6.86 (6.73-7.00) | 9.36 (9.18-9.54) |
        | a deleted child is restored, p99, ms | - | 27.5 (26.9-28.0) | 37.4 (36.7-38.2) |
        | children that were not restored | - | 0 | 0 |

        | 10,000 apps | Floor | AppDeploy | Go operator |
        |---|---:|---:|---:|
        | all converged, s | 51 | 56.1 | 76.5 |
        | times the floor | 1.00 | 1.10 | 1.50 |
        | one converged, p50, ms | 510 | 561 | 765 |
        | one converged, p99, ms | 2040 | 2244 | 3060 |
        | writes for each app | 4 | 4 | 4 |
        | reads for each app | 0 | 0 | 0 |
        | API server, CPU s | 83.3 | 83.3 | 83.3 |
        | etcd, CPU s | 20 | 20 | 20 |
        | program, MiB | - | 11.2 | 15.3 |
        | operator, CPU ms for each app | - | 0.90 | 1.22 |
        | start to ready, no app, ms | - | 13.5 | 18.4 |
        | memory, no app, MiB | - | 10.7 | 14.5 |
        | memory, all converged, MiB | - | 31.2 | 35.3 |
        | memory, peak until then, MiB | - | 38.5 | 43.4 |
        | connections to the API server | - | 64 | 64 |
        | open descriptors | - | 80 | 80 |
        | restart: start to ready, ms | - | 33.7 | 45.9 |
        | restart: writes | - | 0 | 0 |
        | restart: reads | - | 1 | 1 |
        | restart: revisions of etcd | - | 0 | 0 |
        | restart: memory, MiB | - | 10.1 | 13.8 |
        | restart: memory, peak, MiB | - | 12.3 | 16.8 |
        | restart: a new app, ms | - | 49.8 | 67.9 |
        | a new image, p50, ms | - | 3.37 | 4.59 |
        | a new image, p99, ms | - | 13.5 | 18.4 |
        | new images of all, s | - | 28.1 | 38.2 |
        | new images: writes for each app | - | 2 | 2 |
        | a changed child is restored, p50, ms | - | 4.49 | 6.12 |
        | a changed child is restored, p99, ms | - | 18.0 | 24.5 |
        | a deleted child is restored, p50, ms | - | 6.73 | 9.18 |
        | a deleted child is restored, p99, ms | - | 26.9 | 36.7 |
        | children that were not restored | - | 0 | 0 |
        ");
    }

    #[test]
    fn results_without_a_peer_have_no_column_for_it() {
        let mut report = report();
        report
            .runs
            .retain(|run| run.contender != Contender::Peer && run.apps == 100);
        insta::assert_snapshot!(results(&report), @r"
        Measured on 2026-01-02 on 2 cores of an AMD EPYC with 24 GiB: AppDeploy 0.1.0, Kubernetes v1.36.3.

        50 namespaces, 64 concurrent requests of clients; the floor and the operators write 64 apps at a time. With several rounds: the median, and the minimum and maximum in parentheses.

        | Target | Measured | |
        |---|---|---|
        | 4 writes and 0 reads for each new app, exactly, in every run | 4 writes, 0 reads | met |
        | 0 writes at a restart, in every run | 0 writes | met |
        | all deleted or changed children are restored, in every run | 0 were not | met |
        | 1,000 apps: all converged, s: at most 1.03 times that of the floor | not measured |  |
        | 10,000 apps: all converged, s: at most 1.03 times that of the floor | not measured |  |
        | 1,000 apps: CPU of the operator for each app, ms: at most 1.50 | not measured |  |
        | 10,000 apps: CPU of the operator for each app, ms: at most 1.50 | not measured |  |
        | 1,000 apps: CPU of API server and etcd, s: at most 1.05 times that of the floor | not measured |  |
        | 10,000 apps: CPU of API server and etcd, s: at most 1.05 times that of the floor | not measured |  |
        | 10,000 apps: a new image, p50, ms: at most 1.00 times that of the Go operator | not measured |  |
        | 10,000 apps: a new image, p99, ms: at most 1.00 times that of the Go operator | not measured |  |
        | 10,000 apps: new images of all, s: at most 1.00 times that of the Go operator | not measured |  |
        | 10,000 apps: a changed child is restored, p50, ms: at most 1.00 times that of the Go operator | not measured |  |
        | 10,000 apps: a changed child is restored, p99, ms: at most 1.00 times that of the Go operator | not measured |  |
        | 10,000 apps: ready after a restart, ms: at most 0.80 times that of the Go operator | not measured |  |
        | 10,000 apps: a new app during a restart, ms: at most 1500 | not measured |  |
        | 1,000 apps: memory without an app, MiB: at most 12 | not measured |  |
        | 1,000 apps: memory, MiB: at most 25 | not measured |  |
        | 10,000 apps: memory, MiB: at most 80 | not measured |  |
        | 10,000 apps: connections to the API server: at most 4 | not measured |  |
        | 10,000 apps: reads at new images, for each app: at most 0 | not measured |  |
        | 1,000 apps: program, MiB: at most 12 | not measured |  |

        | 100 apps | Floor | AppDeploy |
        |---|---:|---:|
        | all converged, s | 0.51 | 0.56 |
        | times the floor | 1.00 | 1.10 |
        | one converged, p50, ms | 510 | 561 |
        | one converged, p99, ms | 2040 | 2244 |
        | writes for each app | 4 | 4 |
        | reads for each app | 0 | 0 |
        | API server, CPU s | 0.83 | 0.83 |
        | etcd, CPU s | 0.20 | 0.20 |
        | program, MiB | - | 11.2 |
        | operator, CPU ms for each app | - | 0.90 |
        | start to ready, no app, ms | - | 13.5 |
        | memory, no app, MiB | - | 10.7 |
        | memory, all converged, MiB | - | 11.4 |
        | memory, peak until then, MiB | - | 13.7 |
        | connections to the API server | - | 64 |
        | open descriptors | - | 80 |
        | restart: start to ready, ms | - | 33.7 |
        | restart: writes | - | 0 |
        | restart: reads | - | 1 |
        | restart: revisions of etcd | - | 0 |
        | restart: memory, MiB | - | 10.1 |
        | restart: memory, peak, MiB | - | 12.3 |
        | restart: a new app, ms | - | 49.8 |
        | a new image, p50, ms | - | 3.37 |
        | a new image, p99, ms | - | 13.5 |
        | new images of all, s | - | 0.28 |
        | new images: writes for each app | - | 2 |
        | a changed child is restored, p50, ms | - | 4.49 |
        | a changed child is restored, p99, ms | - | 18.0 |
        | a deleted child is restored, p50, ms | - | 6.73 |
        | a deleted child is restored, p99, ms | - | 26.9 |
        | children that were not restored | - | 0 |
        ");
    }

    /// Results are never edited by hand.
    #[test]
    fn page_and_plot_match_the_committed_runs() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
        let report: Report = serde_json::from_str(&read("performance.json")).unwrap();
        let page = read("performance.md");
        let hint = "docs/performance.* differs from its JSON: run `make performance`";
        assert!(
            section::replace(&page, MARKERS, &results(&report)).as_ref() == Some(&page),
            "{hint}"
        );
        assert!(plot::plot(&report) == read("performance.svg"), "{hint}");
    }

    #[test]
    fn report_is_unchanged_after_a_round_trip() {
        let report = report();
        let text = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (results(&read), plot::plot(&read)),
            (results(&report), plot::plot(&report))
        );
    }
}
