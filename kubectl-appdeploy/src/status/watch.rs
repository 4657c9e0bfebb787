//! `status -w`: redrawn in place on a terminal, a line for each change in a pipe.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::Duration;

use crd::Kind;
use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::{Args, Format, nothing, presentable, table};
use crate::connection::Cluster;
use crate::error::{Error, Result};
use crate::ui::{Ui, clean};
use crate::wait::{self, Known};
use crate::workload::{self, Workload};
use crate::yaml;

/// Changes come in bursts; nobody reads faster than this.
const FLICKER: Duration = Duration::from_millis(200);
/// Ages grow also while nothing changes.
const TICK: Duration = Duration::from_secs(10);

/// What wakes the page.
enum Wake {
    Change(Box<Event<DynamicObject>>),
    Pod,
    Clock,
}

/// Runs until somebody presses Ctrl-C.
pub async fn run(args: &Args, cluster: &Cluster, ui: &mut Ui) -> Result<()> {
    let api = cluster.objects(args.scope(cluster));
    let mut config = watcher::Config::default();
    if let Some(selector) = &args.selector {
        config = config.labels(selector);
    }
    if let Some(name) = &args.name {
        // A name that does not exist is an error here as without -w.
        cluster.call(api.get(name)).await?;
        config = config.fields(&format!("metadata.name={name}"));
    }
    let changes = wait::watch(cluster, api, config).map(|event| event.map(|event| Wake::Change(Box::new(event))));
    if ui.screen() && !matches!(args.output, Some(Format::Json | Format::Yaml | Format::Name)) {
        let clock = stream::unfold((), |()| async {
            tokio::time::sleep(TICK).await;
            Some((Ok(Wake::Clock), ()))
        });
        let wakes = stream::select(stream::select(changes, pods(args, cluster)), clock);
        return screen(args, cluster, wakes, ui).await;
    }
    lines(args, cluster, changes, ui).await
}

/// The pods move before the status of their owner does.
fn pods(args: &Args, cluster: &Cluster) -> impl Stream<Item = Result<Wake>> + use<> {
    let watched = args.name.as_ref().map(|name| {
        let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let config = watcher::Config::default().labels(&cluster.kind.pod_selector(name));
        // Whoever may not watch pods still sees their owner.
        wait::watch(cluster, api, config).filter_map(|event| std::future::ready(event.ok().map(|_| Ok(Wake::Pod))))
    });
    stream::iter(watched).flatten()
}

async fn screen(args: &Args, cluster: &Cluster, wakes: impl Stream<Item = Result<Wake>>, ui: &mut Ui) -> Result<()> {
    let mut wakes = pin!(wakes);
    let mut known = Known::default();
    let mut drawn = 0;
    while let Some(wake) = wakes.next().await {
        let mut pending = vec![wake?];
        // Whatever comes within a blink is drawn once.
        while let Ok(Some(more)) = tokio::time::timeout(FLICKER, wakes.next()).await {
            pending.push(more?);
            if pending.len() > 1000 {
                break;
            }
        }
        for wake in pending {
            if let Wake::Change(event) = wake {
                known.take(*event);
            }
        }
        if !known.is_complete() {
            continue;
        }
        let all: Vec<Workload> = known.all().map(|object| Workload::read(cluster.kind, object)).collect();
        let text = match (&args.name, known.all().next()) {
            (Some(name), None) => format!("{} is gone", cluster.title(name)),
            (Some(_), Some(object)) => super::page(args, cluster, object, ui).await?,
            (None, None) => format!("No {} found.", cluster.words().many),
            (None, Some(_)) => super::list(args, cluster, &all, ui).await,
        };
        drawn = redraw(&text, drawn, ui)?;
        if args.name.is_some() && known.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

/// Draws over what was drawn before, and returns how many lines that takes away next time.
fn redraw(text: &str, before: usize, ui: &mut Ui) -> Result<usize> {
    let height = Ui::height().max(4) - 1;
    let width = ui.width().unwrap_or(80);
    let mut lines: Vec<&str> = Vec::new();
    let mut rows = 0;
    let all = text.lines().count();
    for line in text.lines() {
        let needed = line.chars().count().div_ceil(width).max(1);
        if rows + needed >= height {
            break;
        }
        rows += needed;
        lines.push(line);
    }
    let mut page = lines.join("\n");
    if lines.len() < all {
        let _ = write!(page, "\n…and {} more lines", all - lines.len());
        rows += 1;
    }
    let up = if before > 0 {
        format!("\x1b[{before}F")
    } else {
        String::new()
    };
    ui.page(&format!("{up}\x1b[J{page}"))?;
    Ok(rows)
}

async fn lines(args: &Args, cluster: &Cluster, wakes: impl Stream<Item = Result<Wake>>, ui: &mut Ui) -> Result<()> {
    let mut wakes = pin!(wakes);
    let mut known = Known::default();
    let mut headed = args.no_headers;
    let mut widths = Vec::new();
    while let Some(wake) = wakes.next().await {
        let Wake::Change(event) = wake? else { continue };
        let done = matches!(*event, Event::InitDone);
        let changes = known.take(*event);
        match args.output {
            None | Some(Format::Wide) if !changes.is_empty() => {
                ui.page(&rows(args, cluster.kind, &changes, !headed, &mut widths))?;
                headed = true;
            }
            None | Some(Format::Wide) => {}
            Some(format) => {
                for (object, _) in changes {
                    ui.print(&one(format, cluster.kind, object)?)?;
                }
            }
        }
        if done && known.is_empty() {
            nothing(args, cluster, ui);
        }
    }
    Ok(())
}

/// Returns a line for each that changed, with why it is not ready.
fn rows(args: &Args, kind: Kind, changes: &[(DynamicObject, bool)], header: bool, widths: &mut Vec<usize>) -> String {
    let all: Vec<Workload> = changes.iter().map(|(object, _)| Workload::read(kind, object)).collect();
    let table = table::table(&all.iter().collect::<Vec<_>>(), args.view(), Timestamp::now()).below(widths);
    let table = if header { table } else { table.without_header() };
    let text = table.text(false);
    let notes = all
        .iter()
        .zip(changes)
        .map(|(one, (_, deleted))| match one.explanation() {
            _ if *deleted => Some("deleted".to_owned()),
            Some((why, _)) => Some(clean(&why)),
            None => None,
        });
    let lines = text
        .lines()
        .zip(std::iter::repeat_n(None, usize::from(header)).chain(notes));
    let lines = lines.map(|(line, note)| note.map_or_else(|| line.to_owned(), |note| format!("{line}   {note}")));
    lines.collect::<Vec<_>>().join("\n")
}

/// One object for each change: a line of JSON, or a document of YAML.
fn one(format: Format, kind: Kind, object: DynamicObject) -> Result<String> {
    let name = object.name_any();
    let value: Value = presentable(kind, object);
    match format {
        Format::Json => {
            serde_json::to_string(&value).map_err(|source| Error::failed(format!("cannot write JSON: {source}")))
        }
        Format::Yaml => Ok(format!("---\n{}", yaml::write(&value)?)),
        _ => Ok(workload::title(kind, &name)),
    }
}
