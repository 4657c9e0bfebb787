//! The results as a picture. It has its own background, for light and dark pages.

use std::fmt::Write as _;

use crate::contender::Contender;
use crate::format::{figure, grouped};
use crate::result::{Report, Run};
use crate::statistics::{Rounds, number};

const WIDTH: f64 = 800.0;
const MARGIN: f64 = 24.0;
const PANEL: f64 = (WIDTH - 3.0 * MARGIN) / 2.0;
/// The height of a bar, with the space to the next one.
const BAR: f64 = 16.0;
/// Where bars begin, from the left of a panel, and where the longest ends; there is space for its number after it.
const FROM: f64 = 62.0;
const TO: f64 = PANEL - 56.0;

const GROUND: &str = "#0d1117";
const LINE: &str = "#30363d";
const TEXT: &str = "#e6edf3";
const FAINT: &str = "#8b949e";

/// A panel: its title, and its value in a run.
type Panel = (&'static str, fn(&Run) -> Option<f64>);

const PANELS: [Panel; 4] = [
    ("Create all, ms for each app", |run| {
        Some(run.converge.all_s * 1000.0 / number(run.apps))
    }),
    ("Memory with all apps, MiB", |run| {
        run.operator.as_ref().map(|it| it.settled_mib)
    }),
    ("CPU of the operator, ms for each app", |run| {
        run.operator.as_ref().map(|it| it.cpu_ms_per_app)
    }),
    ("Restore a changed child, p99, ms", |run| {
        run.operator.as_ref().map(|it| it.restored_ms.p99)
    }),
];

/// Draws a report.
#[must_use]
pub fn plot(report: &Report) -> String {
    let panels: Vec<String> = PANELS.iter().map(|panel| draw(report, *panel)).collect();
    let high = number(rows(report)) * BAR + number(report.sizes().len()) * GAP + 44.0;
    let height = 48.0 + 2.0 * high;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
         <title>How long apps take, and what the operator uses</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{GROUND}\" stroke=\"{LINE}\"/>\n"
    );
    let mut x = MARGIN;
    for contender in report.contenders() {
        let color = color(contender);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"18\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{color}\"/>"
        );
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"28\" fill=\"{TEXT}\">{}</text>",
            x + 18.0,
            contender.title()
        );
        x += 130.0;
    }
    for (place, panel) in panels.iter().enumerate() {
        let x = MARGIN + number(place % 2) * (PANEL + MARGIN);
        let y = 48.0 + number(place / 2) * high;
        let _ = writeln!(svg, "<g transform=\"translate({x} {y})\">\n{panel}</g>");
    }
    svg.push_str("</svg>\n");
    svg
}

/// The space below the bars of one number of apps.
const GAP: f64 = 10.0;

/// Returns the highest number of bars in a panel.
fn rows(report: &Report) -> usize {
    report.sizes().len() * report.contenders().len()
}

fn draw(report: &Report, (title, value): Panel) -> String {
    let rounds = |contender, apps| Rounds::of(report.of(contender, apps).filter_map(value).collect());
    let medians = report.contenders().into_iter().flat_map(|contender| {
        let sizes = report.sizes().into_iter();
        sizes.filter_map(move |apps| rounds(contender, apps).map(|rounds| rounds.median))
    });
    let longest = medians.fold(f64::MIN_POSITIVE, f64::max);
    let mut panel = format!("<text y=\"14\" fill=\"{TEXT}\" font-weight=\"600\">{title}</text>\n");
    let mut y = 26.0;
    for apps in report.sizes() {
        let begin = y;
        for contender in report.contenders() {
            let Some(Rounds { median, .. }) = rounds(contender, apps) else {
                continue;
            };
            let width = (median / longest * (TO - FROM)).max(1.0);
            let (bar, text) = (y + 2.0, y + BAR - 4.0);
            let _ = writeln!(
                panel,
                "<rect x=\"{FROM}\" y=\"{bar}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\" fill=\"{}\"/>",
                BAR - 4.0,
                color(contender)
            );
            let _ = writeln!(
                panel,
                "<text x=\"{:.1}\" y=\"{text}\" fill=\"{FAINT}\" font-size=\"11\">{}</text>",
                FROM + width + 6.0,
                figure(median)
            );
            y += BAR;
        }
        let middle = f64::midpoint(begin, y) + 4.0;
        let _ = writeln!(
            panel,
            "<text x=\"{}\" y=\"{middle}\" fill=\"{FAINT}\" text-anchor=\"end\">{}</text>",
            FROM - 8.0,
            grouped(apps)
        );
        y += GAP;
    }
    panel
}

const fn color(contender: Contender) -> &'static str {
    match contender {
        Contender::Floor => "#8b949e",
        Contender::AppDeploy => "#58a6ff",
        Contender::Peer => "#d29922",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::report;

    #[test]
    fn length_of_a_bar_is_proportional_to_its_value() {
        let svg = plot(&report());
        let memory = svg.split("Memory with all apps").nth(1).unwrap();
        let memory = memory.split("</g>").next().unwrap();
        let widths: Vec<&str> = memory
            .split("width=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        insta::assert_debug_snapshot!(widths, @r#"
        [
            "79.6",
            "108.0",
            "93.7",
            "122.7",
            "217.6",
            "246.0",
        ]
        "#);
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
    }

    #[test]
    fn floor_has_no_bar_without_a_value() {
        let svg = plot(&report());
        let bars = |title: &str| {
            let panel = svg.split(title).nth(1).unwrap().split("</g>").next().unwrap();
            panel.matches("<rect").count()
        };
        assert_eq!((bars("Create all"), bars("CPU of the operator")), (9, 6));
    }
}
