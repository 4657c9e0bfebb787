//! The children of an app or a pod set as a tree in a table.

mod app;
mod podset;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt as _};

use crate::diagnosis::request_path::Component;
use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::resource::children::{Children, Section};
use crate::resource::workload::Workload;
use crate::resource::{autoscaler, pod};
use crate::terminal::ui::Style;

/// How many pods of an owner are shown before the rest is only counted; those in trouble come first.
const PODS: usize = 10;

/// The mark of the component at which requests fail.
const BROKEN: &str = "✖ ";

/// How the tree is shown.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The component at which requests fail.
    pub broken: Option<Component>,
    /// More columns, nothing shortened.
    pub wide: bool,
    /// The columns of the terminal; `None` where nothing limits a line.
    pub width: Option<usize>,
    /// The time.
    pub now: Timestamp,
}

/// A row with its children.
struct Node {
    cells: Vec<Cell>,
    below: Vec<Node>,
    /// The component that it belongs to, if a problem of the component is its own.
    suspect: Option<Component>,
}

impl Node {
    /// Returns the row of an object.
    fn new<K: Resource>(kind: &str, object: &K, cells: impl IntoIterator<Item = Cell>) -> Self {
        let mut node = Self::alone(format!("{kind}/{}", object.name_any()));
        node.cells.extend(cells);
        node
    }

    /// Returns a row with nothing but a name.
    fn alone(name: String) -> Self {
        Self {
            cells: vec![name.into()],
            below: Vec::new(),
            suspect: None,
        }
    }

    /// Returns the row of a kind whose objects are unknown or missing, with the reason.
    fn missing(kind: &str, why: &str) -> Self {
        Self {
            cells: vec![kind.into(), "-".into(), why.into()],
            ..Self::alone(String::new())
        }
    }

    /// Returns the row, marked if that component is the broken one.
    fn at(mut self, component: Component, is_suspect: bool) -> Self {
        self.suspect = is_suspect.then_some(component);
        self
    }
}

/// Returns the children of a workload as a table that fits.
pub fn table(workload: &Workload, children: &Children, view: View) -> Table {
    let roots = match workload {
        Workload::App(_) => app::roots(workload, children, view.now),
        Workload::PodSet(set) => podset::roots(set, &children.pods, view.now),
    };
    let autoscalers = children.autoscalers.iter().map(|one| {
        let range = autoscaler::range(one).into();
        let cells = ["-".into(), range, "-".into(), "-".into(), born(one, view.now)];
        Node::new("HorizontalPodAutoscaler", one, cells)
    });
    let roots: Vec<Node> = autoscalers.chain(roots).collect();
    let mut header = vec!["NAME", "READY", "STATUS", "NODE", "AGE"];
    if view.wide {
        header.insert(4, "IP");
    }
    let is_marked = roots.iter().any(|root| root.has_suspect(view.broken));
    let mut canvas = Canvas {
        table: Table::new(header),
        broken: view.broken.filter(|_| is_marked),
        wide: view.wide,
    };
    for root in roots {
        canvas.draw(root, "", "");
    }
    if view.wide {
        return canvas.table;
    }
    // The node is the least important column, the name the one that users copy.
    let table = canvas.table.fit("NODE", view.width);
    let table = if table.fits(view.width) {
        table
    } else {
        table.without("NODE")
    };
    table.fit("STATUS", view.width).fit("NAME", view.width)
}

impl Node {
    fn has_suspect(&self, broken: Option<Component>) -> bool {
        broken.is_some() && (self.suspect == broken || self.below.iter().any(|node| node.has_suspect(broken)))
    }
}

/// The table that is drawn.
struct Canvas {
    table: Table,
    broken: Option<Component>,
    wide: bool,
}

impl Canvas {
    fn draw(&mut self, node: Node, before: &str, beneath: &str) {
        let mut cells = node.cells.into_iter();
        let name = cells.next().map(|name| {
            let name = name.prefixed(before);
            match self.broken {
                None => name,
                component if component == node.suspect => name.prefixed(BROKEN).with(Style::Bad),
                _ => name.prefixed(&" ".repeat(BROKEN.chars().count())),
            }
        });
        let mut row: Vec<Cell> = name.into_iter().chain(cells).collect();
        // A row ends with its age; those without address have fewer cells before it.
        row.resize_with(row.len().max(6), || "-".into());
        if !self.wide {
            row.remove(4);
        }
        self.table.row(row);
        let last = node.below.len().saturating_sub(1);
        for (index, below) in node.below.into_iter().enumerate() {
            let (branch, trunk) = if index == last {
                ("└─", "  ")
            } else {
                ("├─", "│ ")
            };
            let (before, beneath) = (format!("{beneath}{branch}"), format!("{beneath}{trunk}"));
            self.draw(below, &before, &beneath);
        }
    }
}

/// Returns the nodes of the selected pods, those with problems first.
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
    // Shorter names first: web-9 before web-10.
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

/// Returns the cells behind the name of a pod.
fn of_pod(pod: &Pod, status: Cell, now: Timestamp) -> [Cell; 5] {
    let place = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    [
        pod::containers(pod).into(),
        status,
        place.unwrap_or_default().into(),
        ip.unwrap_or_default().into(),
        born(pod, now),
    ]
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
