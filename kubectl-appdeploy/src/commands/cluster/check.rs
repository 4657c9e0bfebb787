//! `kubectl appdeploy check`: checks whether AppDeploy can be installed, or whether an installation works.
//!
//! The checks are in [`crate::installation::check`].

use std::time::Duration;

use clap::ValueEnum;

use crate::cluster::connection::KubeArgs;
use crate::cluster::wait::{self, Deadline};
use crate::error::{Error, Kind, Result};
use crate::installation::check::code::Code;
use crate::installation::check::{CheckMode, finding, page, run_checks};
use crate::installation::settings::Scope;
use crate::output::{duration, formats};
use crate::terminal::ui::{Ui, tolerate_closed};

/// The pause before the checks are repeated.
const PAUSE: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  # Check whether you can install AppDeploy here
  kubectl appdeploy check --pre

  # Check whether you can install it for two namespaces
  kubectl appdeploy check --pre --watch-namespace=shop,blog

  # Check the installation
  kubectl appdeploy check

  # In a pipeline: wait until it works, print one line for each problem
  kubectl appdeploy check --wait -o short

  # Skip the check for a default IngressClass
  kubectl appdeploy check --suppress=AD0104

Each check has a stable code; docs/checks.md explains them.
Exit codes: 0 without errors, also with warnings; 1 with an error.";

/// The flags of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Check whether AppDeploy can be installed
    #[arg(long)]
    pre: bool,
    /// Codes of checks to skip
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = Code::parse)]
    suppress: Vec<Code>,
    /// Repeat the checks until there is no error
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, action = clap::ArgAction::Set, hide_possible_values = true
    )]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    timeout: Duration,
    /// short (one line for each problem) or json
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

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    kube.refuse_namespace()?;
    if args.scope.is_given() && !args.pre {
        let error =
            Error::usage("--watch-namespace and --webhooks are flags of install, and can only be used with --pre");
        return Err(error.next("kubectl appdeploy check  (detects how AppDeploy is installed)"));
    }
    let aim = if args.pre {
        CheckMode::Install(&args.scope)
    } else {
        CheckMode::Run
    };
    let cluster = kube.connect().await?;
    let deadline = Deadline::after(if args.wait { args.timeout } else { Duration::ZERO });
    let mut findings = Vec::new();
    wait::poll(PAUSE, deadline, async || {
        findings = run_checks(&cluster, aim).await;
        findings.retain(|finding| !args.suppress.contains(&finding.code));
        let first = findings.iter().find(|one| one.severity == finding::Severity::Error);
        if let Some(first) = first.filter(|_| args.wait) {
            ui.progress(&format!("waiting: {} {}", first.code, first.message));
        }
        Ok(first.is_none().then_some(()))
    })
    .await?;
    ui.clear_progress();
    let written = match args.output {
        None => ui.print(&page::text(&findings, &ui.render_options())),
        Some(Format::Json) => ui.print(&formats::json(&page::value(&findings))?),
        Some(Format::Short) => findings
            .iter()
            .filter(|finding| finding.is_trouble())
            .try_for_each(|finding| ui.print(&page::line(finding))),
    };
    // The exit code does not depend on whether the page is read.
    tolerate_closed(written)?;
    let counts = page::counts(&findings);
    if counts.errors == 0 {
        return Ok(());
    }
    let what = if args.pre {
        "AppDeploy can't be installed in this cluster"
    } else {
        "AppDeploy has problems"
    };
    Err(Error::new(Kind::Failed, format!("{what}: {}", counts.text())))
}
