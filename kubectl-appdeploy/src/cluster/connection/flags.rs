//! kubectl's flags for the cluster, which can be before or after any command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use model::{NextCommand, command};

use super::Writes;
use crate::error::{Error, Result};
use crate::output::duration;
use crate::terminal::ui::{self, Flags};
use crate::terminal::warnings::Warnings;

/// kubectl's flags for cluster and user, with kubectl's names and meaning.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster options, as in kubectl")]
pub struct KubeArgs {
    /// Namespace; default: the namespace of the context, or "default"
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Context of the kubeconfig to use
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// Path of the kubeconfig; default: $KUBECONFIG, or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Cluster of the kubeconfig to use
    #[arg(long, global = true, value_name = "CLUSTER", hide_short_help = true)]
    pub cluster: Option<String>,
    /// User of the kubeconfig to use
    #[arg(long, global = true, value_name = "USER", hide_short_help = true)]
    pub user: Option<String>,
    /// Address of the API server
    #[arg(short, long, global = true, value_name = "URL", hide_short_help = true)]
    pub server: Option<String>,
    /// Bearer token for authentication
    #[arg(long, global = true, hide_short_help = true, hide_env_values = true)]
    pub token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER", hide_short_help = true)]
    pub act_as: Option<String>,
    /// Group to impersonate; can be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", hide_short_help = true)]
    pub as_group: Vec<String>,
    /// UID to impersonate
    #[arg(long = "as-uid", global = true, value_name = "UID", hide_short_help = true)]
    pub as_uid: Option<String>,
    /// Timeout of one request, like 5s or 1m; 0 means no timeout. Default: 10s for reads, 65s for writes
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse, hide_short_help = true)]
    pub request_timeout: Option<Duration>,
    /// Do not verify the API server's certificate
    #[arg(
        long, global = true, value_name = "BOOL", hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", hide_default_value = true, hide_possible_values = true,
        action = clap::ArgAction::Set
    )]
    pub insecure_skip_tls_verify: bool,
    /// File with the CA certificate of the API server
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub certificate_authority: Option<PathBuf>,
    /// Server name for the verification of the API server's certificate
    #[arg(long, global = true, value_name = "HOST", hide_short_help = true)]
    pub tls_server_name: Option<String>,
    /// When to use colour: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_short_help = true,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub color: ui::Color,
    /// What API servers have warned of.
    #[arg(skip)]
    pub warnings: Warnings,
    /// The changes that were sent so far.
    #[arg(skip)]
    pub writes: Writes,
    /// Whether stdin is not a terminal, so that a login can't prompt.
    #[arg(skip)]
    pub unattended: bool,
}

impl KubeArgs {
    /// Returns the flags that chose the cluster, for commands that are to reach the same one.
    pub fn repeat(&self) -> Flags {
        let file = self.kubeconfig.as_ref().map(|file| file.display());
        let file = file.map_or_else(NextCommand::default, |file| command!("--kubeconfig={}", file));
        let given = [
            self.context.as_ref().map(|value| command!("--context={}", value)),
            self.cluster.as_ref().map(|value| command!("--cluster={}", value)),
            self.user.as_ref().map(|value| command!("--user={}", value)),
            self.server.as_ref().map(|value| command!("--server={}", value)),
            self.act_as.as_ref().map(|value| command!("--as={}", value)),
            self.as_uid.as_ref().map(|value| command!("--as-uid={}", value)),
        ];
        let groups = self.as_group.iter().map(|group| command!("--as-group={}", group));
        let all = given.into_iter().flatten().chain(groups);
        Flags {
            all: all.fold(file.clone(), NextCommand::and),
            file,
        }
    }

    /// Rejects `-n` for commands that use a fixed namespace.
    pub fn refuse_namespace(&self) -> Result<()> {
        match &self.namespace {
            Some(namespace) if namespace != crd::OPERATOR_NAMESPACE => Err(Error::usage(format!(
                "the operator always lives in {}: leave out --namespace",
                crd::OPERATOR_NAMESPACE
            ))
            .why("it manages the apps, pod sets and queues of all namespaces, or of those in --watch-namespace")),
            _ => Ok(()),
        }
    }
}
