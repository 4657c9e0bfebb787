//! The nodes of an app.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::ResourceExt as _;

use super::{Node, born, mood, pods, progress, status};
use crate::children::{Children, Section, is_of};
use crate::pod;
use crate::table::Cell;
use crate::ui::Style;

/// The annotation in which Kubernetes numbers the revisions of a Deployment.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The columns behind the name.
pub const COLUMNS: [&str; 3] = ["READY", "STATUS", "AGE"];

/// Returns what belongs to an app, in the order in which a request passes through.
pub fn roots(children: &Children, now: Timestamp) -> Vec<Node> {
    let mut roots = nodes("Ingress", &children.ingresses, |one| ingress(one, now));
    roots.extend(nodes("Service", &children.services, |one| {
        service(one, &children.pods, now)
    }));
    roots.extend(nodes("Deployment", &children.deployments, |one| {
        deployment(one, children, now)
    }));
    roots
}

fn nodes<T>(kind: &str, section: &Section<T>, node: impl Fn(&T) -> Node) -> Vec<Node> {
    match section {
        Ok(items) => items.iter().map(node).collect(),
        Err(why) => vec![Node::missing(kind, why)],
    }
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
    Node::new("Ingress", ingress, ["-".into(), status, born(ingress, now)])
}

fn service(service: &Service, pods: &Section<Pod>, now: Timestamp) -> Node {
    let spec = service.spec.clone().unwrap_or_default();
    let ports: Vec<String> = spec.ports.iter().flatten().map(|port| port.port.to_string()).collect();
    let address = spec.cluster_ip.unwrap_or_else(|| "<pending>".to_owned());
    let ready = match pods {
        Ok(pods) => {
            // One that is about to go gets no requests any more, though it may still be ready.
            let stay = pods.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
            let ready = stay.clone().filter(|one| pod::is_ready(one)).count();
            Cell::styled(
                format!("{ready}/{}", stay.count()),
                if ready == 0 { Style::Bad } else { Style::Good },
            )
        }
        Err(_) => "-".into(),
    };
    let address = format!("{address}:{}", ports.join(",")).into();
    Node::new("Service", service, [ready, address, born(service, now)])
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
    let mut node = Node::new("Deployment", deployment, [ready, word, born(deployment, now)]);
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
        ..Node::new("ReplicaSet", set, [ready, word, born(set, now)])
    }
}

fn pod_node(one: &Pod, now: Timestamp) -> Node {
    let word = Cell::styled(status(one), mood(one));
    Node::new("Pod", one, [pod::containers(one).into(), word, born(one, now)])
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
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_that_goes_is_no_endpoint_any_more() {
        let pod = |name: &str, gone: Option<&str>| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": name, "deletionTimestamp": gone},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
            .unwrap()
        };
        let pods = Ok(vec![pod("a", None), pod("b", Some("2026-01-01T00:00:00Z"))]);
        let node = service(&Service::default(), &pods, Timestamp::UNIX_EPOCH);
        assert_eq!(node.cells[1], Cell::styled("1/1", Style::Good));
    }
}
