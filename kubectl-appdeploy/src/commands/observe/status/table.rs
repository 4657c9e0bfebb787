//! The table of apps or pod sets.

use crd::{Kind, PodSet};
use jiff::Timestamp;

use crate::output::age::age;
use crate::output::table::{Cell, Table};
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

/// Returns the rows. All are of one kind, and there is one at least.
pub fn table(all: &[&Workload], view: View, now: Timestamp) -> Table {
    let mut header = vec!["NAME", "READY", "PODS", "REASON"];
    let (columns, wide): (&[&str], &[&str]) = match all.first().map(|one| one.kind()) {
        Some(Kind::PodSet) => (&[], &["UPDATED", "IMAGE", "NAMES"]),
        _ => (&["URL"], &["ADDRESS", "IMAGE"]),
    };
    header.extend(columns);
    if view.namespaces {
        header.insert(0, "NAMESPACE");
    }
    if view.wide {
        header.extend(wide);
    }
    header.push("AGE");
    let mut table = Table::new(header);
    for one in all {
        table.row(row(one, view, now));
    }
    table
}

fn row(one: &Workload, view: View, now: Timestamp) -> Vec<Cell> {
    let mood = one.mood();
    let mut row: Vec<Cell> = Vec::new();
    if view.namespaces {
        row.push(one.namespace().into());
    }
    row.push(one.name().into());
    row.push(Cell::styled(one.ready_status(), mood));
    row.push(Cell::styled(one.ready(), mood));
    row.push(Cell::styled(one.reason(), mood));
    let (columns, wide) = match one {
        Workload::App(app) => {
            let address = app
                .status
                .as_ref()
                .and_then(|status| status.address())
                .map(str::to_owned);
            (
                vec![url(app).into()],
                vec![address.unwrap_or_default(), app.spec.pod.container.image.clone()],
            )
        }
        Workload::PodSet(set) => (
            Vec::new(),
            vec![
                one.state().updated.to_string(),
                set.spec.pod().container.image.clone(),
                pods(set),
            ],
        ),
    };
    row.extend(columns);
    if view.wide {
        row.extend(wide.into_iter().map(Cell::from));
    }
    row.push(age(one.meta().creation_timestamp.as_ref(), now).into());
    row
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
