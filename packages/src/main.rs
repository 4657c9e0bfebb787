//! The command line: writes packages into folders.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use jiff::Timestamp;
use packages::platform::Platform;
use packages::{helm, olm, output, pin, release, sbom};

/// Render the packages of a release.
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
    /// Write the Helm chart into a folder and replace its content.
    Helm {
        /// The folder; it becomes the chart itself.
        out: PathBuf,
    },
    /// Write the bundle for OLM into a folder and replace its content.
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
    /// Write the SBOM of a program into the folder of a release, as CycloneDX.
    Sbom {
        /// The crate of the program.
        package: String,
        /// The folder.
        out: PathBuf,
    },
    /// Write the admission policies into the folder of a release, for installations without them.
    Policies {
        /// The folder.
        out: PathBuf,
    },
    /// Write the digest of the operator's image after its tag in the manifests.
    Pin {
        /// The digest, such as sha256:….
        digest: String,
    },
    /// Write Krew's manifest and the checksums of the files in the folder of a release.
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

/// Returns the date of all packed files: not the current date, so that builds are reproducible.
fn date() -> Result<Timestamp> {
    let seconds = std::env::var("SOURCE_DATE_EPOCH")
        .context("SOURCE_DATE_EPOCH is not set: `make` sets it to the date of the commit")?;
    let seconds = seconds.trim().parse();
    let seconds = seconds.context("invalid SOURCE_DATE_EPOCH: must be a number of seconds since 1970")?;
    Timestamp::from_second(seconds).context("invalid SOURCE_DATE_EPOCH: out of range")
}

fn print(path: &Path) -> Result<()> {
    writeln!(std::io::stdout(), "{}", path.display()).context("failed to print")
}

/// Returns the folder with the Makefile.
fn checkout() -> &'static Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.parent().unwrap_or(root)
}
