//! The flags that describe an app, and the app they describe.

use crd::{AppDeploy, AppDeploySpec, Expose, Kind, Metrics, PodFields, RolloutStrategy, RolloutType, Tls};
use kube::core::ObjectMeta;
use serde_json::Value;

use super::pod::PodArgs;
use super::{Spec, ask};
use crate::commands::app::choice;
use crate::error::Result;
use crate::resource::strip_defaults::plain;
use crate::resource::validation;

/// What an app can be made of.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "App")]
pub struct AppArgs {
    #[command(flatten)]
    pub pod: PodArgs,
    /// Number of pods; default: 1
    #[arg(long, value_name = "N")]
    pub replicas: Option<i32>,
    /// Host of the URL; default: <name>.<namespace>
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Path prefix of the URL; default: /
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// IngressClass to use; default: the default class of the cluster
    #[arg(long, value_name = "CLASS")]
    pub ingress_class: Option<String>,
    /// Secret with the certificate for HTTPS
    #[arg(long, value_name = "SECRET")]
    pub tls_secret: Option<String>,
    #[arg(long, value_name = "TYPE", value_parser = choice::rollout_type, help = "How changed pods are rolled out: RollingUpdate, or Recreate to end all old pods first; default: RollingUpdate")]
    pub rollout: Option<RolloutType>,
    /// Port at which Prometheus reads the metrics; it may be that of --port
    #[arg(long, value_name = "PORT")]
    pub metrics_port: Option<i32>,
    /// public, or cluster to expose it only inside the cluster; default: public
    #[arg(long, value_name = "WHERE", value_parser = expose)]
    pub expose: Option<Expose>,
}

fn expose(text: &str) -> std::result::Result<Expose, String> {
    match text.to_lowercase().as_str() {
        "public" => Ok(Expose::Public),
        "cluster" => Ok(Expose::Cluster),
        _ => Err("must be public or cluster".to_owned()),
    }
}

impl Spec for AppArgs {
    const KIND: Kind = Kind::AppDeploy;
    const NEEDS_IMAGE: bool = true;
    const EXAMPLES: &'static str = "\
Examples:
  # Create an app interactively
  kubectl appdeploy create

  # Create a web application with the URL http://shop.<namespace>/
  kubectl appdeploy create shop --image=ghcr.io/acme/shop:1.4 --port=8080

  # Use your own host, three pods and a health check; wait until it is ready
  kubectl appdeploy create shop --image=ghcr.io/acme/shop:1.4 --port=8080 \\
    --host=shop.example.com --replicas=3 --health-path=/healthz --wait

  # Create a worker: no port, no Service, no Ingress; arguments follow after --
  kubectl appdeploy create mailer --image=ghcr.io/acme/mailer \\
    --env=QUEUE=mail -- --verbose

  # Set variables from a file with lines like MODE=live
  kubectl appdeploy create shop --image=ghcr.io/acme/shop:1.4 \\
    --env-file=shop.env --env=MODE=test

  # Mount the keys of a ConfigMap as files, and run as a ServiceAccount
  kubectl appdeploy create shop --image=ghcr.io/acme/shop:1.4 \\
    --volume=configmap/shop:/etc/shop --service-account=shop

  # Write the manifest to a file instead of creating the app
  kubectl appdeploy create shop --image=nginx --port=80 \\
    --dry-run=client -o yaml > shop.yaml";

    fn pod(&mut self) -> &mut PodArgs {
        &mut self.pod
    }

    fn object(&self, metadata: ObjectMeta) -> Result<Value> {
        let app = AppDeploy {
            metadata,
            spec: AppDeploySpec {
                pod: PodFields {
                    metrics: self.metrics_port.map(|port| Metrics {
                        port: Some(port),
                        path: None,
                    }),
                    ..self.pod.fields()?
                },
                replicas: self.replicas.unwrap_or(1),
                expose: self.expose,
                host: self.host.clone(),
                path: self.path.clone(),
                ingress_class_name: self.ingress_class.clone(),
                tls: self.tls_secret.clone().map(|name| Tls {
                    secret_name: Some(name),
                }),
                rollout: self.rollout.map(|type_| {
                    Box::new(RolloutStrategy {
                        type_: Some(type_),
                        ..RolloutStrategy::default()
                    })
                }),
                ..AppDeploySpec::default()
            },
            status: None,
        };
        validation::app(&app)?;
        plain(Self::KIND, &app)
    }

    fn ask(&mut self, name: &str, namespace: &str) -> Result<()> {
        self.pod.image = ask::image::<Self>(name, "Image")?;
        self.pod.port = ask::port()?;
        if self.pod.port.is_some() {
            self.host = ask::host(name, namespace, |host| Self {
                host: Some(host),
                ..self.clone()
            })?;
        }
        self.replicas = Some(ask::replicas()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;

    fn args(image: &str, port: Option<i32>) -> AppArgs {
        let image = Some(image.to_owned());
        AppArgs {
            pod: PodArgs {
                image,
                port,
                ..PodArgs::default()
            },
            ..AppArgs::default()
        }
    }

    fn check(name: &str, args: &AppArgs) -> String {
        let name = Some(name.to_owned());
        match args.object(ObjectMeta {
            name,
            ..ObjectMeta::default()
        }) {
            Ok(_) => "valid".to_owned(),
            Err(error) => error.text(&RenderOptions::default()),
        }
    }

    #[test]
    fn broken_rule_names_the_field_and_what_to_write_instead() {
        let hosted = AppArgs {
            host: Some("http://shop".to_owned()),
            ..args("nginx", Some(80))
        };
        insta::assert_snapshot!(check("shop", &hosted), @r"
        error: appdeploy.appdeploy.dev/shop is invalid: nothing was changed
          why:  spec.host: a host is lower-case letters, digits, '-' and '.', without scheme, port or path; write it like shop.example.com
        ");
        insta::assert_snapshot!(check("My_Shop", &args("nginx", None)), @r"
        error: appdeploy.appdeploy.dev/My_Shop is invalid: nothing was changed
          why:  metadata.name: the name becomes a host and a Service: use lower-case letters, digits and '-', start with a letter and end with a letter or digit, like my-shop
        ");
        let worker = AppArgs {
            host: Some("shop.example.com".to_owned()),
            ..args("nginx", None)
        };
        insta::assert_snapshot!(check("shop", &worker), @r"
        error: appdeploy.appdeploy.dev/shop is invalid: nothing was changed
          why:  spec: host, path, ingressClassName and tls need a port to lead to: set spec.port, or remove them
        ");
        insta::assert_snapshot!(check("shop", &args("Nginx latest", Some(0))), @r"
        error: appdeploy.appdeploy.dev/shop is invalid: nothing was changed
          why:  spec.port: a port is a number from 1 to 65535
          why:  spec.image: an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like nginx or ghcr.io/acme/shop:1.4
        ");
    }

    #[test]
    fn resources_that_no_deployment_can_have_are_refused_once() {
        let amounts = |text: &[(&str, &str)]| {
            let amounts = text.iter();
            amounts
                .map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned()))
                .collect()
        };
        let mut wrong = args("nginx", None);
        wrong.pod.requests = amounts(&[("cpu", "2")]);
        wrong.pod.limits = amounts(&[("mem", "64Mi"), ("cpu", "1500m")]);
        insta::assert_snapshot!(check("shop", &wrong), @r#"
        error: appdeploy.appdeploy.dev/shop is invalid: nothing was changed
          why:  spec.resources.limits: unknown resource "mem": use memory
          why:  spec.resources: the request of cpu (2) is above its limit (1500m); raise the limit or lower the request
        "#);
        wrong.pod.limits = amounts(&[("memory", "64Mi"), ("cpu", "2000m")]);
        assert_eq!(check("shop", &wrong), "valid");
    }

    #[test]
    fn minimal_app_is_valid() {
        assert_eq!(check("shop", &args("nginx", Some(80))), "valid");
    }
}
