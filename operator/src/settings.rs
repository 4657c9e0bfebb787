//! The operator's flags, each with an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Keeps a Deployment, a Service and an Ingress for each AppDeploy of a cluster.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Clone, Debug, Parser)]
#[command(name = "appdeploy-operator", version, after_help = EXAMPLES)]
pub struct Settings {
    /// Kubeconfig to use. Default: the pod's own ServiceAccount, or KUBECONFIG, or ~/.kube/config.
    #[arg(long, env = "APPDEPLOY_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Number of AppDeploys, and of PodSets, that are reconciled concurrently. Each uses at most one connection to the API
    /// server.
    #[arg(long, env = "APPDEPLOY_CONCURRENCY", default_value = "64", value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    pub concurrency: u16,

    /// Namespaces to manage, separated by commas. Default: all.
    #[arg(
        long,
        env = "APPDEPLOY_WATCH_NAMESPACE",
        value_delimiter = ',',
        value_name = "NAMESPACES"
    )]
    pub watch_namespace: Vec<String>,

    /// The operator's own namespace: that of its Lease, and of the Service and the certificates of its webhooks.
    #[arg(long, env = "APPDEPLOY_NAMESPACE", default_value = crd::OPERATOR_NAMESPACE, value_name = "NAMESPACE")]
    pub namespace: String,

    /// How often everything is listed again, to find changes that a watch has missed. Shortened by up to a tenth at random, so that
    /// kinds are not listed at the same time.
    #[arg(long, env = "APPDEPLOY_RESYNC_PERIOD", default_value = "1h", value_parser = duration, value_name = "TIME")]
    pub resync_period: Duration,

    /// How often queues outside of the cluster are read, to find changes and deletions by others. Shortened by up to a tenth at
    /// random.
    #[arg(long, env = "APPDEPLOY_EXTERNAL_RESYNC_PERIOD", default_value = "1m", value_parser = duration, value_name = "TIME")]
    pub external_resync_period: Duration,

    /// Folder with credentials for queue services, as files `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`,
    /// read again when they change. They serve AppQueues without credentials of their own, and only queues whose name begins with the namespace
    /// of the AppQueue and `_`. Default: each AppQueue names a Secret.
    #[arg(long, env = "APPDEPLOY_QUEUE_CREDENTIALS", value_name = "FOLDER")]
    pub queue_credentials: Option<PathBuf>,

    /// Allow endpoints of queue services with a loopback or link-local address. Anyone who may create an AppQueue can then send
    /// requests to servers on the operator's node, such as the metadata service of a cloud.
    #[arg(long, env = "APPDEPLOY_ALLOW_LOCAL_QUEUE_ENDPOINTS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set)]
    pub allow_local_queue_endpoints: bool,

    /// Address for /healthz, /readyz and /metrics.
    #[arg(long, env = "APPDEPLOY_BIND", default_value = "0.0.0.0:8080", value_name = "ADDRESS")]
    pub bind: SocketAddr,

    /// Address for GET and PUT /log-level. Anyone who can connect may change the log level, so it is a loopback address: in a
    /// cluster, use `kubectl port-forward`.
    #[arg(
        long,
        env = "APPDEPLOY_DEBUG_BIND",
        default_value = "127.0.0.1:8089",
        value_name = "ADDRESS"
    )]
    pub debug_bind: SocketAddr,

    /// Write only while holding a Lease, so that one of several replicas writes. The others watch, and take over when it ends.
    #[arg(long, env = "APPDEPLOY_LEADER_ELECT", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// How long another replica waits after the leader's last renewal of the Lease. The leader renews it several times in this period,
    /// and ends if it had no success for two thirds of it.
    #[arg(long, env = "APPDEPLOY_LEADER_ELECT_LEASE_DURATION", default_value = "15s", value_parser = lease_duration, value_name = "TIME")]
    pub leader_elect_lease_duration: Duration,

    /// The UID of the operator's pod. A container that is restarted in the same pod continues the Lease of the one before, which has ended.
    /// Default: each process is another candidate, which waits until the Lease of one that was killed has expired.
    #[arg(long, env = "APPDEPLOY_POD_UID", value_name = "UID")]
    pub pod_uid: Option<String>,

    /// Serve the admission webhooks. Followers serve them, too.
    #[arg(long, env = "APPDEPLOY_WEBHOOKS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set)]
    pub webhooks: bool,

    /// Accept fields whose authors need the right to create pods although no webhook reviews it: ServiceAccounts and image
    /// volumes. Anyone who may create an AppDeploy or a PodSet can then use them. Without effect if webhooks are served.
    #[arg(long, env = "APPDEPLOY_ALLOW_UNCHECKED_FIELDS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set)]
    pub allow_unchecked_fields: bool,

    /// Watch the metadata of all ConfigMaps, so that `onConfigChange: Restart` can restart pods when one of their ConfigMaps changes.
    /// Without it, a spec with that setting is refused.
    #[arg(long, env = "APPDEPLOY_WATCH_CONFIGMAPS", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set)]
    pub watch_configmaps: bool,

    /// Address for webhooks.
    #[arg(
        long,
        env = "APPDEPLOY_WEBHOOK_BIND",
        default_value = "0.0.0.0:9443",
        value_name = "ADDRESS"
    )]
    pub webhook_bind: SocketAddr,

    /// Folder with the certificate for webhooks, as tls.crt and tls.key, read again when they change. Default: the operator creates its
    /// own, and writes its authority to the webhook configurations.
    #[arg(long, env = "APPDEPLOY_WEBHOOK_CERT_DIR", value_name = "FOLDER")]
    pub webhook_cert_dir: Option<PathBuf>,

    /// File with the authorities of API servers' client certificates, as PEM, read again when it changes. Clients of the
    /// webhooks must then have a certificate of one of them. Default: any client is answered.
    #[arg(long, env = "APPDEPLOY_WEBHOOK_CLIENT_CA", value_name = "FILE")]
    pub webhook_client_ca: Option<PathBuf>,

    /// Whether an application counts as ready only when its Ingress has an address. `ignore` is for ingress
    /// controllers that publish none.
    #[arg(long, env = "APPDEPLOY_INGRESS_ADDRESS", value_enum, default_value_t = IngressAddress::Require)]
    pub ingress_address: IngressAddress,

    /// Suffixes, separated by commas, one of which each host in a spec must have. Default: any host is allowed. The default host of an
    /// app is always allowed.
    #[arg(
        long,
        env = "APPDEPLOY_ALLOWED_HOST_SUFFIX",
        value_delimiter = ',',
        value_name = "SUFFIXES"
    )]
    pub allowed_host_suffix: Vec<String>,

    /// Format of log lines. `json` is one object per line.
    #[arg(long, env = "APPDEPLOY_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Log level, or filters such as `info,operator=debug`. `RUST_LOG` has the same effect.
    #[arg(long, env = "APPDEPLOY_LOG_LEVEL", value_name = "FILTER")]
    pub log_level: Option<String>,

    /// OpenTelemetry collector that receives traces by OTLP over HTTP, such as `http://collector:4318`. Default: the value of
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`; without it, there are no traces.
    #[arg(long, env = "APPDEPLOY_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

impl Settings {
    /// Returns the namespaces to manage, each once; none means all.
    #[must_use]
    pub fn namespaces(&self) -> Vec<&str> {
        let named = self.watch_namespace.iter().map(|namespace| namespace.trim());
        let mut namespaces: Vec<&str> = named.filter(|namespace| !namespace.is_empty()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces
    }

    /// Whether fields that need the right to create pods are accepted: webhooks review the right, or it was waived.
    #[must_use]
    pub const fn accepts_gated_fields(&self) -> bool {
        self.webhooks || self.allow_unchecked_fields
    }
}

const EXAMPLES: &str = "Examples:
  # Outside a cluster, with your own rights, more talkative
  appdeploy-operator --bind 127.0.0.1:8081 --log-level debug

  # Two namespaces only
  appdeploy-operator --watch-namespace shop,blog";

/// Whether the address of an Ingress matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IngressAddress {
    /// Wait for it if an IngressClass applies.
    Require,
    /// Don't wait.
    Ignore,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Reads durations as in Kubernetes' tools: `90s`, `15m`, `1h30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| format!("invalid duration {text:?}: write it like 90s, 15m or 1h"))?;
    let duration = Duration::try_from(span).map_err(|_| format!("{text:?} is negative"))?;
    if duration < Duration::from_secs(1) {
        return Err(format!("{text:?} is less than a second"));
    }
    Ok(duration)
}

/// A shorter Lease would be lost whenever the API server is busy.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

fn lease_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration < SHORTEST_LEASE {
        return Err(format!("{text:?} is less than {} s", SHORTEST_LEASE.as_secs()));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        use clap::CommandFactory as _;
        Settings::command().debug_assert();
    }

    #[test]
    fn no_namespace_means_all() {
        let namespaces = |value: &str| {
            let settings = Settings::parse_from(["appdeploy-operator", "--watch-namespace", value]);
            settings.namespaces().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(namespaces(""), [""; 0]);
        assert_eq!(namespaces("shop, blog,,shop"), ["blog", "shop"]);
    }

    #[test]
    fn durations_are_read_like_those_of_kubectl() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        for bad in ["", "5", "-1m", "10ms", "soon"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
