//! `kubectl appdeploy describe`: prints details of apps, pod sets or queues, with events.

mod page;
mod queue;
mod spec;

use jiff::Timestamp;
use kube::api::DynamicObject;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info::KindInfo;
use crate::diagnosis::events;
use crate::diagnosis::probe::{self, ProbeRequest};
use crate::error::Result;
use crate::resource::children;
use crate::resource::custom_resource::CustomResource;
use crate::resource::selection::{self, Selection};
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Show the details of one {one}
  {command} describe {name}

  # Show the details of the {many} of a team
  {command} describe -l team=shop";

/// The flags of `describe`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
}

/// Runs the command.
pub async fn run(args: Args, kind: impl Into<&'static KindInfo>, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let kind = kind.into();
    args.which.require(kind, "describe {name}")?;
    let cluster = kube.connect().await?.about(kind);
    let found = args.which.resolve(&cluster, "describe {name}").await?;
    if found.is_empty() {
        selection::nothing(&cluster, ui);
    }
    let mut failures = Vec::new();
    let mut first = true;
    for object in found {
        let text = match object {
            Ok(object) => describe(&cluster, &object, ui).await,
            Err(error) => Err(error),
        };
        match text {
            Ok(text) => {
                // As kubectl separates several.
                ui.page(&format!("{}{text}", if first { "" } else { "\n\n" }))?;
                first = false;
            }
            Err(error) => failures.push(error),
        }
    }
    selection::conclude(failures, ui)
}

async fn describe(cluster: &Cluster, object: &DynamicObject, ui: &Ui) -> Result<String> {
    let one = CustomResource::read(cluster.kind_info(), object);
    match &one {
        CustomResource::Workload(workload) => of_workload(cluster, workload, ui).await,
        CustomResource::Queue(queue) => {
            let now = Timestamp::now();
            let events = events::of_object(cluster, cluster.kind_info().names.kind, &object.metadata).await?;
            let question = ProbeRequest::about_all(std::slice::from_ref(&one), now);
            let absence = probe::fetch(cluster, &question).await.absence;
            Ok(queue::text(queue, &events, absence, now, &ui.render_options()))
        }
    }
}

async fn of_workload(cluster: &Cluster, workload: &Workload, ui: &Ui) -> Result<String> {
    let now = Timestamp::now();
    let (children, events) = futures::join!(children::fetch(cluster, workload), events::for_page(cluster, workload));
    let children = children?;
    let events = events?;
    let asked = probe::fetch(cluster, &ProbeRequest::about(workload, &children, now)).await;
    let page = page::Subject {
        workload,
        children: &children,
        events: &events,
        asked: &asked,
        now,
    };
    Ok(page::text(&page, &ui.render_options()))
}
