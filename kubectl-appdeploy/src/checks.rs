//! `kubectl appdeploy check`: whether AppDeploy can be installed, or works as it is installed.
//!
//! [`facts`] asks for everything there is to know; what it means is a function of that, check by check. Each check has a
//! [`code`](code::Code) that is never given to another.

mod api;
mod apps;
mod authority;
mod before;
mod cluster;
pub mod code;
mod facts;
pub mod finding;
pub mod page;
pub mod rights;
mod running;
#[cfg(test)]
mod sample;
mod webhooks;

use std::time::Duration;

use clap::ValueEnum;
use tokio::time::sleep;

use crate::connection::{Cluster, KubeArgs};
use crate::duration;
use crate::error::{Error, Kind, Result};
use crate::install::settings::Scope;
use crate::output;
use crate::ui::{Ui, tolerate_closed};
use crate::wait::Deadline;

use code::Code;
use facts::Facts;
use finding::Finding;

/// How long to wait before all is looked at again.
const PAUSE: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  # Can AppDeploy be installed here, by you?
  kubectl appdeploy check --pre

  # May you install it for two namespaces?
  kubectl appdeploy check --pre --watch-namespace=shop,blog

  # Does it work?
  kubectl appdeploy check

  # What is not well, one line each, for a pipeline that waits for it
  kubectl appdeploy check --wait -o short

  # All but the check for a default IngressClass
  kubectl appdeploy check --suppress=AD0104

Each check has a code that stays the same; docs/checks.md explains them.
Exit codes: 0 without errors, also with warnings; 1 with an error.";

/// The flags of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Check whether AppDeploy can be installed, instead of how it is
    #[arg(long)]
    pre: bool,
    /// Leave these checks out, by their codes
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = Code::parse)]
    suppress: Vec<Code>,
    /// Check again until there is no error
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, action = clap::ArgAction::Set, hide_possible_values = true
    )]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    timeout: Duration,
    /// short: only what is not well, one line each; or json
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten, next_help_heading = "With --pre, as for install")]
    scope: Scope,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Short,
    Json,
}

/// Runs the verb.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    kube.refuse_namespace()?;
    if args.scope.is_given() && !args.pre {
        let error = Error::usage("--watch-namespace and --webhooks say what install would be told, and go with --pre");
        return Err(error.next("kubectl appdeploy check  (finds out by itself how AppDeploy is installed)"));
    }
    let aim = if args.pre { Aim::Install(&args.scope) } else { Aim::Run };
    let cluster = kube.connect().await?;
    let deadline = args.wait.then(|| Deadline::after(args.timeout));
    let findings = loop {
        let mut findings = look(&cluster, aim).await;
        findings.retain(|finding| !args.suppress.contains(&finding.code));
        let first = findings.iter().find(|one| one.severity == finding::Severity::Error);
        let (Some(deadline), Some(first)) = (deadline, first) else {
            break findings;
        };
        ui.progress(&format!("waiting: {} {}", first.code, first.message));
        if deadline.bound(sleep(PAUSE)).await.is_none() {
            break findings;
        }
    };
    ui.clear_progress();
    let written = match args.output {
        None => ui.print(&page::text(&findings, &ui.look())),
        Some(Format::Json) => ui.print(&output::json(&page::value(&findings))?),
        Some(Format::Short) => findings
            .iter()
            .filter(|finding| finding.is_trouble())
            .try_for_each(|finding| ui.print(&page::line(finding))),
    };
    // The exit code says whether all is well, whether anybody reads the page or not.
    tolerate_closed(written)?;
    let counts = page::counts(&findings);
    if counts.errors == 0 {
        return Ok(());
    }
    let what = if args.pre {
        "AppDeploy can't be installed here as it should be"
    } else {
        "AppDeploy does not work as it should"
    };
    Err(Error::new(Kind::Failed, format!("{what}: {}", counts.text())))
}

/// What it is that is to work.
#[derive(Clone, Copy, Debug)]
pub enum Aim<'a> {
    /// Installing AppDeploy like this.
    Install(&'a Scope),
    /// AppDeploy as it is installed.
    Run,
}

/// Asks for everything, and judges it.
pub async fn look(cluster: &Cluster, aim: Aim<'_>) -> Vec<Finding> {
    match Box::pin(facts::gather(cluster, aim)).await {
        Ok(facts) => judge(&facts),
        Err(error) => vec![unreachable(&error)],
    }
}

fn unreachable(error: &Error) -> Finding {
    Finding {
        why: error.whys().to_vec(),
        next: error.nexts().to_vec(),
        ..Finding::error(Code::Reachable, error.sentence())
    }
}

/// Returns what all checks find, in their order.
fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = cluster::findings(facts);
    if let Some(before) = &facts.before {
        findings.extend(before::findings(facts, before));
    }
    if let Some(installed) = &facts.installed {
        findings.extend(api::findings(facts));
        findings.extend(running::findings(facts, installed));
        findings.extend(webhooks::findings(facts, installed));
        findings.extend(apps::findings(facts, installed));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_check_is_made_before_or_after_an_installation_and_in_order() {
        let (before, after) = (judge(&sample::empty()), judge(&sample::well()));
        let mut made = BTreeSet::new();
        for findings in [&before, &after] {
            let codes: Vec<Code> = findings.iter().map(|finding| finding.code).collect();
            assert!(codes.is_sorted(), "{codes:?}");
            assert!(findings.iter().all(|finding| !finding.is_trouble()), "{findings:?}");
            made.extend(codes);
        }
        // Without an app none can be stalled.
        made.insert(Code::Stalled);
        assert_eq!(made.into_iter().collect::<Vec<_>>(), Code::ALL);
    }

    #[test]
    fn a_cluster_that_does_not_answer_is_one_finding() {
        let error = Error::failed("cannot reach the cluster at https://127.0.0.1:1")
            .why("connection refused: nothing listens there, is the cluster running?")
            .next("kubectl cluster-info");
        insta::assert_snapshot!(page::line(&unreachable(&error)), @"error AD0101: cannot reach the cluster at https://127.0.0.1:1 (connection refused: nothing listens there, is the cluster running?); next: kubectl cluster-info");
    }
}
