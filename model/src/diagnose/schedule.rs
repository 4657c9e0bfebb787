//! Describes why the scheduler finds no node for a pod.

use super::{Diagnosis, Reason, Subject, describe_pods, diagnosis};
use crate::{NextCommand, command};

/// What keeps a pod from a node, the most important first: that some nodes may not be used is intended in many clusters, that
/// the others are full is not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// A volume of the pod does not exist, or can't be used on the node.
    Volume(String),
    /// The node has too little of this resource left.
    Resource(String),
    /// The node runs its maximum number of pods.
    Pods,
    /// The pod selects nodes with other labels.
    Labels,
    /// The node is cordoned.
    Cordoned,
    /// The node has a taint, with its name if that is known.
    Taint(Option<String>),
    /// Anything else, in the scheduler's words.
    Other(String),
}

/// Returns the diagnosis for unschedulable pods. `message` is that of the condition `PodScheduled`, such as
/// `0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. preemption: …`.
pub(super) fn unschedulable(subject: Subject<'_>, message: &str) -> Diagnosis {
    if message.starts_with("no nodes available") {
        let next = Some("kubectl get nodes".into());
        return diagnosis(
            Reason::Unschedulable,
            "no node can take the pods: the cluster has no nodes",
            next,
        );
    }
    let (total, listed) = listed(message);
    let mut obstacles: Vec<(Obstacle, Option<u32>)> = listed.split(", ").map(obstacle).collect();
    obstacles.sort();
    let next = obstacles.first().map(|(obstacle, _)| next(subject, obstacle));
    let list = describe(subject, total, &obstacles);
    diagnosis(
        Reason::Unschedulable,
        &format!("no node can take the pods: {list}"),
        next,
    )
}

/// Returns the number of nodes and the list of obstacles in a message.
fn listed(message: &str) -> (u32, &str) {
    let (head, body) = message.split_once(" nodes are available: ").unwrap_or(("", message));
    let total = head
        .split_once('/')
        .and_then(|(_, total)| total.parse().ok())
        .unwrap_or(0);
    // The rest is about preemption, which no change of the app affects.
    let listed = body.split(". ").next().unwrap_or(body);
    (total, listed.trim_end_matches('.'))
}

/// Reads one entry of the list: an obstacle and the number of nodes that have it.
fn obstacle(entry: &str) -> (Obstacle, Option<u32>) {
    let (count, what) = match entry.split_once(' ') {
        Some((count, what)) if count.parse::<u32>().is_ok() => (count.parse().ok(), what),
        _ => (None, entry),
    };
    let contains = |phrase: &str| what.contains(phrase);
    let obstacle = if let Some(resource) = what.strip_prefix("Insufficient ") {
        Obstacle::Resource(resource.to_owned())
    } else if contains("Too many pods") {
        Obstacle::Pods
    } else if contains("untolerated taint") {
        let taint = what.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        Obstacle::Taint(taint.map(|(taint, _)| taint.trim_end_matches([':', ' ']).to_owned()))
    } else if contains("unschedulable") {
        Obstacle::Cordoned
    } else if ["ersistent", "volume", "pvc", "free storage"]
        .iter()
        .any(|phrase| contains(phrase))
    {
        Obstacle::Volume(what.to_owned())
    } else if contains("node affinity") {
        Obstacle::Labels
    } else {
        Obstacle::Other(what.trim_start_matches("node(s) ").to_owned())
    };
    (obstacle, count)
}

fn describe(subject: Subject<'_>, total: u32, obstacles: &[(Obstacle, Option<u32>)]) -> String {
    let mut parts: Vec<String> = Vec::new();
    // Resources that all nodes lack are listed together. Two resources that some nodes lack may be lacking on different
    // nodes.
    let resources = |all: bool| {
        let found = obstacles
            .iter()
            .filter(move |(_, count)| (*count == Some(total)) == all);
        found.filter_map(|(obstacle, count)| match obstacle {
            Obstacle::Resource(resource) => Some((resource.as_str(), *count)),
            _ => None,
        })
    };
    let everywhere: Vec<&str> = resources(true).map(|(resource, _)| resource).collect();
    if !everywhere.is_empty() {
        parts.push(too_little(
            subject,
            &everywhere,
            &nodes(Some(total), total, "has", "have"),
        ));
    }
    parts.extend(
        resources(false).map(|(resource, count)| too_little(subject, &[resource], &nodes(count, total, "has", "have"))),
    );
    for (obstacle, count) in obstacles {
        let who = |one, many| nodes(*count, total, one, many);
        parts.push(match obstacle {
            Obstacle::Resource(_) => continue,
            Obstacle::Volume(what) => volume(what, &who("has", "have")),
            Obstacle::Pods => format!("{} no room for another pod", who("has", "have")),
            Obstacle::Labels => format!("{} {}", who("lacks", "lack"), labels(subject)),
            Obstacle::Cordoned => format!("{} cordoned", who("is", "are")),
            Obstacle::Taint(taint) => {
                let name = taint.as_ref().map(|taint| format!(" {taint}")).unwrap_or_default();
                format!("{} a taint{name} that they do not tolerate", who("has", "have"))
            }
            Obstacle::Other(what) if count.is_none() => what.clone(),
            Obstacle::Other(what) => who(what, what),
        });
    }
    parts.join(", ")
}

/// Returns the subject and the verb of a sentence about nodes.
fn nodes(count: Option<u32>, total: u32, one: &str, many: &str) -> String {
    match count {
        Some(1) if total == 1 => format!("the one node {one}"),
        Some(count) if count == total => format!("each of {total} nodes {one}"),
        Some(1) => format!("1 of {total} nodes {one}"),
        Some(count) => format!("{count} of {total} nodes {many}"),
        None => format!("each {one}"),
    }
}

fn too_little(subject: Subject<'_>, resources: &[&str], nodes_have: &str) -> String {
    let requests: Vec<String> = resources
        .iter()
        .filter_map(|resource| request(subject, resource))
        .collect();
    let asked = if requests.is_empty() {
        String::new()
    } else {
        format!(" (a pod requests {})", requests.join(" and "))
    };
    format!("{nodes_have} too little {} left{asked}", resources.join(" and "))
}

/// Returns the labels that the pods select nodes by.
fn labels(subject: Subject<'_>) -> String {
    let placement = subject.pod.and_then(|pod| pod.placement.as_ref());
    let labels = placement.into_iter().flat_map(|placement| &placement.node_selector);
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() {
        return "the labels that they ask for".to_owned();
    }
    format!("the labels of placement.nodeSelector ({})", labels.join(", "))
}

fn request(subject: Subject<'_>, resource: &str) -> Option<String> {
    let resources = subject.pod?.container.resources.as_ref()?;
    // Without a request Kubernetes uses the limit.
    let amount = resources
        .requests
        .get(resource)
        .or_else(|| resources.limits.get(resource))?;
    Some(format!("{} {resource}", amount.0))
}

fn volume(what: &str, nodes_have: &str) -> String {
    match claim(what) {
        Some(claim) if what.contains("not found") => format!("their PersistentVolumeClaim {claim} does not exist"),
        Some(claim) => format!("their PersistentVolumeClaim {claim} is not ready: {what}"),
        None if what.contains("unbound immediate") => "their PersistentVolumeClaim has no volume".to_owned(),
        None => format!(
            "{nodes_have} no volume for them: {}",
            what.trim_start_matches("node(s) ")
        ),
    }
}

/// Returns the name of the claim in a message such as `persistentvolumeclaim "data" not found`.
fn claim(what: &str) -> Option<&str> {
    what.strip_prefix("persistentvolumeclaim \"")?.split('"').next()
}

fn next(subject: Subject<'_>, obstacle: &Obstacle) -> NextCommand {
    match obstacle {
        Obstacle::Volume(_) => command!("kubectl get persistentvolumeclaims -n {}", subject.namespace),
        // Shows how much each node has left.
        Obstacle::Resource(_) | Obstacle::Pods => "kubectl describe nodes".into(),
        Obstacle::Labels => "kubectl get nodes --show-labels".into(),
        Obstacle::Cordoned => "kubectl get nodes".into(),
        Obstacle::Taint(_) => {
            "kubectl get nodes -o custom-columns='NODE:.metadata.name,TAINTS:.spec.taints[*].key'".into()
        }
        Obstacle::Other(_) => describe_pods(subject),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_of_the_spec_are_named() {
        let pod = json!({"image": "nginx", "placement": {"nodeSelector": {"disktype": "ssd", "zone": "a"}}});
        let pod: crd::PodFields = serde_json::from_value(pod).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let found = unschedulable(
            subject,
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
        );
        assert_eq!(
            found.message,
            "no node can take the pods: each of 2 nodes lacks the labels of placement.nodeSelector (disktype=ssd, zone=a)"
        );
    }

    #[test]
    fn each_obstacle_has_a_sentence_and_a_command() {
        let pod = json!({"image": "nginx", "resources": {"requests": {"cpu": "4"}, "limits": {"memory": "8Gi"}}});
        let pod: crd::PodFields = serde_json::from_value(pod).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let preemption = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
        let mut lines = Vec::new();
        for words in [
            "0/1 nodes are available: 1 Insufficient cpu.",
            "0/3 nodes are available: 3 Insufficient memory.",
            "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s).",
            "0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory.",
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
            "0/3 nodes are available: 3 node(s) had untolerated taint(s).",
            "0/3 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 2 Too many pods.",
            "0/1 nodes are available: 1 node(s) were unschedulable.",
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.",
            "0/1 nodes are available: persistentvolumeclaim \"data\" not found. not found",
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
            "no nodes available to schedule pods",
            "Scheduling is blocked due to non-empty scheduling gates",
        ] {
            let found = unschedulable(
                subject,
                &format!("{words}{}", if words.starts_with("0/") { preemption } else { "" }),
            );
            lines.push(format!("{}\n  {}", found.message, found.next.unwrap()));
        }
        insta::assert_snapshot!(lines.join("\n"), @r#"
        no node can take the pods: the one node has too little cpu left (a pod requests 4 cpu)
          kubectl describe nodes
        no node can take the pods: each of 3 nodes has too little memory left (a pod requests 8Gi memory)
          kubectl describe nodes
        no node can take the pods: 1 of 3 nodes has too little cpu left (a pod requests 4 cpu), 1 of 3 nodes has too little memory left (a pod requests 8Gi memory), 1 of 3 nodes has a taint that they do not tolerate
          kubectl describe nodes
        no node can take the pods: each of 3 nodes has too little cpu and memory left (a pod requests 4 cpu and 8Gi memory)
          kubectl describe nodes
        no node can take the pods: each of 2 nodes has too little nvidia.com/gpu left
          kubectl describe nodes
        no node can take the pods: each of 3 nodes has a taint that they do not tolerate
          kubectl get nodes -o custom-columns='NODE:.metadata.name,TAINTS:.spec.taints[*].key'
        no node can take the pods: 2 of 3 nodes have no room for another pod, 1 of 3 nodes has a taint node.kubernetes.io/not-ready that they do not tolerate
          kubectl describe nodes
        no node can take the pods: the one node is cordoned
          kubectl get nodes
        no node can take the pods: each of 2 nodes lacks the labels that they ask for
          kubectl get nodes --show-labels
        no node can take the pods: each of 2 nodes didn't match pod topology spread constraints
          kubectl describe pods -n blue -l appdeploy.dev/app=shop
        no node can take the pods: their PersistentVolumeClaim data does not exist
          kubectl get persistentvolumeclaims -n blue
        no node can take the pods: their PersistentVolumeClaim has no volume
          kubectl get persistentvolumeclaims -n blue
        no node can take the pods: each of 2 nodes has no volume for them: had volume node affinity conflict
          kubectl get persistentvolumeclaims -n blue
        no node can take the pods: the cluster has no nodes
          kubectl get nodes
        no node can take the pods: Scheduling is blocked due to non-empty scheduling gates
          kubectl describe pods -n blue -l appdeploy.dev/app=shop
        "#);
    }
}
