//! The command: writes packages into folders.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};
use packages::{helm, olm, output};

/// Renders what AppDeploy is released as.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
struct Cli {
    /// The folder of manifests [default: config of the checkout].
    #[arg(long, global = true, value_name = "DIR")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the Helm chart into a folder, whose content it replaces.
    Helm {
        /// The folder; it becomes the chart itself.
        out: PathBuf,
    },
    /// Write the bundle for OLM into a folder, whose content it replaces.
    Olm {
        /// The folder; it becomes the context of the bundle's image.
        out: PathBuf,
    },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let config = cli.config.unwrap_or_else(|| checkout().join("config"));
    match cli.command {
        Command::Helm { out } => output::write(&out, &helm::chart(&config)?),
        Command::Olm { out } => output::write(&out, &olm::bundle(&config)?),
    }
}

/// Returns the folder with the Makefile.
fn checkout() -> &'static Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.parent().unwrap_or(root)
}
