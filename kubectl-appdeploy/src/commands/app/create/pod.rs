//! The flags that describe a pod: the same for every kind that makes pods.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crd::{
    ContainerFields, EnvVar, HealthCheck, ImagePullPolicy, LocalObjectReference, OnConfigChange, Placement, PodFields,
    Quantity, QueueReference, Resources, SecurityProfile, ServiceAccount, Toleration, Volume,
};

use super::env_file;
use crate::commands::app::choice::one_of;
use crate::commands::app::{toleration, volume};
use crate::error::{Error, Result};
use crate::output::quantity;
use crate::resource::env_source::EnvSource;

/// The flags for the fields of pods.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct PodArgs {
    /// Image to run
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Port that the container listens on
    #[arg(long, value_name = "PORT")]
    pub port: Option<i32>,
    /// Environment variable; can be repeated
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// File with lines NAME=VALUE, or NAME to copy the value from your shell; --env wins. Can be repeated
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// Secret or ConfigMap with a variable for each key, like secret/db; --env and --env-file win. Can be repeated
    #[arg(long, value_name = "KIND/NAME", value_parser = EnvSource::parse)]
    pub env_from: Vec<EnvSource>,
    /// Resource requests of each pod, like cpu=100m,memory=64Mi
    #[arg(long, value_name = "AMOUNTS", value_delimiter = ',', value_parser = amount)]
    pub requests: Vec<(String, String)>,
    /// Resource limits of each pod, like memory=128Mi
    #[arg(long, value_name = "AMOUNTS", value_delimiter = ',', value_parser = amount)]
    pub limits: Vec<(String, String)>,
    /// HTTP path of the health check
    #[arg(long, value_name = "PATH")]
    pub health_path: Option<String>,
    #[arg(long, value_name = "WHEN", value_parser = pull_policy, help = "When to pull the image: Always, IfNotPresent or Never")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secret with the credentials of the registry; can be repeated
    #[arg(long, value_name = "SECRET")]
    pub pull_secret: Vec<String>,
    /// AppQueue whose URL the pods get as QUEUE_<NAME>_URL; can be repeated
    #[arg(long, value_name = "QUEUE")]
    pub queue: Vec<String>,
    /// Pod Security profile: baseline or restricted
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    pub security_profile: Option<SecurityProfile>,
    #[arg(long, value_name = "[NAME=]SOURCE:PATH", value_parser = volume::parse, help = "Volume to mount, like configmap/shop:/etc/shop, secret/keys:/keys or emptydir:/tmp; can be repeated")]
    pub volume: Vec<Volume>,
    /// ServiceAccount of the pods; default: the account default, without its token
    #[arg(long, value_name = "ACCOUNT")]
    pub service_account: Option<String>,
    #[arg(long, value_name = "WHAT", value_parser = on_config_change, help = "What a change of a ConfigMap that the pods use does: Ignore or Restart")]
    pub on_config_change: Option<OnConfigChange>,
    /// Annotation of a ServiceAccount that is created for the app, like eks.amazonaws.com/role-arn=ARN; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, conflicts_with = "service_account")]
    pub service_account_annotation: Vec<(String, String)>,
    /// Label that a node must have to run the pods, like disktype=ssd; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub node_selector: Vec<(String, String)>,
    /// Taint of nodes that the pods tolerate, like dedicated=batch:NoSchedule; without a value, any value; without an effect, all
    /// effects. Can be repeated
    #[arg(long, value_name = "KEY[=VALUE][:EFFECT]", value_parser = toleration::parse)]
    pub toleration: Vec<Toleration>,
    /// Arguments after -- replace the entrypoint of the image instead of its arguments
    #[arg(long, requires = "args")]
    pub command: bool,
    /// Arguments of the container; with --command, the command and its arguments
    #[arg(last = true, value_name = "ARG", help_heading = None::<&str>)]
    pub args: Vec<String>,
}

pub fn pair(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like NAME=VALUE".to_owned()),
    }
}

/// Reads a resource and how much of it.
fn amount(text: &str) -> std::result::Result<(String, String), String> {
    let (name, amount) = pair(text)?;
    if quantity::milli(&amount).is_none() {
        return Err(format!("{amount:?} is not a quantity like 100m or 64Mi"));
    }
    Ok((name, amount))
}

fn pull_policy(text: &str) -> std::result::Result<ImagePullPolicy, String> {
    let all = [
        ImagePullPolicy::Always,
        ImagePullPolicy::IfNotPresent,
        ImagePullPolicy::Never,
    ];
    one_of(all, ImagePullPolicy::as_str, text).ok_or_else(|| "must be Always, IfNotPresent or Never".to_owned())
}

fn on_config_change(text: &str) -> std::result::Result<OnConfigChange, String> {
    one_of(OnConfigChange::ALL, OnConfigChange::as_str, text).ok_or_else(|| "must be Ignore or Restart".to_owned())
}

fn profile(text: &str) -> std::result::Result<SecurityProfile, String> {
    match text.to_lowercase().as_str() {
        "baseline" => Ok(SecurityProfile::Baseline),
        "restricted" => Ok(SecurityProfile::Restricted),
        _ => Err("must be baseline or restricted".to_owned()),
    }
}

impl PodArgs {
    /// Returns the flags that were given in addition to the image.
    pub fn given(&self) -> Vec<&'static str> {
        let Self {
            image: _,
            port,
            env,
            env_file,
            env_from,
            requests,
            limits,
            health_path,
            image_pull_policy,
            pull_secret,
            queue,
            security_profile,
            volume,
            service_account,
            on_config_change,
            service_account_annotation,
            node_selector,
            toleration,
            command,
            args,
        } = self;
        let flags = [
            (port.is_some(), "--port"),
            (!env.is_empty(), "--env"),
            (!env_file.is_empty(), "--env-file"),
            (!env_from.is_empty(), "--env-from"),
            (!requests.is_empty(), "--requests"),
            (!limits.is_empty(), "--limits"),
            (health_path.is_some(), "--health-path"),
            (image_pull_policy.is_some(), "--image-pull-policy"),
            (!pull_secret.is_empty(), "--pull-secret"),
            (!queue.is_empty(), "--queue"),
            (security_profile.is_some(), "--security-profile"),
            (!volume.is_empty(), "--volume"),
            (service_account.is_some(), "--service-account"),
            (on_config_change.is_some(), "--on-config-change"),
            (!service_account_annotation.is_empty(), "--service-account-annotation"),
            (!node_selector.is_empty(), "--node-selector"),
            (!toleration.is_empty(), "--toleration"),
            (*command, "--command"),
            (!args.is_empty(), "arguments after --"),
        ];
        flags
            .iter()
            .filter(|(given, _)| *given)
            .map(|(_, flag)| *flag)
            .collect()
    }

    /// Returns the fields that the flags describe.
    pub fn fields(&self) -> Result<PodFields> {
        let (command, args) = if self.command {
            (self.args.clone(), Vec::new())
        } else {
            (Vec::new(), self.args.clone())
        };
        let (requests, limits) = (
            amounts("--requests", &self.requests)?,
            amounts("--limits", &self.limits)?,
        );
        let container = ContainerFields {
            image: self.image.clone().unwrap_or_default(),
            port: self.port,
            env: self.variables()?,
            env_from: self.env_from.iter().map(EnvSource::all_keys).collect(),
            command,
            args,
            resources: (!requests.is_empty() || !limits.is_empty()).then_some(Resources { requests, limits }),
            health_check: self.health_path.clone().map(|path| HealthCheck {
                path: Some(path),
                ..HealthCheck::default()
            }),
            image_pull_policy: self.image_pull_policy,
            ..ContainerFields::default()
        };
        Ok(PodFields {
            container,
            image_pull_secrets: self
                .pull_secret
                .iter()
                .map(|name| LocalObjectReference { name: name.clone() })
                .collect(),
            queues: self
                .queue
                .iter()
                .map(|name| QueueReference { name: name.clone() })
                .collect(),
            security_profile: self.security_profile,
            volumes: self.volumes()?,
            service_account: self.account()?.map(Box::new),
            on_config_change: self.on_config_change,
            placement: self.placement()?.map(Box::new),
            ..PodFields::default()
        })
    }

    fn account(&self) -> Result<Option<ServiceAccount>> {
        let annotations = distinct("--service-account-annotation", &self.service_account_annotation)?;
        if annotations.is_empty() && self.service_account.is_none() {
            return Ok(None);
        }
        Ok(Some(ServiceAccount {
            name: self.service_account.clone(),
            annotations: Some(annotations).filter(|_| self.service_account.is_none()),
        }))
    }

    fn placement(&self) -> Result<Option<Placement>> {
        let placement = Placement {
            node_selector: distinct("--node-selector", &self.node_selector)?,
            tolerations: self.toleration.clone(),
        };
        Ok((placement != Placement::default()).then_some(placement))
    }

    fn volumes(&self) -> Result<Vec<Volume>> {
        let mut names = BTreeSet::new();
        for volume in &self.volume {
            if !names.insert(&volume.name) {
                let name = &volume.name;
                return Err(
                    Error::usage(format!("--volume names {name} twice")).why("write NAME=SOURCE:PATH to choose a name")
                );
            }
        }
        Ok(self.volume.clone())
    }

    fn variables(&self) -> Result<Vec<EnvVar>> {
        let mut variables: Vec<EnvVar> = Vec::new();
        let mut set = |name: &str, value: &str| {
            let value = Some(value.to_owned());
            match variables.iter_mut().find(|variable| variable.name == name) {
                // As in Docker, later files override earlier ones, and flags override files.
                Some(known) => known.value = value,
                None => variables.push(EnvVar {
                    name: name.to_owned(),
                    value,
                    value_from: None,
                }),
            }
        };
        for file in &self.env_file {
            for (name, value) in env_file::read(file)? {
                set(&name, &value);
            }
        }
        let mut typed = BTreeSet::new();
        for (name, value) in &self.env {
            if !typed.insert(name) {
                return Err(Error::usage(format!("--env sets {name} twice")));
            }
            set(name, value);
        }
        Ok(variables)
    }
}

/// Returns the pairs of a flag, each key of which must be given once.
fn distinct(flag: &str, pairs: &[(String, String)]) -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        if map.insert(key.clone(), value.clone()).is_some() {
            return Err(Error::usage(format!("{flag} sets {key} twice")));
        }
    }
    Ok(map)
}

fn amounts(flag: &str, pairs: &[(String, String)]) -> Result<BTreeMap<String, Quantity>> {
    let mut map = BTreeMap::new();
    for (name, amount) in pairs {
        if map.insert(name.clone(), Quantity(amount.clone())).is_some() {
            return Err(Error::usage(format!("{flag} sets {name} twice")));
        }
    }
    Ok(map)
}
