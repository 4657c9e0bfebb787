//! Draws a session as SVG. It has its own background, so that it is readable on light and on dark pages.

use std::fmt::Write as _;

use terminal::{Cell, Color};

use super::Part;

/// The size of the cell of a character, and the margin around the session.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 19.0;
const MARGIN: f64 = 16.0;

/// Adjacent characters with the same style.
struct Run {
    column: usize,
    text: String,
    fill: &'static str,
    bold: bool,
}

/// Returns the picture of a session.
pub fn picture(parts: &[Part]) -> String {
    let mut lines: Vec<Vec<Run>> = Vec::new();
    for part in parts {
        if !lines.is_empty() {
            lines.push(Vec::new());
        }
        lines.push(vec![
            plain(0, "$ ", "#8b949e"),
            Run {
                bold: true,
                ..plain(2, part.command, "#e6edf3")
            },
        ]);
        let written = part.screen.text().lines().count();
        lines.extend(part.screen.cells().iter().take(written).map(|row| runs(row)));
    }
    let width = f64::from(terminal::COLUMNS) * WIDTH + 2.0 * MARGIN;
    let height = number(lines.len()) * HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n\
         <title>A session with kubectl appdeploy</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\" stroke=\"#30363d\"/>\n"
    );
    for (number_of, line) in lines.iter().enumerate() {
        let y = MARGIN + (number(number_of) + 0.75) * HEIGHT;
        for run in line {
            let x = MARGIN + number(run.column) * WIDTH;
            let length = number(run.text.chars().count()) * WIDTH;
            let weight = if run.bold { " font-weight=\"bold\"" } else { "" };
            let _ = writeln!(
                svg,
                "<text xml:space=\"preserve\" x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" fill=\"{}\"{weight}>{}</text>",
                run.fill,
                escaped(&run.text)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn plain(column: usize, text: &str, fill: &'static str) -> Run {
    Run {
        column,
        text: text.to_owned(),
        fill,
        bold: false,
    }
}

/// Returns the runs of a line, without the spaces around them.
fn runs(row: &[Cell]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (column, cell) in row.iter().enumerate() {
        let letter = if cell.has_contents() { cell.contents() } else { " " };
        let (fill, bold) = (fill(cell.fgcolor()), cell.bold());
        match runs.last_mut() {
            Some(last) if (last.fill, last.bold) == (fill, bold) => last.text.push_str(letter),
            _ => runs.push(Run {
                column,
                text: letter.to_owned(),
                fill,
                bold,
            }),
        }
    }
    for run in &mut runs {
        run.text.truncate(run.text.trim_end().len());
        let before = run.text.len() - run.text.trim_start().len();
        run.column += before;
        run.text.drain(..before);
    }
    runs.retain(|run| !run.text.is_empty());
    runs
}

fn fill(color: Color) -> &'static str {
    match color {
        Color::Idx(1 | 9) => "#ff7b72",
        Color::Idx(2 | 10) => "#7ee787",
        Color::Idx(3 | 11) => "#e3b341",
        Color::Idx(4 | 12) => "#79c0ff",
        Color::Idx(5 | 13) => "#d2a8ff",
        Color::Idx(6 | 14) => "#76e3ea",
        Color::Idx(8) => "#8b949e",
        _ => "#e6edf3",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[expect(clippy::cast_precision_loss, reason = "there are no more than some hundred lines")]
fn number(count: usize) -> f64 {
    count as f64
}
