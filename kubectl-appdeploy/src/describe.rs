//! `kubectl appdeploy describe`: everything about an app on one page, with events.

mod events;
mod page;

use jiff::Timestamp;
use kube::api::DynamicObject;

use crate::connection::{Cluster, KubeArgs};
use crate::error::Result;
use crate::selection::{self, Selection};
use crate::ui::Ui;
use crate::{app, children, operator};

const EXAMPLES: &str = "\
Examples:
  # Everything about one app
  kubectl appdeploy describe shop

  # Everything about the apps of a team
  kubectl appdeploy describe -l team=shop";

/// The flags of `describe`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    apps: Selection,
}

/// Runs the verb.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?;
    let apps = args.apps.resolve(&cluster, "kubectl appdeploy describe shop").await?;
    if apps.is_empty() {
        ui.say(&format!("No apps found in {} namespace.", cluster.namespace));
    }
    let mut failures = Vec::new();
    let mut first = true;
    for object in apps {
        let text = match object {
            Ok(object) => describe(&cluster, &object, ui).await,
            Err(error) => Err(error),
        };
        match text {
            Ok(text) => {
                // As kubectl separates several.
                ui.print(&format!("{}{text}", if first { "" } else { "\n\n" }))?;
                first = false;
            }
            Err(error) => failures.push(error),
        }
    }
    selection::conclude(failures, ui)
}

async fn describe(cluster: &Cluster, object: &DynamicObject, ui: &Ui) -> Result<String> {
    let app = app::read(object);
    let now = Timestamp::now();
    let (namespace, name) = selection::place(object);
    let (children, events) = futures::join!(
        children::fetch(cluster, &namespace, &name),
        events::fetch(cluster, &namespace, &name)
    );
    let children = children?;
    let events = events::about(events?, &app, &children);
    let absence = if app::is_overlooked(&app, now) {
        operator::look(cluster).await.absence(Some(&namespace))
    } else {
        None
    };
    Ok(page::text(&app, &children, &events, absence, now, &ui.look()))
}
