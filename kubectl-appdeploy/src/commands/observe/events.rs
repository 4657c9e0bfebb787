//! `kubectl appdeploy events`: events of apps or pod sets and their children, in the order of time.

use clap::ValueEnum;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::runtime::watcher;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::known::ObjectCache;
use crate::cluster::watch::{self, Connection, Watched};
use crate::diagnosis::events::table::table;
use crate::diagnosis::events::{self, Type};
use crate::error::Result;
use crate::output::{formats, yaml};
use crate::resource::selection::{self, Selection};
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;

/// How to select one.
const EXAMPLE: &str = "events {name}";

const EXAMPLES: &str = "\
Examples:
  # List the events of {an} and its children
  {command} events {name}

  # List the events of all {many} of a team
  {command} events -l team=shop

  # Watch for warnings
  {command} events {name} --types=Warning -w";

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

/// The flags of `events`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// Keep watching for new events
    #[arg(short, long)]
    watch: bool,
    /// Types of events to print: Normal, Warning
    #[arg(long, value_name = "TYPES", value_delimiter = ',', hide_possible_values = true)]
    types: Vec<Type>,
    /// Print as json or yaml
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        hide_possible_values = true,
        conflicts_with = "watch"
    )]
    output: Option<Format>,
    /// Omit the header
    #[arg(long)]
    no_headers: bool,
}

/// Runs the command.
pub async fn run(args: Args, kind: crd::Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    args.which.require(kind, EXAMPLE)?;
    let cluster = kube.connect().await?.about(kind);
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for one in args.which.resolve(&cluster, EXAMPLE).await? {
        match one {
            Ok(object) => all.push(Workload::read(kind, &object)),
            Err(error) => failures.push(error),
        }
    }
    match (all.is_empty(), failures.is_empty()) {
        (true, true) => selection::nothing(&cluster, ui),
        (true, false) => {}
        (false, _) if args.watch => {
            for failure in &failures {
                ui.error(failure);
            }
            return watch(&args, &cluster, &all, ui).await;
        }
        (false, _) => print(&args, &cluster, &all, ui).await?,
    }
    selection::conclude(failures, ui)
}

/// Prints what has happened.
async fn print(args: &Args, cluster: &Cluster, all: &[Workload], ui: &mut Ui) -> Result<()> {
    let only = match args.types[..] {
        [one] => Some(one),
        _ => None,
    };
    let events = events::events(cluster, all, only).await?;
    match args.output {
        Some(format) => {
            let items = events.iter().map(events::complete).collect();
            let list = formats::list(items);
            ui.print(&if format == Format::Json {
                formats::json(&list)?
            } else {
                yaml::write(&list)?
            })
        }
        None if events.is_empty() => {
            let titles: Vec<String> = all.iter().map(Workload::title).collect();
            ui.eprintln(&format!("No events found for {}.", formats::some(&titles)));
            Ok(())
        }
        None => {
            let render = ui.render_options();
            let table = table(&events, Timestamp::now());
            let table = if args.no_headers { table.without_header() } else { table };
            ui.page(&table.wrapped(render.color, render.width))
        }
    }
}

/// Prints what has happened, then each event as it comes.
async fn watch(args: &Args, cluster: &Cluster, all: &[Workload], ui: &mut Ui) -> Result<()> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut config = watcher::Config::default();
    if let [one] = args.types[..] {
        config = config.fields(&format!("type={}", one.as_str()));
    }
    let mut changes = Watched::new(watch::follow_all(cluster, api, config), Connection::first(false));
    let mut known = ObjectCache::default();
    let mut widths = Vec::new();
    let mut is_headed = args.no_headers;
    while let Some(event) = changes.next(ui).await? {
        let news = known.take(event);
        // An expired event is not news.
        let news = news
            .into_iter()
            .filter_map(|(event, is_gone)| (!is_gone).then_some(event));
        let mut news: Vec<Event> = news
            .filter(|event| all.iter().any(|one| events::is_of(event, one)))
            .collect();
        if news.is_empty() {
            continue;
        }
        news.sort_by_key(events::order);
        let table = table(&news, Timestamp::now()).below(&mut widths);
        let table = if is_headed { table.without_header() } else { table };
        is_headed = true;
        let render = ui.render_options();
        ui.page(&table.wrapped(render.color, render.width))?;
    }
    Ok(())
}
