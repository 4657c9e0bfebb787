//! The flags that describe a pod set, and the pod set they describe.

use crd::{Kind, PodSet, PodSetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use serde_json::Value;

use super::pod::PodArgs;
use super::{Spec, ask};
use crate::error::{Error, Result};
use crate::resource::strip_defaults::plain;
use crate::resource::validation;

/// The flags for the fields of a pod set.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Pod set")]
pub struct PodSetArgs {
    #[command(flatten)]
    pod: PodArgs,
    /// Number of pods; default: 1
    #[arg(long, value_name = "N")]
    replicas: Option<i32>,
    /// Seconds that a new pod must be ready before it counts as available; default: 0
    #[arg(long, value_name = "N")]
    min_ready_seconds: Option<i32>,
    /// Maximum number of unavailable pods during an update, like 2 or 25%; default: 1
    #[arg(long, value_name = "N|P%", value_parser = share)]
    max_unavailable: Option<IntOrString>,
}

/// Reads a number or a percentage; which of them are valid is a rule of the schema.
#[expect(clippy::unnecessary_wraps, reason = "what clap calls")]
fn share(text: &str) -> std::result::Result<IntOrString, String> {
    Ok(text
        .parse()
        .map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int))
}

impl PodSetArgs {
    /// Whether the flags set any field of the template.
    fn has_template(&self) -> Result<bool> {
        let given = self.pod.given();
        if self.pod.image.is_some() || given.is_empty() {
            return Ok(self.pod.image.is_some());
        }
        let given = given.join(", ");
        Err(Error::usage(format!("an image is needed with {given}: --image=NAME"))
            .why("the default pods run a sleeping busybox, and can't be changed by other flags")
            .next("kubectl appdeploy podset create --help"))
    }
}

impl Spec for PodSetArgs {
    const KIND: Kind = Kind::PodSet;
    const NEEDS_IMAGE: bool = false;
    const EXAMPLES: &'static str = "\
Examples:
  # Create three pods that sleep, to try things out
  kubectl appdeploy podset create workers --replicas=3

  # Run your own image, and wait until all pods are ready
  kubectl appdeploy podset create workers --image=ghcr.io/acme/worker:1.4 \\
    --replicas=3 --wait

  # Update two pods at a time; a pod counts as available after 10 seconds
  kubectl appdeploy podset create workers --image=ghcr.io/acme/worker:1.4 \\
    --replicas=10 --max-unavailable=2 --min-ready-seconds=10

  # Arguments follow after --; with --command, the command and its arguments
  kubectl appdeploy podset create workers --image=busybox --command -- sleep 1h

  # Write the manifest to a file instead of creating the pod set
  kubectl appdeploy podset create workers --image=nginx --port=80 \\
    --dry-run=client -o yaml > set.yaml";

    fn pod(&mut self) -> &mut PodArgs {
        &mut self.pod
    }

    fn object(&self, metadata: ObjectMeta) -> Result<Value> {
        let has_template = self.has_template()?;
        let mut set = PodSet {
            metadata,
            spec: PodSetSpec {
                replicas: self.replicas.unwrap_or(1),
                min_ready_seconds: self.min_ready_seconds.unwrap_or(0),
                max_unavailable: self.max_unavailable.clone(),
                ..PodSetSpec::default()
            },
            status: None,
        };
        if has_template {
            set.spec.template = Some(self.pod.fields()?);
        }
        validation::pod_set(&set)?;
        plain(Self::KIND, &set)
    }

    fn ask(&mut self, name: &str, _: &str) -> Result<()> {
        self.pod.image = ask::image::<Self>(name, "Image (empty: a busybox that sleeps)")?;
        self.replicas = Some(ask::replicas()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::app::create::Args;
    use crate::output::yaml;
    use crate::terminal::ui::RenderOptions;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args<PodSetArgs>,
    }

    fn created(line: &str) -> String {
        let args = Line::parse_from(std::iter::once("create").chain(line.split(' '))).args;
        let made = args.object("workers", None).and_then(|object| yaml::write(&object));
        made.unwrap_or_else(|error| error.text(&RenderOptions::default()))
    }

    #[test]
    fn without_an_image_no_template_is_sent() {
        insta::assert_snapshot!(created("workers --replicas=3 -l team=shop"), @r"
        apiVersion: appdeploy.dev/v1alpha1
        kind: PodSet
        metadata:
          labels:
            team: shop
          name: workers
        spec:
          replicas: 3
        ");
    }

    #[test]
    fn flags_of_pods_create_a_template() {
        insta::assert_snapshot!(created("workers --image=busybox --max-unavailable=25% --min-ready-seconds=10 --env=A=on --env-from=secret/db --queue=orders --command -- sleep 1h"), @r#"
        apiVersion: appdeploy.dev/v1alpha1
        kind: PodSet
        metadata:
          name: workers
        spec:
          maxUnavailable: 25%
          minReadySeconds: 10
          replicas: 1
          template:
            command:
            - sleep
            - 1h
            env:
            - name: A
              value: "on"
            envFrom:
            - secretRef:
                name: db
            image: busybox
            queues:
            - name: orders
        "#);
    }

    #[test]
    fn invalid_flags_are_rejected_with_what_to_write_instead() {
        let lines = [
            "workers --port=80 --env=A=b",
            "workers -- sleep",
            "workers --max-unavailable=0",
            "workers --max-unavailable=half --replicas=-1",
            "workers --min-ready-seconds=4000",
            "workers --image=nginx --health-path=/healthz",
            "workers --image=Nginx --max-unavailable=1",
        ];
        insta::assert_snapshot!(lines.map(created).join("\n"), @r"
        error: an image is needed with --port, --env: --image=NAME
          why:  the default pods run a sleeping busybox, and can't be changed by other flags
          next: kubectl appdeploy podset create --help
        error: an image is needed with arguments after --: --image=NAME
          why:  the default pods run a sleeping busybox, and can't be changed by other flags
          next: kubectl appdeploy podset create --help
        error: podset.appdeploy.dev/workers is invalid: nothing was changed
          why:  spec.maxUnavailable: must be a number from 1, or a percentage from 1% to 100%, like 2 or 25%
        error: podset.appdeploy.dev/workers is invalid: nothing was changed
          why:  spec.replicas: must be a number from 0 to 1000
          why:  spec.maxUnavailable: must be a number from 1, or a percentage from 1% to 100%, like 2 or 25%
        error: podset.appdeploy.dev/workers is invalid: nothing was changed
          why:  spec.minReadySeconds: must be a number from 0 to 3600
        error: podset.appdeploy.dev/workers is invalid: nothing was changed
          why:  spec.template: a health check needs a port to ask: set spec.template.port or spec.template.healthCheck.port
        error: podset.appdeploy.dev/workers is invalid: nothing was changed
          why:  spec.template.image: an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like nginx or ghcr.io/acme/shop:1.4
        ");
    }
}
