//! The events of one and of what belongs to it: a list per kind, whatever the number of pods.

use std::collections::HashSet;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Resource};

use crate::age::age;
use crate::children::{self, Children, Section};
use crate::connection::Cluster;
use crate::error::Result;
use crate::table::{Cell, Table};
use crate::ui::Style;
use crate::workload::Workload;

/// How many events are shown: the youngest.
const SHOWN: usize = 15;
/// How many of a kind are read: enough for any namespace that can still be helped.
const READ: u32 = 500;

/// Lists what could be about the workload: children bear its name, except for revisions and pods.
pub async fn fetch(cluster: &Cluster, workload: &Workload) -> Result<Section<Event>> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let warnings: &[&str] = match workload {
        Workload::App(_) => &["ReplicaSet", "Pod"],
        Workload::PodSet(_) => &["Pod"],
    };
    let own = format!("involvedObject.name={}", workload.name());
    let warnings = warnings
        .iter()
        .map(|kind| format!("involvedObject.kind={kind},type=Warning"));
    let lists = std::iter::once(own).chain(warnings).map(async |fields| {
        let params = ListParams::default().fields(&fields).limit(READ);
        children::section(
            cluster,
            cluster.attempt(api.list(&params)).await?.map(|list| list.items),
        )
    });
    let mut all = Vec::new();
    for list in join_all(lists).await {
        match list? {
            Ok(events) => all.extend(events),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(all))
}

/// Keeps the events of the workload and of its children, oldest first.
pub fn about(events: Section<Event>, workload: &Workload, children: &Children) -> Section<Event> {
    fn uids<K: Resource>(section: &Section<K>) -> impl Iterator<Item = String> + '_ {
        section.iter().flatten().filter_map(|child| child.meta().uid.clone())
    }
    let mut family: HashSet<String> = workload.meta().uid.iter().cloned().collect();
    family.extend(uids(&children.ingresses));
    family.extend(uids(&children.services));
    family.extend(uids(&children.deployments));
    family.extend(uids(&children.replica_sets));
    family.extend(uids(&children.pods));
    let mut events = events?;
    events.retain(|event| {
        event
            .involved_object
            .uid
            .as_ref()
            .is_some_and(|uid| family.contains(uid))
    });
    events.sort_by_key(last_seen);
    events.drain(..events.len().saturating_sub(SHOWN));
    Ok(events)
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref().map(|t| t.0));
    series
        .or(event.last_timestamp.as_ref().map(|t| t.0))
        .or(event.event_time.as_ref().map(|t| t.0))
        .or(event.metadata.creation_timestamp.as_ref().map(|t| t.0))
}

/// Returns the events as kubectl shows them, with the object they are about.
pub fn table(events: &[Event], now: Timestamp) -> Table {
    let mut table = Table::new(vec!["LAST", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    for event in events {
        let kind = event.type_.clone().unwrap_or_default();
        let style = if kind == "Warning" { Style::Bad } else { Style::Good };
        let object = &event.involved_object;
        let count = event
            .series
            .as_ref()
            .and_then(|series| series.count)
            .or(event.count)
            .unwrap_or(1);
        let last = last_seen(event).map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time);
        let last = age(last.as_ref(), now);
        table.row(vec![
            if count > 1 { format!("{last} (x{count})") } else { last }.into(),
            Cell::styled(kind, style),
            event.reason.clone().unwrap_or_default().into(),
            format!(
                "{}/{}",
                object.kind.clone().unwrap_or_default(),
                object.name.clone().unwrap_or_default()
            )
            .into(),
            event.message.clone().unwrap_or_default().trim().to_owned().into(),
        ]);
    }
    table
}
