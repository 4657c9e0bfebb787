//! What can be typed, and where it goes.

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::connection::KubeArgs;
use crate::error::{Error, Kind, Result};
use crate::ui::Ui;
use crate::{create, delete, describe, install, scale, status, uninstall, version};

/// An application on Kubernetes as one object: the operator keeps its Deployment, Service and Ingress, and says
/// why it does not work when it does not.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-appdeploy",
    bin_name = "kubectl appdeploy",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = START
)]
struct Cli {
    #[command(flatten)]
    kube: KubeArgs,
    #[command(subcommand)]
    verb: Verb,
}

const START: &str = "\
First steps:
  kubectl appdeploy install
  kubectl appdeploy create hello --image=nginx --port=80
  kubectl appdeploy status

Exit codes: 0 done, 1 error, 2 wrong usage, 3 will not become ready by itself, 4 timed out.";

#[derive(Debug, Subcommand)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it, for the life of the process"
)]
enum Verb {
    /// Install AppDeploy into the cluster, or bring it up to date
    Install(install::Args),
    /// Remove AppDeploy from the cluster; apps stay unless told otherwise
    Uninstall(uninstall::Args),
    /// Create an app from flags, or by answering questions
    Create(create::Args),
    /// Change the number of pods of apps
    Scale(scale::Args),
    /// Show apps and why they are not ready; with a name, also what belongs to it
    Status(status::Args),
    /// Show all there is to know about apps, with events
    Describe(describe::Args),
    /// Delete apps and what belongs to them
    Delete(delete::Args),
    /// Show the versions of the plugin and of the operator
    Version(version::Args),
}

/// Parses, runs, tells an error, and returns the exit code.
pub fn main() -> ExitCode {
    // Two crates of this process could bring a provider; rustls wants to be told which one counts.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(told) => {
            let _ = told.print();
            return if told.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let mut ui = Ui::new(cli.kube.color, &cli.kube.repeat());
    match run(cli, &mut ui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            ui.error(&error);
            error.exit_code()
        }
    }
}

fn run(cli: Cli, ui: &mut Ui) -> Result<()> {
    // Ctrl-C is how one leaves a watch; elsewhere something may be under way.
    let interrupted = Error::new(
        Kind::Interrupted,
        if matches!(cli.verb, Verb::Status(_)) {
            ""
        } else {
            "interrupted: what has been asked for goes on in the cluster"
        },
    );
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::failed(format!("cannot start: {source}")))?
        .block_on(async {
            tokio::select! {
                // First, so that Ctrl-C is ours before a question blocks the thread.
                biased;
                _ = tokio::signal::ctrl_c() => Err(interrupted),
                outcome = dispatch(cli, ui) => outcome,
            }
        })
}

async fn dispatch(cli: Cli, ui: &mut Ui) -> Result<()> {
    let kube = &cli.kube;
    match cli.verb {
        Verb::Install(args) => install::run(args, kube, ui).await,
        Verb::Uninstall(args) => uninstall::run(args, kube, ui).await,
        Verb::Create(args) => create::run(args, kube, ui).await,
        Verb::Scale(args) => scale::run(args, kube, ui).await,
        Verb::Status(args) => status::run(args, kube, ui).await,
        Verb::Describe(args) => describe::run(args, kube, ui).await,
        Verb::Delete(args) => delete::run(args, kube, ui).await,
        Verb::Version(args) => version::run(args, kube, ui).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn kubectls_flags_stand_before_or_after_the_verb() {
        for line in [
            "kubectl-appdeploy status -n a --context=b",
            "kubectl-appdeploy -n a --context=b status",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(
                (cli.kube.namespace.as_deref(), cli.kube.context.as_deref()),
                (Some("a"), Some("b")),
                "{line}"
            );
        }
    }
}
