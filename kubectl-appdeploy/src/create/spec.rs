//! The flags that describe an app, and the app they describe.

use std::collections::BTreeMap;

use crd::{
    AppDeploy, AppDeploySpec, EnvVar, Expose, HealthCheck, ImagePullPolicy, LocalObjectReference, PodFields, Quantity,
    Resources, SecurityProfile, Tls,
};
use kube::core::ObjectMeta;

use crate::error::{Error, Result};

/// What an app can be made of.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "App")]
pub struct SpecArgs {
    /// Image to run
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Port that the app listens on; without one it is a worker
    #[arg(long, value_name = "PORT")]
    pub port: Option<i32>,
    /// Number of pods; default: 1
    #[arg(long, value_name = "N")]
    pub replicas: Option<i32>,
    /// Host name at which it answers; default: <name>.<namespace>
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Path below which it answers; default: /
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// IngressClass to use; default: that of the cluster
    #[arg(long, value_name = "CLASS")]
    pub ingress_class: Option<String>,
    /// Secret with the certificate for HTTPS
    #[arg(long, value_name = "SECRET")]
    pub tls_secret: Option<String>,
    /// How it is reached: ingress, or service for inside the cluster only
    #[arg(long, value_name = "HOW", value_parser = expose)]
    pub expose: Option<Expose>,
    /// Environment variable; may be given more than once
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// What each pod reserves, like cpu=100m,memory=64Mi
    #[arg(long, value_name = "AMOUNTS", value_delimiter = ',', value_parser = pair)]
    pub requests: Vec<(String, String)>,
    /// What each pod may use at most, like memory=128Mi
    #[arg(long, value_name = "AMOUNTS", value_delimiter = ',', value_parser = pair)]
    pub limits: Vec<(String, String)>,
    /// HTTP path that answers with 200 when the app works
    #[arg(long, value_name = "PATH")]
    pub health_path: Option<String>,
    #[arg(long, value_name = "WHEN", value_parser = pull_policy, help = "When to pull the image: Always, IfNotPresent or Never")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secret with the password of the image's registry; may be given more than once
    #[arg(long, value_name = "SECRET")]
    pub pull_secret: Vec<String>,
    /// How much its pods are confined: baseline or restricted
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    pub security_profile: Option<SecurityProfile>,
    /// Labels of the app, like team=shop,tier=web
    #[arg(short, long, value_name = "LABELS", value_delimiter = ',', value_parser = pair)]
    pub labels: Vec<(String, String)>,
    /// What follows -- replaces the image's entrypoint instead of its arguments
    #[arg(long, requires = "args")]
    pub command: bool,
    /// Arguments of the app, or with --command what it runs
    #[arg(last = true, value_name = "ARG", help_heading = None::<&str>)]
    pub args: Vec<String>,
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like NAME=VALUE".to_owned()),
    }
}

fn expose(text: &str) -> std::result::Result<Expose, String> {
    match text.to_lowercase().as_str() {
        "ingress" => Ok(Expose::Ingress),
        "service" => Ok(Expose::Service),
        _ => Err("take ingress or service".to_owned()),
    }
}

fn pull_policy(text: &str) -> std::result::Result<ImagePullPolicy, String> {
    [
        ImagePullPolicy::Always,
        ImagePullPolicy::IfNotPresent,
        ImagePullPolicy::Never,
    ]
    .into_iter()
    .find(|policy| policy.as_str().eq_ignore_ascii_case(text))
    .ok_or_else(|| "take Always, IfNotPresent or Never".to_owned())
}

fn profile(text: &str) -> std::result::Result<SecurityProfile, String> {
    match text {
        "baseline" => Ok(SecurityProfile::Baseline),
        "restricted" => Ok(SecurityProfile::Restricted),
        _ => Err("take baseline or restricted".to_owned()),
    }
}

impl SpecArgs {
    /// Whether no flag says anything about the app.
    pub fn is_empty(&self) -> bool {
        let Self {
            image,
            port,
            replicas,
            host,
            path,
            ingress_class,
            tls_secret,
            expose,
            env,
            requests,
            limits,
            health_path,
            image_pull_policy,
            pull_secret,
            security_profile,
            labels,
            command,
            args,
        } = self;
        image.is_none()
            && port.is_none()
            && replicas.is_none()
            && [host, path, ingress_class, tls_secret, health_path]
                .iter()
                .all(|text| text.is_none())
            && expose.is_none()
            && [env, requests, limits, labels].iter().all(|pairs| pairs.is_empty())
            && image_pull_policy.is_none()
            && security_profile.is_none()
            && [pull_secret, args].iter().all(|words| words.is_empty())
            && !command
    }

    /// Returns the app that the flags describe.
    pub fn app(&self, name: &str, image: &str, namespace: Option<String>) -> Result<AppDeploy> {
        let (command, args) = if self.command {
            (self.args.clone(), Vec::new())
        } else {
            (Vec::new(), self.args.clone())
        };
        let (requests, limits) = (
            amounts("--requests", &self.requests)?,
            amounts("--limits", &self.limits)?,
        );
        let pod = PodFields {
            image: image.to_owned(),
            port: self.port,
            env: self.variables()?,
            command,
            args,
            resources: (!requests.is_empty() || !limits.is_empty()).then_some(Resources { requests, limits }),
            health_check: self.health_path.clone().map(|path| HealthCheck {
                path: Some(path),
                ..HealthCheck::default()
            }),
            image_pull_policy: self.image_pull_policy,
            image_pull_secrets: self
                .pull_secret
                .iter()
                .map(|name| LocalObjectReference { name: name.clone() })
                .collect(),
            security_profile: self.security_profile.unwrap_or_default(),
        };
        let spec = AppDeploySpec {
            pod,
            replicas: self.replicas.unwrap_or(1),
            expose: self.expose.unwrap_or_default(),
            host: self.host.clone(),
            path: self.path.clone(),
            ingress_class_name: self.ingress_class.clone(),
            tls: self.tls_secret.clone().map(|secret_name| Tls { secret_name }),
        };
        let labels: BTreeMap<String, String> = self.labels.iter().cloned().collect();
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace,
            labels: (!labels.is_empty()).then_some(labels),
            ..ObjectMeta::default()
        };
        Ok(AppDeploy {
            metadata,
            spec,
            status: None,
        })
    }

    fn variables(&self) -> Result<Vec<EnvVar>> {
        let mut variables: Vec<EnvVar> = Vec::new();
        for (name, value) in &self.env {
            if variables.iter().any(|variable| &variable.name == name) {
                return Err(Error::usage(format!("--env sets {name} twice")));
            }
            variables.push(EnvVar {
                name: name.clone(),
                value: Some(value.clone()),
                value_from: None,
            });
        }
        Ok(variables)
    }
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

/// Checks an app with the rules of its schema, before anything is sent: the same sentences as the server's.
pub fn validate(app: &AppDeploy) -> Result<()> {
    let mut problems = ranges(&app.spec);
    if let Err(errors) = app.validate_cel() {
        problems.extend(errors.as_slice().iter().map(|error| match error.field_path.as_str() {
            "" if error.rule.contains("metadata.name") => format!("metadata.name: {}", error.message),
            "" => error.message.clone(),
            path => format!("{path}: {}", error.message),
        }));
    }
    if problems.is_empty() {
        return Ok(());
    }
    let name = app.metadata.name.as_deref().unwrap_or_default();
    let error = Error::usage(format!(
        "{} would not be valid; nothing was sent",
        crate::app::title(name)
    ));
    Err(problems.into_iter().fold(error, Error::why))
}

/// The schema's limits that are no rules: the server checks them too, and says it less kindly.
fn ranges(spec: &AppDeploySpec) -> Vec<String> {
    let mut problems = Vec::new();
    if spec.pod.port.is_some_and(|port| !(1..=65535).contains(&port)) {
        problems.push("spec.port: a port is a number from 1 to 65535".to_owned());
    }
    if !(0..=1000).contains(&spec.replicas) {
        problems.push("spec.replicas: take a number from 0 to 1000".to_owned());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Look;

    fn check(name: &str, args: SpecArgs) -> String {
        let image = args.image.clone().unwrap_or_else(|| "nginx".to_owned());
        match args.app(name, &image, None).and_then(|app| validate(&app)) {
            Ok(()) => "valid".to_owned(),
            Err(error) => error.text(&Look::default()),
        }
    }

    #[test]
    fn a_broken_rule_is_told_with_the_field_and_what_to_write_instead() {
        let args = SpecArgs {
            port: Some(80),
            host: Some("http://shop".to_owned()),
            ..SpecArgs::default()
        };
        insta::assert_snapshot!(check("shop", args), @r"
        error: appdeploy.appdeploy.dev/shop would not be valid; nothing was sent
          why:  spec.host: a host is lower-case letters, digits, '-' and '.', without scheme, port or path; write it like shop.example.com
        ");
        insta::assert_snapshot!(check("My_Shop", SpecArgs::default()), @r"
        error: appdeploy.appdeploy.dev/My_Shop would not be valid; nothing was sent
          why:  metadata.name: the name becomes a host and a Service: use lower-case letters, digits and '-', start with a letter and end with a letter or digit, like my-shop
        ");
        let worker = SpecArgs {
            host: Some("shop.example.com".to_owned()),
            ..SpecArgs::default()
        };
        insta::assert_snapshot!(check("shop", worker), @r"
        error: appdeploy.appdeploy.dev/shop would not be valid; nothing was sent
          why:  spec: host, path, ingressClassName and tls need a port to lead to: set spec.port, or remove them
        ");
        insta::assert_snapshot!(check("shop", SpecArgs { port: Some(0), image: Some("Nginx latest".to_owned()), ..SpecArgs::default() }), @r"
        error: appdeploy.appdeploy.dev/shop would not be valid; nothing was sent
          why:  spec.port: a port is a number from 1 to 65535
          why:  spec.image: an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like nginx or ghcr.io/acme/shop:1.4
        ");
    }

    #[test]
    fn a_plain_app_is_valid() {
        assert_eq!(
            check(
                "shop",
                SpecArgs {
                    port: Some(80),
                    ..SpecArgs::default()
                }
            ),
            "valid"
        );
    }
}
