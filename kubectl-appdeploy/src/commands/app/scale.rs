//! `kubectl appdeploy scale`.

use std::sync::Mutex;

use crd::Kind;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::{Error, Result};
use crate::resource::selection::Selection;
use crate::resource::{autoscaler, children};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Scale to three pods
  {command} scale {name} --replicas=3

  # Stop all pods and keep everything else
  {command} scale {name} --replicas=0

  # Scale all {many} of a team and wait until they are ready
  {command} scale -l team=shop --replicas=2 --wait";

/// The flags of `scale`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// New number of pods
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=1000))]
    replicas: i32,
    /// Scale only if this is the current number of pods
    #[arg(long, value_name = "N")]
    current_replicas: Option<i32>,
    #[command(flatten)]
    flags: Flags,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    args.which.require(kind, "scale {name} --replicas=3")?;
    let cluster = kube.connect().await?.about(kind);
    let scaled = Mutex::new(Vec::new());
    let verb = Verb {
        example: "scale {name} --replicas=3",
        done: "scaled",
        subresource: Subresource::Scale,
        guarded: args.current_replicas.is_some(),
        edit: &|object| {
            scale(kind, args.replicas, args.current_replicas, object)?;
            if let (Some(name), Ok(mut scaled)) = (object["metadata"]["name"].as_str(), scaled.lock()) {
                scaled.push(name.to_owned());
            }
            Ok(())
        },
    };
    let result = change::run(&cluster, &args.which, args.flags, verb, ui).await;
    let scaled = scaled.into_inner().unwrap_or_default();
    if args.flags.change.dry_run.is_real() && !scaled.is_empty() {
        warn(&cluster, &scaled, ui).await;
    }
    result
}

/// Warns of autoscalers that will change the number of pods again. A missing right to list them is not a failure.
async fn warn(cluster: &Cluster, scaled: &[String], ui: &mut Ui) {
    let list = children::list::<HorizontalPodAutoscaler>(cluster, &cluster.namespace, &ListParams::default()).await;
    let Ok(Ok(autoscalers)) = list else { return };
    for name in scaled {
        for one in autoscalers
            .iter()
            .filter(|one| autoscaler::is_for(one, cluster.kind, name))
        {
            ui.warn(&autoscaler::warning(one, name));
        }
    }
}

fn scale(kind: Kind, replicas: i32, expected: Option<i32>, object: &mut Value) -> Result<()> {
    let now = object["spec"]["replicas"].as_i64().unwrap_or(1);
    if let Some(expected) = expected.filter(|expected| i64::from(*expected) != now) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        return Err(Error::failed(format!(
            "{} has {now} replica{}, not {expected}: nothing was changed",
            kind_info::title(kind, name),
            if now == 1 { "" } else { "s" }
        )));
    }
    object["spec"]["replicas"] = json!(replicas);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;

    #[test]
    fn scale_with_an_unexpected_current_number_is_rejected() {
        let mut app = json!({"metadata": {"name": "shop"}, "spec": {"image": "nginx"}});
        let error = scale(Kind::AppDeploy, 3, Some(2), &mut app).unwrap_err();
        insta::assert_snapshot!(error.text(&RenderOptions::default()), @"error: appdeploy.appdeploy.dev/shop has 1 replica, not 2: nothing was changed");
        scale(Kind::AppDeploy, 3, Some(1), &mut app).unwrap();
        assert_eq!(app["spec"]["replicas"], 3);
    }
}
