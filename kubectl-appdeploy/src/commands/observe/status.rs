//! `kubectl appdeploy status`: apps, pod sets or queues in a table, or one app or pod set with its children.

pub mod list;
mod notes;
mod page;
pub mod table;
mod watch;

use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;
use kube::api::DynamicObject;
use model::NextCommand;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info::{self, KindInfo};
use crate::cluster::pager::Pager;
use crate::diagnosis::probe::{self, ProbeRequest};
use crate::error::{Error, Result};
use crate::output::{duration, formats, yaml};
use crate::resource::children;
use crate::resource::custom_resource::CustomResource;
use crate::resource::parts::{ListItem, Parts};
use crate::resource::selection::{self, Listing, Selection};
use crate::resource::workload::Workload;
use crate::terminal::ui::Ui;
use notes::Notes;

const EXAMPLES: &str = "\
Examples:
  # List the {many} of the namespace, and why they are not ready
  {command} status

  # Show one {one} with {family}
  {command} status {name}

  # Watch the {many} of a team in all namespaces
  {command} status -A -l team=shop -w

  # List two {many}
  {command} status {name} {other}

  # Wait until {an} is ready, for at most five minutes
  {command} status {name} --until=ready --timeout=5m

  # Print the names of all {many}, for a script
  {command} status -o name";

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
    #[command(flatten)]
    which: Listing,
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,
    /// Watch until all are ready or deleted; exit code 3 if one will not become ready without a change
    #[arg(long, value_name = "STATE", hide_possible_values = true)]
    until: Option<watch::Until>,
    /// How long to watch, like 5m; exit code 4 on timeout
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "until")]
    timeout: Option<Duration>,
    /// Print as wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    /// Omit the header and explanations
    #[arg(long)]
    no_headers: bool,
}

/// Runs the command.
pub async fn run(mut args: Args, kind: impl Into<&'static KindInfo>, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let kind = kind.into();
    let cluster = kube.connect().await?.about(kind);
    let named = Selection::of_names(kind, &args.which.names)?;
    args.which.names.clone_from(&named.names);
    if args.watch || args.until.is_some() {
        return Box::pin(watch::run(&args, &cluster, ui)).await;
    }
    if !named.is_empty() && args.single().is_none() {
        let found = named.resolve(&cluster, "status {name}").await?;
        return several(&args, &cluster, found, ui).await;
    }
    if let Some(name) = args.single() {
        let api = cluster.objects(Some(&cluster.namespace));
        let object = cluster.call(api.get(name)).await?;
        if args.output.is_some_and(|format| format != Format::Wide) {
            return raw(&args, kind, vec![object], ui);
        }
        if kind.workload.is_none() {
            return several(&args, &cluster, vec![Ok(object)], ui).await;
        }
        let text = Box::pin(page(&args, &cluster, &object, ui)).await?;
        return ui.page(&text);
    }
    let mut pages = Pager::of(&cluster, args.which.scope(&cluster), args.which.selector.as_deref());
    match args.output {
        None | Some(Format::Wide) => table_of(&args, &cluster, pages.decoded_as(), ui).await,
        Some(Format::Name) => {
            while let Some(page) = pages.next().await? {
                raw(&args, kind, page, ui)?;
            }
            Ok(())
        }
        // One document has one end.
        Some(_) => raw(&args, kind, pages.all().await?, ui),
    }
}

/// Prints the table page by page, then the notes. Only the current page is in memory.
async fn table_of(args: &Args, cluster: &Cluster, mut pages: Pager<'_, ListItem>, ui: &mut Ui) -> Result<()> {
    let mut table = PrintedTable::new(args, cluster);
    while let Some(page) = pages.next().await? {
        table.print(&page, ui)?;
    }
    if table.is_empty {
        nothing(args, cluster, ui);
    }
    table.explain(ui).await
}

/// Prints those that were found of several names in one table, and reports those that were not.
async fn several(args: &Args, cluster: &Cluster, found: Vec<Result<DynamicObject>>, ui: &mut Ui) -> Result<()> {
    let (mut objects, mut failures) = (Vec::new(), Vec::new());
    for one in found {
        match one {
            Ok(object) => objects.push(object),
            Err(error) => failures.push(error),
        }
    }
    if args.output.is_some_and(|format| format != Format::Wide) {
        raw(args, cluster.kind_info(), objects, ui)?;
    } else {
        let mut table = PrintedTable::new(args, cluster);
        table.print(&objects, ui)?;
        table.explain(ui).await?;
    }
    selection::conclude(failures, ui)
}

/// A table of which parts are printed. It keeps what the next part and the explanations need, not the objects.
struct PrintedTable<'a> {
    args: &'a Args,
    cluster: &'a Cluster,
    now: Timestamp,
    widths: Vec<usize>,
    is_empty: bool,
    notes: Notes,
    question: ProbeRequest,
}

impl<'a> PrintedTable<'a> {
    fn new(args: &'a Args, cluster: &'a Cluster) -> Self {
        Self {
            args,
            cluster,
            now: Timestamp::now(),
            widths: Vec::new(),
            is_empty: true,
            notes: Notes::new(args.view()),
            question: ProbeRequest::default(),
        }
    }

    /// Prints rows below the rows so far.
    fn print(&mut self, objects: &[impl Parts], ui: &mut Ui) -> Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let kind = self.cluster.kind_info();
        let rows: Vec<CustomResource> = objects.iter().map(|one| CustomResource::read(kind, one)).collect();
        let view = self.args.view().continued(!self.is_empty);
        self.is_empty = false;
        ui.page(&list::rows(
            &rows,
            view,
            self.now,
            &ui.render_options(),
            &mut self.widths,
        ))?;
        self.notes.add(&rows);
        let question = ProbeRequest::about_all(&rows, self.now);
        self.question = std::mem::take(&mut self.question).or(question);
        Ok(())
    }

    /// Prints below the rows why some are not ready.
    async fn explain(self, ui: &mut Ui) -> Result<()> {
        if self.args.no_headers {
            return Ok(());
        }
        let absence = probe::fetch(self.cluster, &self.question).await.absence;
        let notes = self.notes.text(absence, &ui.render_options());
        if notes.is_empty() { Ok(()) } else { ui.page(&notes) }
    }
}

impl Args {
    /// Returns the name if there is only one. It is shown with its children.
    fn single(&self) -> Option<&str> {
        match &self.which.names[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    fn view(&self) -> table::View {
        table::View {
            namespaces: self.which.all_namespaces,
            wide: self.output == Some(Format::Wide),
            headers: !self.no_headers,
        }
    }
}

/// Reports on stderr that nothing was found, and the command to create something.
fn nothing(args: &Args, cluster: &Cluster, ui: &mut Ui) {
    let selected = args
        .which
        .selector
        .as_ref()
        .map_or_else(String::new, |selector| format!(" with {selector}"));
    let place = args
        .which
        .scope(cluster)
        .map_or_else(String::new, |namespace| format!(" in {namespace} namespace"));
    let words = cluster.kind_info();
    ui.eprintln(&format!("No {}{selected} found{place}.", words.many));
    if args.which.selector.is_none() && !args.no_headers {
        // Only the commands of apps and pod sets prompt for what is missing.
        let create = if words.workload.is_some() {
            "create"
        } else {
            "create --help"
        };
        let create = NextCommand::from(words.command).and(create).and(cluster.flag());
        ui.next(if args.which.all_namespaces {
            create
        } else {
            create.remark("-A lists all namespaces")
        });
    }
}

/// Returns the page of an app or a pod set.
async fn page(args: &Args, cluster: &Cluster, object: &DynamicObject, ui: &Ui) -> Result<String> {
    let workload = Workload::read(cluster.kind, object);
    let now = Timestamp::now();
    let children = children::fetch(cluster, &workload).await?;
    let asked = probe::fetch(cluster, &ProbeRequest::about(&workload, &children, now)).await;
    let page = page::Page {
        workload: &workload,
        children: &children,
        asked: &asked,
        wide: args.output == Some(Format::Wide),
        now,
    };
    Ok(page::text(&page, &ui.render_options()))
}

fn raw(args: &Args, kind: &'static KindInfo, items: Vec<DynamicObject>, ui: &mut Ui) -> Result<()> {
    let one = args.single().is_some();
    let mut values: Vec<_> = items.into_iter().map(|object| presentable(kind, object)).collect();
    let value = match (one, values.pop()) {
        (true, Some(value)) => value,
        (_, last) => {
            values.extend(last);
            formats::list(values.clone())
        }
    };
    match args.output {
        Some(Format::Json) => ui.print(&formats::json(&value)?),
        Some(Format::Yaml) => ui.print(&yaml::write(&value)?),
        _ => {
            let all = if one { vec![value] } else { values };
            all.iter().try_for_each(|value| {
                let name = value["metadata"]["name"]
                    .as_str()
                    .ok_or_else(|| Error::failed("an object without a name"))?;
                ui.print(&kind_info::title(kind, name))
            })
        }
    }
}

fn presentable(kind: &'static KindInfo, object: DynamicObject) -> serde_json::Value {
    formats::presentable(&kind_info::complete(kind, object))
}
