//! What belongs to an app or a pod set as a table, the lower under the higher.

mod app;
mod podset;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt as _};

use crate::age::age;
use crate::children::{Children, Section};
use crate::pod;
use crate::table::{Cell, Table};
use crate::ui::Style;
use crate::workload::Workload;

/// How many pods of an owner are shown before the rest is only counted; those in trouble come first.
const PODS: usize = 10;

/// A row with those beneath it.
struct Node {
    cells: Vec<Cell>,
    below: Vec<Node>,
}

impl Node {
    /// Returns the row of an object.
    fn new<K: Resource<DynamicType = ()>>(kind: &str, object: &K, cells: impl IntoIterator<Item = Cell>) -> Self {
        let mut node = Self::alone(format!("{kind}/{}", object.name_any()));
        node.cells.extend(cells);
        node
    }

    /// Returns a row with nothing but a name.
    fn alone(name: String) -> Self {
        Self {
            cells: vec![name.into()],
            below: Vec::new(),
        }
    }

    /// Returns the row that says why there are none of a kind to be seen.
    fn missing(kind: &str, why: &str) -> Self {
        Self {
            cells: vec![kind.into(), "-".into(), why.into()],
            below: Vec::new(),
        }
    }
}

/// Returns what belongs to a workload as a table.
pub fn table(workload: &Workload, children: &Children, now: Timestamp) -> Table {
    let (columns, roots) = match workload {
        Workload::App(_) => (&app::COLUMNS[..], app::roots(children, now)),
        Workload::PodSet(set) => (&podset::COLUMNS[..], podset::roots(set, &children.pods, now)),
    };
    let header: Vec<_> = std::iter::once("NAME").chain(columns.iter().copied()).collect();
    let width = header.len();
    let mut table = Table::new(header);
    for root in roots {
        draw(&mut table, root, width, "", "");
    }
    table
}

fn draw(table: &mut Table, node: Node, width: usize, before: &str, beneath: &str) {
    let mut cells = node.cells.into_iter();
    let mut row: Vec<Cell> = cells.next().map(|name| name.prefixed(before)).into_iter().collect();
    row.extend(cells);
    row.resize(width, "-".into());
    table.row(row);
    let last = node.below.len().saturating_sub(1);
    for (index, below) in node.below.into_iter().enumerate() {
        let (branch, trunk) = if index == last {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        let (before, beneath) = (format!("{beneath}{branch}"), format!("{beneath}{trunk}"));
        draw(table, below, width, &before, &beneath);
    }
}

/// Returns the nodes of the pods that are meant, those that are not settled first.
fn pods(
    all: &Section<Pod>,
    is_meant: impl Fn(&Pod) -> bool,
    is_settled: impl Fn(&Pod) -> bool,
    node: impl Fn(&Pod) -> Node,
) -> Vec<Node> {
    let mut meant: Vec<&Pod> = match all {
        Ok(all) => all.iter().filter(|pod| is_meant(pod)).collect(),
        Err(why) => return vec![Node::missing("Pod", why)],
    };
    // The shorter first: web-9 stands before web-10.
    meant.sort_by_key(|pod| (is_settled(pod), pod.name_any().len(), pod.name_any()));
    let rest = meant.len().saturating_sub(PODS);
    let mut nodes: Vec<Node> = meant.into_iter().take(PODS).map(node).collect();
    if rest > 0 {
        nodes.push(Node::alone(format!("…and {rest} more")));
    }
    nodes
}

/// Returns the word for the state of a pod, with its restarts.
fn status(pod: &Pod) -> String {
    let word = pod::word(pod);
    match pod::restarts(pod) {
        0 => word,
        1 => format!("{word} (1 restart)"),
        many => format!("{word} ({many} restarts)"),
    }
}

fn mood(pod: &Pod) -> Style {
    if pod::is_ready(pod) { Style::Good } else { Style::Bad }
}

fn born<K: Resource>(object: &K, now: Timestamp) -> Cell {
    age(object.meta().creation_timestamp.as_ref(), now).into()
}

/// Returns the word for how far a rollout is.
fn progress(wanted: i32, updated: i32, ready: i32) -> Cell {
    if updated < wanted {
        Cell::styled(format!("updating {updated}/{wanted}"), Style::Busy)
    } else if ready < wanted {
        Cell::styled("not ready", Style::Bad)
    } else {
        Cell::styled("up to date", Style::Good)
    }
}
