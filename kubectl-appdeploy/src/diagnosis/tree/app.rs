//! The nodes of an app.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, Service, ServiceSpec};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::DynamicObject;
use kube::{Resource, ResourceExt as _};
use model::ChildKind;
use model::children::{DEPLOYMENT, INGRESS, SERVICE};

use super::{Node, born, mood, of_pod, pods, progress, status};
use crate::diagnosis::request_path::{self, Component};
use crate::output::table::Cell;
use crate::resource::children::{Children, Section, is_of};
use crate::resource::pod;
use crate::resource::workload::Workload;
use crate::terminal::ui::Style;

/// The annotation in which Kubernetes numbers the revisions of a Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Returns the children of an app, from the outside in.
pub fn roots(workload: &Workload, children: &Children, now: Timestamp) -> Vec<Node> {
    let missing = request_path::missing(workload, children);
    let rows = |(kind, section): &(&'static ChildKind, Section<DynamicObject>)| {
        let nodes = match section {
            Ok(items) => items.iter().map(|one| child(kind, one, children, now)).collect(),
            Err(why) => vec![Node::missing(kind.kind, why)],
        };
        (*kind, nodes)
    };
    let mut kinds: Vec<(&'static ChildKind, Vec<Node>)> = children.owned.iter().rev().map(rows).collect();
    // Missing children are shown only next to existing ones.
    if kinds.iter().any(|(_, nodes)| !nodes.is_empty()) {
        for (kind, nodes) in kinds.iter_mut().filter(|(kind, _)| missing.contains(kind)) {
            let word = if request_path::is_taken(workload, kind) {
                "foreign"
            } else {
                "missing"
            };
            nodes.push(Node::missing(kind.kind, word).at(Component::Child(kind), true));
        }
    }
    kinds.into_iter().flat_map(|(_, nodes)| nodes).collect()
}

/// Returns the row of a child. Kinds about which there is more to show than their age have a function here.
fn child(kind: &'static ChildKind, object: &DynamicObject, children: &Children, now: Timestamp) -> Node {
    let plain = || Node::new(kind.kind, object, cells(object, "-".into(), "-".into(), now));
    let node = if *kind == INGRESS {
        object.clone().try_parse().map(|one| ingress(&one, children, now)).ok()
    } else if *kind == SERVICE {
        object.clone().try_parse().map(|one| service(&one, children, now)).ok()
    } else if *kind == DEPLOYMENT {
        object
            .clone()
            .try_parse()
            .map(|one| deployment(&one, children, now))
            .ok()
    } else {
        None
    };
    node.unwrap_or_else(plain).at(Component::Child(kind), true)
}

/// Returns the cells of an object that is on no node.
fn cells<K: Resource>(object: &K, ready: Cell, status: Cell, now: Timestamp) -> [Cell; 5] {
    [ready, status, "-".into(), "-".into(), born(object, now)]
}

fn ingress(ingress: &Ingress, children: &Children, now: Timestamp) -> Node {
    let points = ingress
        .status
        .iter()
        .filter_map(|status| status.load_balancer.as_ref())
        .flat_map(|lb| lb.ingress.iter().flatten());
    let addresses: Vec<String> = points
        .filter_map(|point| point.ip.clone().or_else(|| point.hostname.clone()))
        .collect();
    let class = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.clone());
    let class = class.map_or_else(|| "no class".to_owned(), |class| format!("class {class}"));
    let status = if addresses.is_empty() {
        Cell::styled(format!("{class}, no address yet"), Style::Busy)
    } else {
        Cell::styled(format!("{class} at {}", addresses.join(",")), Style::Good)
    };
    let mut node = Node::new("Ingress", ingress, cells(ingress, "-".into(), status, now));
    if let Some((name, tls)) = &children.tls {
        let (word, is_fine) = request_path::certificate(tls, now);
        let style = if is_fine { Style::Good } else { Style::Bad };
        let mut secret = Node::alone(format!("Secret/{name}"));
        secret.cells.extend(["-".into(), Cell::styled(word, style)]);
        node.below.push(secret.at(Component::Secret, true));
    }
    node
}

fn service(service: &Service, children: &Children, now: Timestamp) -> Node {
    let spec = service.spec.clone().unwrap_or_default();
    let ports = ports(&spec);
    let address = spec.cluster_ip.unwrap_or_else(|| "<pending>".to_owned());
    let ready = match &children.slices {
        Ok(slices) => {
            let (ready, all) = request_path::endpoints(slices);
            let style = if ready == 0 { Style::Bad } else { Style::Good };
            Cell::styled(format!("{ready}/{all}"), style)
        }
        Err(_) => "n/a".into(),
    };
    let address = format!("{address}:{ports}").into();
    Node::new("Service", service, cells(service, ready, address, now))
}

/// Lists the ports of a Service, each with its protocol unless it is TCP.
fn ports(spec: &ServiceSpec) -> String {
    let ports = spec.ports.iter().flatten();
    let ports = ports.map(|port| match port.protocol.as_deref() {
        None | Some("TCP") => port.port.to_string(),
        Some(protocol) => format!("{}/{protocol}", port.port),
    });
    ports.collect::<Vec<_>>().join(",")
}

fn deployment(deployment: &Deployment, children: &Children, now: Timestamp) -> Node {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let ready = status.ready_replicas.unwrap_or(0);
    let updated = status.updated_replicas.unwrap_or(0);
    let word = if deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true) {
        Cell::styled("Paused", Style::Busy)
    } else {
        progress(wanted, updated, ready)
    };
    let ready = format!("{ready}/{wanted}").into();
    let mut node = Node::new("Deployment", deployment, cells(deployment, ready, word, now));
    match &children.replica_sets {
        Ok(sets) => {
            let mut sets: Vec<&ReplicaSet> = sets
                .iter()
                .filter(|set| is_of(*set, deployment.metadata.uid.as_deref()) && replicas(set) > 0)
                .collect();
            sets.sort_by_key(|set| std::cmp::Reverse(revision(set)));
            node.below
                .extend(sets.into_iter().map(|set| replica_set(set, &children.pods, now)));
        }
        // Without the revisions in between, the pods still tell most of the story.
        Err(why) => {
            node.below.push(Node::missing("ReplicaSet", why));
            node.below
                .extend(pods(&children.pods, |_| true, pod::is_ready, |one| pod_node(one, now)));
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
    let ready = format!("{ready}/{}", replicas(set)).into();
    let owner = set.metadata.uid.as_deref();
    Node {
        below: pods(all, |one| is_of(one, owner), pod::is_ready, |one| pod_node(one, now)),
        ..Node::new("ReplicaSet", set, cells(set, ready, word, now)).at(Component::ReplicaSet, failure.is_some())
    }
}

fn pod_node(one: &Pod, now: Timestamp) -> Node {
    let word = Cell::styled(status(one), mood(one));
    Node::new("Pod", one, of_pod(one, word, now)).at(Component::Pod, !pod::is_ready(one))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_of_other_protocols_are_named() {
        let all = json!([{"port": 80, "protocol": "TCP"}, {"port": 9090}, {"port": 9090, "protocol": "UDP"}]);
        let spec = serde_json::from_value(json!({"ports": all})).unwrap();
        assert_eq!(ports(&spec), "80,9090,9090/UDP");
    }
}
