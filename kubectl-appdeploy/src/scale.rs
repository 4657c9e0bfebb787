//! `kubectl appdeploy scale`.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::connection::{Cluster, KubeArgs, MANAGER};
use crate::error::{Error, Result};
use crate::output::{self, ChangeArgs, Done, DryRun};
use crate::selection::{self, Selection};
use crate::ui::Ui;
use crate::wait::{self, Deadline};
use crate::{app, duration};

const EXAMPLES: &str = "\
Examples:
  # Three pods
  kubectl appdeploy scale shop --replicas=3

  # Stop it and keep everything else
  kubectl appdeploy scale shop --replicas=0

  # Scale all apps of a team and wait until they are ready
  kubectl appdeploy scale -l team=shop --replicas=2 --wait";

/// The flags of `scale`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    apps: Selection,
    /// How many pods each app gets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=1000))]
    replicas: i32,
    /// Scale only an app that has this many now
    #[arg(long, value_name = "N")]
    current_replicas: Option<i32>,
    /// Return when the apps are ready
    #[arg(long)]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the verb.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?;
    let apps = args
        .apps
        .resolve(&cluster, "kubectl appdeploy scale shop --replicas=3")
        .await?;
    if apps.is_empty() {
        ui.say(&format!("No apps found in {} namespace.", cluster.namespace));
    }
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    for object in apps {
        match scale(&args, &cluster, object).await {
            Ok(scaled) => done.push(scaled),
            Err(error) => failures.push(error),
        }
    }
    args.change.tell_all(ui, &done)?;
    if args.wait && args.change.dry_run.is_real() {
        let deadline = Deadline::after(args.timeout);
        for one in &done {
            let name = one.object["metadata"]["name"].as_str().unwrap_or_default();
            match wait::ready(&cluster, &cluster.namespace, name, deadline, ui).await {
                Ok(app) => ui.say(&format!("{} is ready ({})", one.title, app::ready(&app))),
                Err(error) => failures.push(error),
            }
        }
    }
    selection::conclude(failures, ui)
}

async fn scale(args: &Args, cluster: &Cluster, object: Result<DynamicObject>) -> Result<Done> {
    let mut object = object?;
    let name = object.name_any();
    let now = app::read(&object).spec.replicas;
    if args.current_replicas.is_some_and(|expected| expected != now) {
        let expected = args.current_replicas.unwrap_or_default();
        return Err(Error::failed(format!(
            "{} has {now} replica{}, not {expected}: nothing was changed",
            app::title(&name),
            if now == 1 { "" } else { "s" }
        )));
    }
    if args.change.dry_run == DryRun::Client {
        object.data["spec"]["replicas"] = args.replicas.into();
    } else {
        let mut patch = json!({"spec": {"replicas": args.replicas}});
        if args.current_replicas.is_some() {
            // What was compared must be what is changed.
            patch["metadata"] = json!({"resourceVersion": object.resource_version()});
        }
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            dry_run: args.change.dry_run == DryRun::Server,
            ..PatchParams::default()
        };
        let api = app::api(&cluster.client, Some(&cluster.namespace));
        // The scale subresource is what an autoscaler and `kubectl scale` use, and the least right that suffices.
        cluster
            .call(api.patch_scale(&name, &params, &Patch::Merge(&patch)))
            .await?;
        object.data["spec"]["replicas"] = args.replicas.into();
        if args.change.dry_run.is_real() && args.change.output.is_some() {
            object = cluster.call(api.get(&name)).await?;
        }
    }
    object
        .types
        .get_or_insert_with(kube::core::TypeMeta::resource::<crd::AppDeploy>);
    Ok(Done {
        title: app::title(&name),
        word: "scaled",
        object: output::presentable(&object),
    })
}
