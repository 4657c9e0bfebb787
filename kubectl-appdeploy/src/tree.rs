//! What belongs to an app, in the order in which a request passes through.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::{Resource, ResourceExt as _};

use crate::age::age;
use crate::children::{Children, Section};
use crate::pod;
use crate::table::{Cell, Table};
use crate::ui::Style;

/// How many pods of a revision are shown before the rest is only counted; those in trouble come first.
const PODS: usize = 10;
/// The annotation in which Kubernetes numbers the revisions of a Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";

struct Node {
    cells: [Cell; 4],
    below: Vec<Node>,
}

impl Node {
    fn new(name: String, ready: impl Into<Cell>, status: impl Into<Cell>, age: String) -> Self {
        Self {
            cells: [name.into(), ready.into(), status.into(), age.into()],
            below: Vec::new(),
        }
    }
}

/// Returns what belongs to an app as a table, the lower under the higher.
pub fn table(children: &Children, now: Timestamp) -> Table {
    let mut roots = nodes("Ingress", &children.ingresses, |one| ingress(one, now));
    roots.extend(nodes("Service", &children.services, |one| {
        service(one, &children.pods, now)
    }));
    roots.extend(nodes("Deployment", &children.deployments, |one| {
        deployment(one, children, now)
    }));
    let mut table = Table::new(vec!["NAME", "READY", "STATUS", "AGE"]);
    for root in roots {
        draw(&mut table, root, "", "");
    }
    table
}

fn draw(table: &mut Table, node: Node, before: &str, beneath: &str) {
    let [name, ready, status, age] = node.cells;
    table.row(vec![name.prefixed(before), ready, status, age]);
    let last = node.below.len().saturating_sub(1);
    for (index, below) in node.below.into_iter().enumerate() {
        let (branch, trunk) = if index == last {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        draw(
            table,
            below,
            &format!("{beneath}{branch}"),
            &format!("{beneath}{trunk}"),
        );
    }
}

fn nodes<T>(kind: &str, section: &Section<T>, node: impl Fn(&T) -> Node) -> Vec<Node> {
    match section {
        Ok(items) => items.iter().map(node).collect(),
        Err(why) => vec![Node::new(kind.to_owned(), "-", why.as_str(), "-".to_owned())],
    }
}

fn born<K: Resource>(object: &K, now: Timestamp) -> String {
    age(object.meta().creation_timestamp.as_ref(), now)
}

fn ingress(ingress: &Ingress, now: Timestamp) -> Node {
    let points = ingress
        .status
        .iter()
        .filter_map(|status| status.load_balancer.as_ref())
        .flat_map(|lb| lb.ingress.iter().flatten());
    let addresses: Vec<String> = points
        .filter_map(|point| point.ip.clone().or_else(|| point.hostname.clone()))
        .collect();
    let class = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.clone());
    let status = match (addresses.is_empty(), class) {
        (false, _) => Cell::styled(addresses.join(","), Style::Good),
        (true, Some(class)) => Cell::styled(format!("no address yet (class {class})"), Style::Busy),
        (true, None) => Cell::styled("no address (no class)", Style::Busy),
    };
    Node::new(
        format!("Ingress/{}", ingress.name_any()),
        "-",
        status,
        born(ingress, now),
    )
}

fn service(service: &Service, pods: &Section<Pod>, now: Timestamp) -> Node {
    let spec = service.spec.clone().unwrap_or_default();
    let ports: Vec<String> = spec.ports.iter().flatten().map(|port| port.port.to_string()).collect();
    let address = spec.cluster_ip.unwrap_or_else(|| "<pending>".to_owned());
    let ready = match pods {
        Ok(pods) => {
            let ready = pods.iter().filter(|one| pod::is_ready(one)).count();
            Cell::styled(
                format!("{ready}/{}", pods.len()),
                if ready == 0 { Style::Bad } else { Style::Good },
            )
        }
        Err(_) => "-".into(),
    };
    Node::new(
        format!("Service/{}", service.name_any()),
        ready,
        format!("{address}:{}", ports.join(",")),
        born(service, now),
    )
}

fn deployment(deployment: &Deployment, children: &Children, now: Timestamp) -> Node {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let ready = status.ready_replicas.unwrap_or(0);
    let updated = status.updated_replicas.unwrap_or(0);
    let word = if deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true) {
        Cell::styled("Paused", Style::Busy)
    } else if updated < wanted {
        Cell::styled(format!("updating {updated}/{wanted}"), Style::Busy)
    } else if ready < wanted {
        Cell::styled("not ready", Style::Bad)
    } else {
        Cell::styled("up to date", Style::Good)
    };
    let mut node = Node::new(
        format!("Deployment/{}", deployment.name_any()),
        format!("{ready}/{wanted}"),
        word,
        born(deployment, now),
    );
    match &children.replica_sets {
        Ok(sets) => {
            let mut sets: Vec<&ReplicaSet> = sets
                .iter()
                .filter(|set| is_owned(*set, deployment) && replicas(set) > 0)
                .collect();
            sets.sort_by_key(|set| std::cmp::Reverse(revision(set)));
            node.below
                .extend(sets.into_iter().map(|set| replica_set(set, &children.pods, now)));
        }
        // Without the revisions in between, the pods still tell most of the story.
        Err(why) => {
            node.below
                .push(Node::new("ReplicaSet".to_owned(), "-", why.as_str(), "-".to_owned()));
            let all: Section<&Pod> = children
                .pods
                .as_ref()
                .map(|pods| pods.iter().collect())
                .map_err(Clone::clone);
            node.below.extend(pods(all, now));
        }
    }
    node
}

fn replica_set(set: &ReplicaSet, all: &Section<Pod>, now: Timestamp) -> Node {
    let ready = set
        .status
        .as_ref()
        .and_then(|status| status.ready_replicas)
        .unwrap_or(0);
    let failure = set
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .find(|c| c.type_ == "ReplicaFailure" && c.status == "True");
    let word = match failure {
        Some(failure) => Cell::styled(
            failure.reason.clone().unwrap_or_else(|| "ReplicaFailure".to_owned()),
            Style::Bad,
        ),
        None => Cell::from(format!("revision {}", revision(set))),
    };
    let mut node = Node::new(
        format!("ReplicaSet/{}", set.name_any()),
        format!("{ready}/{}", replicas(set)),
        word,
        born(set, now),
    );
    let owned: Section<&Pod> = all
        .as_ref()
        .map(|pods| pods.iter().filter(|pod| is_owned(*pod, set)).collect())
        .map_err(Clone::clone);
    node.below.extend(pods(owned, now));
    node
}

fn pods(section: Section<&Pod>, now: Timestamp) -> Vec<Node> {
    let mut all = match section {
        Ok(all) => all,
        Err(why) => return vec![Node::new("Pod".to_owned(), "-", why, "-".to_owned())],
    };
    all.sort_by_key(|pod| (pod::is_ready(pod), pod.name_any()));
    let rest = all.len().saturating_sub(PODS);
    let mut nodes: Vec<Node> = all.into_iter().take(PODS).map(|one| pod_node(one, now)).collect();
    if rest > 0 {
        nodes.push(Node::new(format!("…and {rest} more"), "-", "-", "-".to_owned()));
    }
    nodes
}

fn pod_node(one: &Pod, now: Timestamp) -> Node {
    let word = pod::word(one);
    let restarts = pod::restarts(one);
    let status = match restarts {
        0 => word,
        1 => format!("{word} (1 restart)"),
        many => format!("{word} ({many} restarts)"),
    };
    let style = if pod::is_ready(one) { Style::Good } else { Style::Bad };
    Node::new(
        format!("Pod/{}", one.name_any()),
        pod::containers(one),
        Cell::styled(status, style),
        born(one, now),
    )
}

fn is_owned<K: Resource, O: Resource>(object: &K, owner: &O) -> bool {
    let uid = owner.meta().uid.as_deref();
    object
        .meta()
        .owner_references
        .iter()
        .flatten()
        .any(|reference| Some(reference.uid.as_str()) == uid)
}

fn replicas(set: &ReplicaSet) -> i32 {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
    wanted.max(set.status.as_ref().map_or(0, |status| status.replicas))
}

fn revision(set: &ReplicaSet) -> u64 {
    set.annotations()
        .get(REVISION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}
