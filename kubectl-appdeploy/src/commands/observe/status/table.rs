//! The table of apps, pod sets or queues.

use crd::{AppQueue, Kind, PodSet};
use jiff::Timestamp;

use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::resource::custom_resource::CustomResource;
use crate::resource::queue;
use crate::resource::workload::{Workload, url};

/// What the table shows.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// A column for the namespace.
    pub namespaces: bool,
    /// More columns, nothing shortened.
    pub wide: bool,
    /// A header, and explanations below.
    pub headers: bool,
}

impl View {
    /// Returns what the table shows below another part of it.
    pub const fn continued(mut self, continued: bool) -> Self {
        self.headers = self.headers && !continued;
        self
    }
}

/// The columns in which kinds differ.
struct Columns {
    /// What is counted, between READY and REASON.
    count: &'static str,
    /// After REASON.
    always: &'static [&'static str],
    /// After these, with `-o wide`.
    wide: &'static [&'static str],
}

impl Columns {
    const fn of(kind: Option<Kind>) -> Self {
        match kind {
            Some(Kind::AppDeploy) => Self {
                count: "PODS",
                always: &["URL"],
                wide: &["ADDRESS", "IMAGE"],
            },
            Some(Kind::PodSet) => Self {
                count: "PODS",
                always: &[],
                wide: &["UPDATED", "IMAGE", "NAMES"],
            },
            None => Self {
                count: "DEPTH",
                always: &["URL"],
                wide: &["REGION", "TYPE"],
            },
        }
    }
}

/// Returns the rows. There is at least one, and all are of one kind.
pub fn table(all: &[&CustomResource], view: View, now: Timestamp) -> Table {
    let kind = all.first().map(|one| one.summary().kind.workload);
    let columns = Columns::of(kind.unwrap_or(Some(Kind::AppDeploy)));
    let mut header = vec!["NAME", "READY", columns.count, "REASON"];
    header.extend(columns.always);
    if view.namespaces {
        header.insert(0, "NAMESPACE");
    }
    if view.wide {
        header.extend(columns.wide);
    }
    header.push("AGE");
    let mut table = Table::new(header);
    for one in all {
        table.row(row(one, view, now));
    }
    table
}

fn row(one: &CustomResource, view: View, now: Timestamp) -> Vec<Cell> {
    let summary = one.summary();
    let mood = summary.mood();
    let (count, columns, wide) = match one {
        CustomResource::Workload(workload) => {
            let (columns, wide) = of_workload(workload);
            (Cell::styled(workload.ready(), mood), columns, wide)
        }
        CustomResource::Queue(queue) => of_queue(queue),
    };
    let mut row: Vec<Cell> = Vec::new();
    if view.namespaces {
        row.push(summary.namespace().into());
    }
    row.push(summary.name().into());
    row.push(Cell::styled(summary.ready_status(), mood));
    row.push(count);
    row.push(Cell::styled(summary.reason(), mood));
    row.extend(columns);
    if view.wide {
        row.extend(wide.into_iter().map(Cell::from));
    }
    row.push(age(summary.meta.creation_timestamp.as_ref(), now).into());
    row
}

/// Returns the cells between REASON and AGE, and those with `-o wide`.
fn of_workload(workload: &Workload) -> (Vec<Cell>, Vec<String>) {
    match workload {
        Workload::App(app) => {
            let status = app.status.as_ref();
            let address = status.and_then(|status| status.address()).map(str::to_owned);
            let image = app.spec.pod.container.image.clone();
            (vec![url(app).into()], vec![address.unwrap_or_default(), image])
        }
        Workload::PodSet(set) => {
            let updated = workload.state().updated.to_string();
            let image = set.spec.pod().container.image.clone();
            (Vec::new(), vec![updated, image, pods(set)])
        }
    }
}

/// Returns the number of messages, the cells between REASON and AGE, and those with `-o wide`.
fn of_queue(one: &AppQueue) -> (Cell, Vec<Cell>, Vec<String>) {
    let region = one.spec.sqs.region.clone();
    let url = queue::url(one).unwrap_or("<pending>");
    (
        queue::depth_text(one).into(),
        vec![url.into()],
        vec![region, queue::type_of(one).to_owned()],
    )
}

/// Returns the first pods of a pod set and the number of the others, without spaces.
fn pods(set: &PodSet) -> String {
    const NAMED: usize = 5;
    let names = set.status.as_ref().map_or(&[][..], |status| &status.pod_names);
    let mut words: Vec<String> = names.iter().take(NAMED).cloned().collect();
    words.extend(
        names
            .len()
            .checked_sub(NAMED)
            .filter(|rest| *rest > 0)
            .map(|rest| format!("+{rest}")),
    );
    words.join(",")
}
