//! `kubectl appdeploy report`: collects the state of AppDeploy in an archive, without secrets.

mod archive;
mod collect;
mod contents;

use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::cluster::connection::KubeArgs;
use crate::error::{Error, Result, system_error};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Collect the installation and all apps in ./appdeploy-report-TIME.tar.gz
  kubectl appdeploy report

  # Collect only the apps of one namespace
  kubectl appdeploy report -n shop

  # List the content of the archive before you send it
  kubectl appdeploy report --stdout | tar --list --gzip

The archive contains no Secrets and no ConfigMaps. Values of environment
variables and arguments, annotations of other tools, and everything that looks
like a password or a token are replaced by <redacted>.";

/// The flags of `report`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File to write; default: appdeploy-report-TIME.tar.gz in the current folder
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "stdout")]
    file: Option<PathBuf>,
    /// Write the archive to stdout
    #[arg(long)]
    stdout: bool,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    if args.stdout && std::io::stdout().is_terminal() {
        return Err(Error::usage("an archive is nothing for a terminal")
            .next("kubectl appdeploy report --stdout > report.tar.gz"));
    }
    let cluster = kube.connect().await?;
    let namespace = kube.namespace.as_deref();
    ui.progress("collecting the state of the cluster");
    let collected = Box::pin(collect::collect(&cluster, namespace)).await;
    if let Err(error) = &collected.kubernetes {
        return Err(error.clone());
    }
    let now = Timestamp::now();
    let scope = namespace.map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"));
    let contents = contents::contents(&collected, &scope, now)?;
    let folder = format!("appdeploy-report-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let broken = |source: std::io::Error| Error::failed(format!("cannot pack the report: {}", system_error(&source)));
    let packed = archive::pack(&folder, &contents.entries, now).map_err(broken)?;
    ui.clear_progress();
    let files = contents.entries.len();
    let size = packed.len().div_ceil(1024);
    ui.eprintln(&format!(
        "{files} files, {size} KiB: versions, checks, the operator with its log, apps, pod sets and queues of {scope}."
    ));
    for line in &contents.left_out {
        ui.eprintln(&format!("left out: {line}"));
    }
    ui.eprintln("Secrets were not read, and values are masked. Check the file before you send it.");
    if args.stdout {
        return ui.write_stdout(&packed);
    }
    let file = args.file.unwrap_or_else(|| PathBuf::from(format!("{folder}.tar.gz")));
    write(&file, &packed)?;
    ui.print(&file.display().to_string())
}

/// Writes a new file that only its owner may read.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let failed = |source: std::io::Error| {
        Error::failed(format!("cannot write {}: {}", path.display(), system_error(&source)))
            .next("name another file with -f")
    };
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(content).map_err(failed)
}
