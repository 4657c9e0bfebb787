//! `kubectl appdeploy status`: apps in a table, or one app with all that belongs to it.

pub mod list;
mod page;
mod watch;

use clap::ValueEnum;
use crd::AppDeploy;
use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};

use crate::connection::{Cluster, KubeArgs};
use crate::error::{Error, Result};
use crate::operator;
use crate::output;
use crate::ui::Ui;
use crate::{app, children, yaml};

const EXAMPLES: &str = "\
Examples:
  # The apps of the namespace, and why one is not ready
  kubectl appdeploy status

  # One app with its Ingress, Service, Deployment and pods
  kubectl appdeploy status shop

  # Follow the apps of a team in all namespaces
  kubectl appdeploy status -A -l team=shop -w

  # The names of all apps, for a script
  kubectl appdeploy status -o name";

/// How `status` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Wide,
    Json,
    Yaml,
    Name,
}

/// The flags of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of one app; without it, all apps of the namespace
    name: Option<String>,
    /// The apps of all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    /// The apps with these labels, like team=shop,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    selector: Option<String>,
    /// Keep watching, and show every change
    #[arg(short, long)]
    watch: bool,
    /// Print wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    /// Print the table without header and explanations
    #[arg(long)]
    no_headers: bool,
}

/// Runs the verb.
pub async fn run(mut args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?;
    if let Some(name) = args.name.take() {
        args.name = Some(name.rsplit('/').next().unwrap_or(&name).to_owned());
    }
    if args.watch {
        return watch::run(&args, &cluster, ui).await;
    }
    if let Some(name) = &args.name {
        let api = app::api(&cluster.client, Some(&cluster.namespace));
        let object = cluster.call(api.get(name)).await?;
        if args.output.is_some_and(|format| format != Format::Wide) {
            return raw(&args, vec![object], ui);
        }
        let text = page(&args, &cluster, &object, ui).await?;
        return ui.print(&text);
    }
    let params = ListParams {
        label_selector: args.selector.clone(),
        ..ListParams::default()
    };
    let api = app::api(&cluster.client, args.scope(&cluster));
    let items = cluster.call(api.list(&params)).await?.items;
    if args.output.is_some_and(|format| format != Format::Wide) {
        return raw(&args, items, ui);
    }
    let apps: Vec<AppDeploy> = items.iter().map(app::read).collect();
    if apps.is_empty() {
        nothing(&args, &cluster, ui);
        return Ok(());
    }
    let text = list(&args, &cluster, &apps, ui).await;
    ui.print(&text)
}

impl Args {
    fn scope<'a>(&self, cluster: &'a Cluster) -> Option<&'a str> {
        (!self.all_namespaces).then_some(cluster.namespace.as_str())
    }

    fn view(&self) -> list::View {
        list::View {
            namespaces: self.all_namespaces,
            wide: self.output == Some(Format::Wide),
            headers: !self.no_headers,
        }
    }
}

/// Says on stderr that there is nothing, and whether there could be.
fn nothing(args: &Args, cluster: &Cluster, ui: &mut Ui) {
    let selected = args
        .selector
        .as_ref()
        .map_or_else(String::new, |selector| format!(" with {selector}"));
    let place = args
        .scope(cluster)
        .map_or_else(String::new, |namespace| format!(" in {namespace} namespace"));
    ui.say(&format!("No apps{selected} found{place}."));
    if args.selector.is_none() && !args.no_headers {
        let elsewhere = if args.all_namespaces {
            ""
        } else {
            "  (-A looks into all namespaces)"
        };
        ui.next(&format!("kubectl appdeploy create{}{elsewhere}", cluster.flag()));
    }
}

/// Returns the page of one app.
async fn page(args: &Args, cluster: &Cluster, object: &DynamicObject, ui: &Ui) -> Result<String> {
    let app = app::read(object);
    let now = Timestamp::now();
    let namespace = app.metadata.namespace.clone().unwrap_or_default();
    let children = children::fetch(cluster, &namespace, app.metadata.name.as_deref().unwrap_or_default()).await?;
    let absence = absence(cluster, &[&app], now).await;
    Ok(page::text(
        &app,
        args.output == Some(Format::Wide),
        &children,
        absence,
        now,
        &ui.look(),
    ))
}

/// Returns the table of several apps with an explanation for each that is not ready.
async fn list(args: &Args, cluster: &Cluster, apps: &[AppDeploy], ui: &Ui) -> String {
    let now = Timestamp::now();
    let all: Vec<&AppDeploy> = apps.iter().collect();
    let absence = if args.no_headers {
        None
    } else {
        absence(cluster, &all, now).await
    };
    list::text(apps, args.view(), absence, now, &ui.look())
}

/// Asks for the operator only when an app looks as if there were none: the usual page costs one request less.
async fn absence(cluster: &Cluster, apps: &[&AppDeploy], now: Timestamp) -> Option<(String, String)> {
    let lost = apps.iter().find(|app| app::is_overlooked(app, now))?;
    operator::look(cluster)
        .await
        .absence(lost.metadata.namespace.as_deref())
}

fn raw(args: &Args, items: Vec<DynamicObject>, ui: &mut Ui) -> Result<()> {
    let one = args.name.is_some();
    let mut values: Vec<_> = items.into_iter().map(complete).collect();
    let value = match (one, values.pop()) {
        (true, Some(value)) => value,
        (_, last) => {
            values.extend(last);
            output::list(values.clone())
        }
    };
    match args.output {
        Some(Format::Json) => ui.print(&output::json(&value)?),
        Some(Format::Yaml) => ui.print(&yaml::write(&value)?),
        _ => {
            let all = if one { vec![value] } else { values };
            all.iter().try_for_each(|value| {
                let name = value["metadata"]["name"]
                    .as_str()
                    .ok_or_else(|| Error::failed("an app without a name"))?;
                ui.print(&app::title(name))
            })
        }
    }
}

/// A list leaves out kind and version of its items; a person who copies one needs them.
fn complete(mut object: DynamicObject) -> serde_json::Value {
    object
        .types
        .get_or_insert_with(kube::core::TypeMeta::resource::<AppDeploy>);
    output::presentable(&object)
}
