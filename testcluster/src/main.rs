//! The command line: a Kubernetes on this machine, with a real node if possible.

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
    /// The folder of the cluster's state [default: target/cluster of the checkout].
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the cluster; a running one is not changed.
    Up {
        /// Only check that the cluster of your own kubeconfig answers.
        #[arg(long)]
        current: bool,
        /// Ask before this is done to that cluster.
        #[arg(long, value_name = "PURPOSE", requires = "current")]
        confirm: Option<String>,
        /// Use fake nodes even if a real one is possible.
        #[arg(long, conflicts_with = "current")]
        fake: bool,
        /// Also pull images from public registries if the cluster's own does not have them.
        #[arg(long, conflicts_with = "current")]
        public_registries: bool,
    },
    /// Stop the cluster and delete everything except its downloads.
    Down,
    /// Print what runs.
    Status,
    /// Delete the programs and images of local clusters from the cache.
    CleanCache,
    /// Build Kubernetes' programs if needed, and print their folder.
    KubeBin {
        /// Those of the oldest Kubernetes that AppDeploy supports, which tests need.
        #[arg(long)]
        oldest: bool,
    },
    /// Build the checkout's Dockerfile, and push the image to the cluster's registry.
    BuildImage {
        /// The image's name, as in a Deployment.
        image: String,
        /// The folder of the Dockerfile [default: the checkout].
        #[arg(long, value_name = "DIR")]
        context: Option<PathBuf>,
        /// Pack a program that was built for this machine instead of building; needs neither an engine nor root.
        #[arg(long, value_name = "FILE", conflicts_with = "context")]
        program: Option<PathBuf>,
    },
    /// Run ElasticMQ, a queue service, where the pods of the cluster reach it, until it is interrupted; needs root.
    #[cfg(target_os = "linux")]
    QueueServer,
    /// Run a part of the node; `up` starts these.
    #[cfg(target_os = "linux")]
    #[command(subcommand, hide = true)]
    Node(Part),
    /// Push an image of docker or `build-image` to the cluster's registry.
    Push {
        /// The image's name.
        image: String,
    },
}

#[cfg(target_os = "linux")]
#[derive(Debug, Subcommand)]
enum Part {
    /// Start the node and its programs; needs root.
    Start,
    /// End the node; needs root.
    End,
    /// Start and watch the node, on the host.
    Supervise,
    /// Create the node's namespaces.
    Unshare,
    /// Be the first process of the node.
    Init,
    /// Run another part in the node.
    Enter {
        /// The part, with its arguments.
        #[arg(last = true)]
        part: Vec<String>,
    },
    /// Start the programs of the cluster.
    Up,
    /// Print the state of the programs.
    Status,
    /// Fail unless the cluster is up.
    Check,
    /// Run ElasticMQ, in the network of the node.
    QueueServer,
    /// Serve a folder of images.
    Registry {
        /// The folder.
        #[arg(long)]
        store: PathBuf,
        /// The port on 127.0.0.1.
        #[arg(long)]
        port: u16,
        /// The user and the password that clients must send, as USER:PASSWORD.
        #[arg(long, env = "REGISTRY_CREDENTIALS")]
        credentials: Option<String>,
    },
}

#[cfg(target_os = "linux")]
fn run_part(part: Part, layout: &Layout, ui: &Ui) -> Result<()> {
    use crate::local::parts;
    use testcluster::registry::Credentials;
    match part {
        Part::Start => parts::start(layout, ui),
        Part::End => parts::end(layout),
        Part::Supervise => parts::supervise(layout),
        Part::Unshare => parts::unshare(layout),
        Part::Init => parts::init(layout),
        Part::Enter { part } => {
            let status = parts::enter(layout, &part)?;
            anyhow::ensure!(status.success(), "{} in the node ended with {status}", part.join(" "));
            Ok(())
        }
        Part::Up => parts::up(layout, ui),
        Part::Status => print(&parts::status(layout)?),
        Part::Check => parts::check(layout),
        Part::QueueServer => local::queue_server::run(ui),
        Part::Registry {
            store,
            port,
            credentials,
        } => {
            let credentials = credentials.as_deref().and_then(|pair| pair.split_once(':'));
            let credentials = credentials.map(|(user, password)| Credentials {
                user: user.to_owned(),
                password: password.to_owned(),
            });
            parts::registry(&store, port, credentials.as_ref())
        }
    }
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
        Command::Status => {
            let layout = layout()?;
            print(&local::status(&layout)?)?;
            #[cfg(target_os = "linux")]
            local::node_status(&layout)?;
            Ok(())
        }
        #[cfg(target_os = "linux")]
        Command::QueueServer => local::queue_server::enter(&layout()?),
        #[cfg(target_os = "linux")]
        Command::Node(part) => run_part(part, &layout()?, ui),
        Command::CleanCache => local::clean_cache(ui),
        Command::KubeBin { oldest } => print(&local::kube_bin(oldest)?.display().to_string()),
        #[cfg(target_os = "linux")]
        Command::BuildImage {
            image,
            program: Some(program),
            ..
        } => local::pack_image(&layout()?, &image, &program, ui),
        Command::BuildImage { image, context, .. } => local::build_image(&layout()?, &image, context, ui),
        Command::Push { image } => local::push(&layout()?, &image, ui),
    }
}

fn print(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        // The reader closed the pipe, as in `status | head -1`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to print"),
    }
}
