//! Prints findings as a page, as lines and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::finding::{Finding, Severity};
use crate::installation::version::PLUGIN;
use crate::terminal::ui::{RenderOptions, Style, clean};

/// Numbers of errors and warnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What does not work.
    pub errors: usize,
    /// What may not work for long, or can't be seen.
    pub warnings: usize,
}

/// Counts them.
pub fn counts(findings: &[Finding]) -> Counts {
    let of_severity = |severity: Severity| findings.iter().filter(|one| one.severity == severity).count();
    Counts {
        errors: of_severity(Severity::Error),
        warnings: of_severity(Severity::Warning),
    }
}

impl Counts {
    /// Returns them in words.
    pub fn text(self) -> String {
        format!("{}, {}", of(self.errors, "error"), of(self.warnings, "warning"))
    }
}

fn of(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// Returns the page: a heading for each group, a line for each check, and its details below.
pub fn text(findings: &[Finding], render: &RenderOptions) -> String {
    let mut text = String::new();
    let mut group = None;
    for finding in findings {
        if group != Some(finding.code.group()) {
            let gap = if group.is_some() { "\n" } else { "" };
            group = Some(finding.code.group());
            let _ = writeln!(text, "{gap}{}", render.label(finding.code.group().title()));
        }
        let _ = writeln!(text, "{}", entry(finding, render));
    }
    let sum = counts(findings);
    let _ = write!(text, "\n{}: {}", of(findings.len(), "check"), sum.text());
    text
}

fn entry(finding: &Finding, render: &RenderOptions) -> String {
    let style = match finding.severity {
        Severity::Ok => Style::Good,
        Severity::Info => Style::Label,
        Severity::Warning => Style::Busy,
        Severity::Error => Style::Bad,
    };
    // The longest word has seven letters.
    let word = format!("{:7}", finding.severity.as_str());
    let is_well = finding.severity == Severity::Ok;
    let sentence = if is_well {
        finding.message.clone()
    } else {
        format!("{} {}", finding.code, finding.message)
    };
    let mut text = render.styled(style, "", &word, &sentence);
    for why in &finding.why {
        let _ = write!(text, "\n{}", render.sentence("  ", "why: ", why));
    }
    for next in &finding.next {
        let _ = write!(text, "\n{}", render.next("  ", next));
    }
    if finding.is_trouble() {
        let _ = write!(text, "\n  {} {}", render.label("see: "), finding.code.page());
    }
    text
}

/// Returns a finding in one line: `error AD0401: what; next: command`.
pub fn line(finding: &Finding) -> String {
    let mut line = format!("{} {}: {}", finding.severity.as_str(), finding.code, finding.message);
    if !finding.why.is_empty() {
        let _ = write!(line, " ({})", finding.why.join("; "));
    }
    if let Some(next) = finding.next.first() {
        let _ = write!(line, "; next: {next}");
    }
    clean(&line)
}

/// Returns all of it for scripts.
pub fn value(findings: &[Finding]) -> Value {
    let sum = counts(findings);
    let worst = findings.iter().map(|one| one.severity).max().unwrap_or(Severity::Ok);
    json!({
        "pluginVersion": PLUGIN, "severity": worst.as_str(), "errors": sum.errors, "warnings": sum.warnings,
        "checks": findings.iter().map(Finding::value).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::check::code::Code;

    fn sample() -> Vec<Finding> {
        vec![
            Finding::ok(Code::Reachable, "the API server answers"),
            Finding::warning(
                Code::IngressClass,
                "no IngressClass exists: apps are only reachable from inside the cluster",
            )
            .next("install an ingress controller, such as Traefik"),
            Finding::error(Code::Running, "0 of 2 replicas of the operator are available")
                .why("pod appdeploy-operator-1: image op:v1 was not found")
                .next("kubectl appdeploy install --image=IMAGE  (one that the nodes can pull)"),
            Finding::info(
                Code::Release,
                "the operator's image op:dev names no release to compare with",
            ),
        ]
    }

    #[test]
    fn page_has_a_line_for_each_check_with_the_next_command() {
        let render = RenderOptions {
            width: Some(80),
            flags: crate::terminal::ui::Flags {
                all: "--context=dev".into(),
                ..Default::default()
            },
            ..RenderOptions::default()
        };
        let page = text(&sample(), &render);
        insta::assert_snapshot!(page, @r"
        Cluster
        ok      the API server answers
        warning AD0104 no IngressClass exists: apps are only reachable from inside the
              cluster
          next: install an ingress controller, such as Traefik
          see:  https://github.com/appdeploy/appdeploy/blob/main/docs/checks.md#ad0104

        Operator
        error   AD0401 0 of 2 replicas of the operator are available
          why:  pod appdeploy-operator-1: image op:v1 was not found
          next: kubectl appdeploy install --image=IMAGE --context=dev
                (one that the nodes can pull)
          see:  https://github.com/appdeploy/appdeploy/blob/main/docs/checks.md#ad0401
        info    AD0403 the operator's image op:dev names no release to compare with

        4 checks: 1 error, 1 warning
        ");
        let wide = page
            .lines()
            .filter(|line| !line.contains("next:") && line.chars().count() > 80);
        assert_eq!(wide.count(), 0, "{page}");
    }

    #[test]
    fn json_has_the_same_findings() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&value(&sample()[..2])).unwrap(), @r#"
        {
          "checks": [
            {
              "code": "AD0101",
              "group": "Cluster",
              "message": "the API server answers",
              "next": [],
              "see": "https://github.com/appdeploy/appdeploy/blob/main/docs/checks.md#ad0101",
              "severity": "ok",
              "why": []
            },
            {
              "code": "AD0104",
              "group": "Cluster",
              "message": "no IngressClass exists: apps are only reachable from inside the cluster",
              "next": [
                "install an ingress controller, such as Traefik"
              ],
              "see": "https://github.com/appdeploy/appdeploy/blob/main/docs/checks.md#ad0104",
              "severity": "warning",
              "why": []
            }
          ],
          "errors": 0,
          "pluginVersion": "v0.1.0",
          "severity": "warning",
          "warnings": 1
        }
        "#);
    }
}
