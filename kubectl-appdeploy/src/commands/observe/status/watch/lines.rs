//! A watch in a pipe: prints a line or an object for each visible change.

use std::collections::HashMap;

use jiff::{Timestamp, Unit};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;

use super::ended;
use crate::cluster::connection::Cluster;
use crate::cluster::kind_info::{self, KindInfo};
use crate::cluster::known::ObjectCache;
use crate::cluster::watch::Watched;
use crate::commands::observe::status::{Args, Format, nothing, presentable, table};
use crate::error::{Error, Result};
use crate::output::yaml;
use crate::resource::custom_resource::CustomResource;
use crate::resource::queue;
use crate::resource::workload::Workload;
use crate::terminal::ui::{Ui, clean};

/// Prints lines until the watch ends. `all` is the last known state.
pub async fn run(
    args: &Args,
    cluster: &Cluster,
    mut changes: Watched<Event<DynamicObject>>,
    all: &mut Vec<CustomResource>,
    ui: &mut Ui,
) -> Result<()> {
    let mut known = ObjectCache::default();
    let mut lines = Lines::new(args, cluster.kind_info());
    while let Some(event) = changes.next(ui).await? {
        let is_list = matches!(event, Event::InitDone);
        let news = known.take(event);
        match args.output {
            None | Some(Format::Wide) => {
                if let Some(text) = lines.text(&news, Timestamp::now()) {
                    ui.page(&text)?;
                }
            }
            Some(format) => {
                for (object, _) in news {
                    ui.print(&one(format, cluster.kind_info(), object)?)?;
                }
            }
        }
        if !known.is_complete() {
            continue;
        }
        *all = known
            .all()
            .map(|object| CustomResource::read(cluster.kind_info(), object))
            .collect();
        if let Some(end) = ended(args, cluster, all) {
            return end;
        }
        if is_list && known.is_empty() {
            nothing(args, cluster, ui);
        }
    }
    Ok(())
}

/// The lines of a table that grows.
struct Lines<'a> {
    args: &'a Args,
    kind: &'static KindInfo,
    widths: Vec<usize>,
    is_headed: bool,
    /// The last line of each object: it changes more often than its line.
    said: HashMap<(String, String), String>,
}

impl<'a> Lines<'a> {
    fn new(args: &'a Args, kind: &'static KindInfo) -> Self {
        Self {
            args,
            kind,
            widths: Vec::new(),
            is_headed: args.no_headers,
            said: HashMap::new(),
        }
    }

    /// Returns a line for each that looks different from before, with the time and with why it is not ready.
    fn text(&mut self, news: &[(DynamicObject, bool)], now: Timestamp) -> Option<String> {
        let mut shown = Vec::new();
        for (object, is_deleted) in news {
            let one = CustomResource::read(self.kind, object);
            let note = if *is_deleted {
                Some("deleted".to_owned())
            } else {
                one.summary().explanation().map(|(why, _)| clean(&why))
            };
            let place = (one.namespace().to_owned(), one.name().to_owned());
            let looks = format!(
                "{} {} {:?} {note:?}",
                numbers(&one),
                one.summary().reason(),
                one.address()
            );
            if self.said.insert(place, looks.clone()).as_ref() != Some(&looks) {
                shown.push((one, note));
            }
        }
        if shown.is_empty() {
            return None;
        }
        let rows: Vec<&CustomResource> = shown.iter().map(|(one, _)| one).collect();
        let table = table::table(&rows, self.args.view(), now).below(&mut self.widths);
        let table = if self.is_headed { table.without_header() } else { table };
        let text = table.text(false);
        let time = now.round(Unit::Second).unwrap_or(now).to_string();
        let heads = (!self.is_headed).then(|| ("TIME".to_owned(), None));
        let notes = heads
            .into_iter()
            .chain(shown.iter().map(|(_, note)| (time.clone(), note.as_ref())));
        let lines = text.lines().zip(notes).map(|(line, (time, note))| {
            let line = format!("{time:20}   {line}");
            note.map_or_else(|| line.clone(), |note| format!("{line}   {note}"))
        });
        self.is_headed = true;
        Some(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// Returns the numbers that change while an object becomes ready.
fn numbers(one: &CustomResource) -> String {
    match one {
        CustomResource::Workload(workload @ Workload::App(_)) => workload.ready(),
        CustomResource::Workload(workload @ Workload::PodSet(_)) => {
            format!("{} {}", workload.ready(), workload.state().updated)
        }
        CustomResource::Queue(queue) => queue::depth_text(queue),
    }
}

/// One object for each change: a line of JSON, or a document of YAML.
fn one(format: Format, kind: &'static KindInfo, object: DynamicObject) -> Result<String> {
    let name = object.name_any();
    let value = presentable(kind, object);
    match format {
        Format::Json => {
            serde_json::to_string(&value).map_err(|source| Error::failed(format!("cannot write JSON: {source}")))
        }
        Format::Yaml => Ok(format!("---\n{}", yaml::write(&value)?)),
        _ => Ok(kind_info::title(kind, &name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn only_visible_changes_are_lines() {
        let args = Cli::parse_from(["status", "-w"]).args;
        let mut lines = Lines::new(&args, kind_info::of(crd::Kind::AppDeploy));
        let app = |name: &str, ready: i32, version: &str| -> DynamicObject {
            let reason = if ready > 0 {
                ("True", "Available", "")
            } else {
                ("False", "Progressing", "0 of 1 pods are ready")
            };
            serde_json::from_value(json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
                "metadata": {"name": name, "namespace": "a", "generation": 1, "resourceVersion": version,
                    "creationTimestamp": "2026-06-01T00:00:00Z"},
                "spec": {"image": "nginx"}, "status": {"observedGeneration": 1, "readyReplicas": ready, "conditions": [
                    {"type": "Ready", "status": reason.0, "reason": reason.1, "message": reason.2, "lastTransitionTime": "2026-06-01T00:00:00Z"}]}}))
            .unwrap()
        };
        let at = |time: &str| format!("2026-06-01T{time}Z").parse().unwrap();
        let mut said = vec![
            lines
                .text(
                    &[(app("shop", 0, "1"), false), (app("b", 1, "1"), false)],
                    at("12:00:00.5"),
                )
                .unwrap(),
        ];
        assert_eq!(lines.text(&[(app("shop", 0, "2"), false)], at("12:00:05")), None);
        said.extend(lines.text(&[(app("shop", 1, "3"), false)], at("12:00:07")));
        said.extend(lines.text(&[(app("shop", 1, "3"), true)], at("12:01:00")));
        insta::assert_snapshot!(said.join("\n"), @r"
        TIME                   NAME   READY   PODS   REASON        URL      AGE
        2026-06-01T12:00:01Z   shop   False   0/1    Progressing   <none>   12h   0 of 1 pods are ready
        2026-06-01T12:00:01Z   b      True    1/1    Available     <none>   12h
        2026-06-01T12:00:07Z   shop   True    1/1    Available     <none>   12h
        2026-06-01T12:01:00Z   shop   True    1/1    Available     <none>   12h   deleted
        ");
    }
}
