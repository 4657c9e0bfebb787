//! The command: writes packages into folders.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use jiff::Timestamp;
use packages::platform::Platform;
use packages::{helm, olm, output, pin, release, sbom};

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
    /// Pack the plugin's program for a platform into the folder of a release.
    Plugin {
        /// Rust's name of the platform, such as x86_64-unknown-linux-musl.
        target: String,
        /// The program.
        program: PathBuf,
        /// The folder.
        out: PathBuf,
    },
    /// Pack the Helm chart into the folder of a release.
    Chart {
        /// The folder.
        out: PathBuf,
    },
    /// Write what a program is built from into the folder of a release, as CycloneDX.
    Sbom {
        /// The crate of the program.
        package: String,
        /// The folder.
        out: PathBuf,
    },
    /// Write the admission policies, for what installs without them, into the folder of a release.
    Policies {
        /// The folder.
        out: PathBuf,
    },
    /// Write the digest of the operator's image behind its tag in the manifests.
    Pin {
        /// The digest, such as sha256:….
        digest: String,
    },
    /// Write Krew's manifest and the checksums of what is in the folder of a release.
    Finish {
        /// The folder.
        out: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let config = cli.config.unwrap_or_else(|| checkout().join("config"));
    match cli.command {
        Command::Helm { out } => output::write(&out, &helm::chart(&config)?),
        Command::Olm { out } => output::write(&out, &olm::bundle(&config)?),
        Command::Plugin { target, program, out } => {
            let platform = Platform::of(&target)?;
            print(&release::pack_plugin(checkout(), platform, &program, date()?, &out)?)
        }
        Command::Chart { out } => print(&release::pack_chart(&helm::chart(&config)?, date()?, &out)?),
        Command::Sbom { package, out } => print(&sbom::write(checkout(), &package, date()?, &out)?),
        Command::Policies { out } => print(&release::write_policies(&config, &out)?),
        Command::Pin { digest } => pin::pin(&config, &digest),
        Command::Finish { out } => {
            print(&release::write_krew(&out)?)?;
            print(&release::write_checksums(&out)?)
        }
    }
}

/// Returns the date of everything that is packed: not that of the day, or no two builds would be the same.
fn date() -> Result<Timestamp> {
    let seconds = std::env::var("SOURCE_DATE_EPOCH")
        .context("SOURCE_DATE_EPOCH is not set: `make` sets it to the date of the commit")?;
    let seconds = seconds.trim().parse();
    let seconds = seconds.context("SOURCE_DATE_EPOCH is no number of seconds since 1970")?;
    Timestamp::from_second(seconds).context("SOURCE_DATE_EPOCH is no date")
}

fn print(path: &Path) -> Result<()> {
    writeln!(std::io::stdout(), "{}", path.display()).context("failed to print")
}

/// Returns the folder with the Makefile.
fn checkout() -> &'static Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.parent().unwrap_or(root)
}
