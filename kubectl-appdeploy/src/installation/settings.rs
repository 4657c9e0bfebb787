//! The operator's own settings, which `install` passes on.

use std::time::Duration;

use clap::ValueEnum;

use crate::installation::manifests::Options;
use crate::output::duration;

/// Where the operator works, and whether it is asked beforehand: this decides which rights an installation takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Scope {
    /// Namespaces that the operator manages and has rights in; default: all
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    watch_namespace: Vec<String>,
    /// Install admission webhooks for apps and pod sets; default: true, with --watch-namespace false
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true
    )]
    webhooks: Option<bool>,
}

impl Scope {
    /// Whether the setting was given.
    pub const fn is_given(&self) -> bool {
        !self.watch_namespace.is_empty() || self.webhooks.is_some()
    }

    /// Returns the namespaces to manage, each once; none means all.
    pub fn namespaces(&self) -> Vec<String> {
        let named = self.watch_namespace.iter().map(|name| name.trim().to_owned());
        let mut namespaces: Vec<String> = named.filter(|name| !name.is_empty()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces
    }

    /// Whether webhooks are wanted. They take a right in the whole cluster, and who names namespaces wants none.
    fn webhooks(&self) -> bool {
        self.webhooks.unwrap_or_else(|| self.namespaces().is_empty())
    }

    /// Returns what an installation of this scope is to be.
    pub fn options(&self) -> Options {
        Options {
            namespaces: self.namespaces(),
            webhooks: self.webhooks(),
            ..Options::default()
        }
    }
}

/// Settings of the operator. Omitted ones keep the default of the operator.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Operator settings")]
pub struct Settings {
    #[command(flatten)]
    pub scope: Scope,
    /// Allowed suffixes of hosts in a spec; default: any host
    #[arg(long, value_name = "SUFFIXES", value_delimiter = ',')]
    allowed_host_suffix: Vec<String>,
    /// Accept ServiceAccounts and image volumes without webhooks, which review the rights of authors
    #[arg(long)]
    allow_unchecked_fields: bool,
    /// Watch the metadata of ConfigMaps, so that `onConfigChange: Restart` can restart pods
    #[arg(long)]
    watch_configmaps: bool,
    /// How many apps, and how many pod sets, are reconciled at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: Option<u16>,
    /// How often everything is listed again, like 1h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    resync_period: Option<Duration>,
    /// require (an app is ready when its Ingress has an address) or ignore (for ingress controllers that publish none)
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    ingress_address: Option<IngressAddress>,
    /// Log format: text or json
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    log_format: Option<LogFormat>,
    /// Log level: error, warn, info, debug, trace, or a filter like info,kube=debug
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// URL of an OpenTelemetry collector for traces, OTLP over HTTP; default: none
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
}

/// Whether an Ingress without an address counts.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum IngressAddress {
    Require,
    Ignore,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Settings {
    /// Returns the flags for the operator.
    pub fn flags(&self) -> Vec<String> {
        let word = |value: Option<&dyn std::fmt::Display>, flag: &str| value.map(|value| format!("--{flag}={value}"));
        let named = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
        let namespaces = self.scope.namespaces();
        let namespaces = (!namespaces.is_empty()).then(|| namespaces.join(","));
        let suffixes = (!self.allowed_host_suffix.is_empty()).then(|| self.allowed_host_suffix.join(","));
        // An installation serves webhooks unless the flag says otherwise.
        let webhooks = (!self.scope.webhooks()).then_some(false);
        let unchecked = self.allow_unchecked_fields.then_some(true);
        let config_maps = self.watch_configmaps.then_some(true);
        let resync = self.resync_period.map(duration::text);
        let address = named(self.ingress_address.and_then(|value| value.to_possible_value()));
        let format = named(self.log_format.and_then(|value| value.to_possible_value()));
        [
            word(namespaces.as_ref().map(|v| v as _), "watch-namespace"),
            word(webhooks.as_ref().map(|v| v as _), "webhooks"),
            word(suffixes.as_ref().map(|v| v as _), "allowed-host-suffix"),
            word(unchecked.as_ref().map(|v| v as _), "allow-unchecked-fields"),
            word(config_maps.as_ref().map(|v| v as _), "watch-configmaps"),
            word(self.concurrency.as_ref().map(|v| v as _), "concurrency"),
            word(resync.as_ref().map(|v| v as _), "resync-period"),
            word(address.as_ref().map(|v| v as _), "ingress-address"),
            word(format.as_ref().map(|v| v as _), "log-format"),
            word(self.log_level.as_ref().map(|v| v as _), "log-level"),
            word(self.otlp_endpoint.as_ref().map(|v| v as _), "otlp-endpoint"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_is_passed_on() {
        assert_eq!(Settings::default().flags(), Vec::<String>::new());
        let settings = Settings {
            scope: Scope {
                watch_namespace: ["b", " a", "", "b"].map(ToOwned::to_owned).into(),
                webhooks: None,
            },
            resync_period: Some(Duration::from_secs(5400)),
            ingress_address: Some(IngressAddress::Ignore),
            ..Settings::default()
        };
        assert_eq!(
            settings.flags(),
            [
                "--watch-namespace=a,b",
                "--webhooks=false",
                "--resync-period=1h30m",
                "--ingress-address=ignore"
            ]
        );
    }
}
