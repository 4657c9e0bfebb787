//! `kubectl appdeploy scale`.

use std::time::Duration;

use crd::Kind;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::connection::{Cluster, KubeArgs, MANAGER};
use crate::error::{Error, Result};
use crate::output::{self, ChangeArgs, Done, DryRun};
use crate::selection::{self, Selection};
use crate::ui::Ui;
use crate::wait::{self, Deadline};
use crate::workload::Workload;
use crate::{duration, workload};

const EXAMPLES: &str = "\
Examples:
  # Three pods
  {command} scale {name} --replicas=3

  # Stop it and keep everything else
  {command} scale {name} --replicas=0

  # Scale all {many} of a team and wait until they are ready
  {command} scale -l team=shop --replicas=2 --wait";

/// The flags of `scale`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// How many pods each {one} gets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=1000))]
    replicas: i32,
    /// Scale only {an} that has this many now
    #[arg(long, value_name = "N")]
    current_replicas: Option<i32>,
    /// Return when the {many} are ready
    #[arg(long)]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the verb.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(kind);
    let found = args.which.resolve(&cluster, "scale {name} --replicas=3").await?;
    if found.is_empty() {
        selection::nothing(&cluster, ui);
    }
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    for object in found {
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
                Ok(workload) => ui.say(&format!("{} is ready ({})", one.title, workload.ready())),
                Err(error) => failures.push(error),
            }
        }
    }
    selection::conclude(failures, ui)
}

async fn scale(args: &Args, cluster: &Cluster, object: Result<DynamicObject>) -> Result<Done> {
    let mut object = object?;
    let name = object.name_any();
    let now = Workload::read(cluster.kind, &object).wanted();
    if args.current_replicas.is_some_and(|expected| expected != now) {
        let expected = args.current_replicas.unwrap_or_default();
        return Err(Error::failed(format!(
            "{} has {now} replica{}, not {expected}: nothing was changed",
            cluster.title(&name),
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
        let api = cluster.objects(Some(&cluster.namespace));
        // The scale subresource is what an autoscaler and `kubectl scale` use, and the least right that suffices.
        cluster
            .call(api.patch_scale(&name, &params, &Patch::Merge(&patch)))
            .await?;
        object.data["spec"]["replicas"] = args.replicas.into();
        if args.change.dry_run.is_real() && args.change.output.is_some() {
            object = workload::complete(cluster.kind, cluster.call(api.get(&name)).await?);
        }
    }
    Ok(Done {
        title: cluster.title(&name),
        word: "scaled",
        object: output::presentable(&object),
    })
}
