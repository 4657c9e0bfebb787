//! `kubectl appdeploy set`: one thing about apps or pod sets, without an editor.

mod env;
mod placement;
mod resources;
mod value;
mod volume;

use clap::Subcommand;
use crd::Kind;

use crate::cluster::connection::KubeArgs;
use crate::error::Result;
use crate::terminal::ui::Ui;

/// What can be set.
#[derive(Debug, Subcommand)]
pub enum Field {
    /// Set the image
    Image(value::ImageArgs),
    /// Set, remove or list environment variables
    Env(env::Args),
    /// Set the resource requests and limits of pods
    Resources(resources::Args),
    /// Set the host of the URL
    Host(value::HostArgs),
    /// Set the port that the container listens on
    Port(value::PortArgs),
    /// Set the ServiceAccount of pods
    #[command(name = "serviceaccount", visible_alias = "sa")]
    ServiceAccount(value::ServiceAccountArgs),
    /// Set or remove volumes
    Volume(volume::Args),
    /// Set the nodes on which pods may run
    Placement(placement::Args),
    /// Set how changed pods are rolled out
    Rollout(value::RolloutArgs),
}

/// The flags of `set`.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    field: Field,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    match args.field {
        Field::Image(args) => value::run(args.value(), kind, kube, ui).await,
        Field::Host(args) => value::run(args.value(), kind, kube, ui).await,
        Field::Port(args) => value::run(args.value(), kind, kube, ui).await,
        Field::ServiceAccount(args) => value::run(args.value(), kind, kube, ui).await,
        Field::Volume(args) => volume::run(args, kind, kube, ui).await,
        Field::Placement(args) => placement::run(args, kind, kube, ui).await,
        Field::Rollout(args) => value::run(args.value(), kind, kube, ui).await,
        Field::Env(args) => env::run(args, kind, kube, ui).await,
        Field::Resources(args) => resources::run(args, kind, kube, ui).await,
    }
}
