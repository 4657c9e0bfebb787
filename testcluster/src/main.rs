//! The command: a Kubernetes on this machine, with a real node where that is possible.

mod local;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::local::{Layout, Ui, Wish};
use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// A Kubernetes on this machine, without Docker.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
struct Cli {
    /// Where the cluster keeps its state [default: target/cluster of the checkout].
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the cluster up; changes nothing on one that is up.
    Up {
        /// Only check that the cluster of your own kubeconfig answers.
        #[arg(long)]
        current: bool,
        /// What is to be done to that cluster: ask first.
        #[arg(long, value_name = "PURPOSE", requires = "current")]
        confirm: Option<String>,
        /// Fake nodes even where a real one is possible.
        #[arg(long, conflicts_with = "current")]
        fake: bool,
        /// Let the node ask the public registries too for images that the cluster's own does not have.
        #[arg(long, conflicts_with = "current")]
        public_registries: bool,
    },
    /// End the cluster, and leave nothing of it but its downloads.
    Down,
    /// Say what runs.
    Status,
    /// Build Kubernetes' programs if need be, and print their folder.
    KubeBin,
    /// Build the checkout's Dockerfile, and give the image to the cluster's registry.
    BuildImage {
        /// The image's name, as a Deployment has it.
        image: String,
        /// The folder of the Dockerfile [default: the checkout].
        #[arg(long, value_name = "DIR")]
        context: Option<PathBuf>,
        /// Cargo's profile: `quick` builds in seconds after a change.
        #[arg(long, default_value = "release")]
        profile: String,
    },
    /// Give an image that docker or `build-image` made to the cluster's registry.
    Push {
        /// The image's name.
        image: String,
    },
}

fn main() -> ExitCode {
    let ui = Ui::stderr();
    match run(Cli::parse(), &ui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            ui.say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, ui: &Ui) -> Result<()> {
    let layout = || Layout::find(cli.state_dir.clone());
    match cli.command {
        Command::Up {
            current: true, confirm, ..
        } => print(&local::check_current(confirm.as_deref())?),
        Command::Up {
            fake,
            public_registries,
            ..
        } => local::up(
            &layout()?,
            Wish {
                fake,
                public_registries,
            },
            ui,
        ),
        Command::Down => local::down(&layout()?, ui),
        Command::Status => print(&local::status(&layout()?)?),
        Command::KubeBin => print(&local::kube_bin()?.display().to_string()),
        Command::BuildImage {
            image,
            context,
            profile,
        } => local::build_image(&layout()?, &image, context, &profile, ui),
        Command::Push { image } => local::push(&layout()?, &image, ui),
    }
}

fn print(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        // A reader that has seen enough, as in `status | head -1`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to print"),
    }
}
