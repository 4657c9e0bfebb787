//! The tree of a pod set: its pods, each with the pod that replaces it.

use crd::PodSet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{Node, born, mood, of_pod, pods, progress, status};
use crate::diagnosis::request_path::Component;
use crate::output::table::Cell;
use crate::resource::children::Section;
use crate::resource::pod;
use crate::terminal::ui::Style;

/// Returns the pod set with its pods; nothing without pods.
pub fn roots(set: &PodSet, all: &Section<Pod>, now: Timestamp) -> Vec<Node> {
    if all.as_ref().is_ok_and(Vec::is_empty) {
        return Vec::new();
    }
    let known = all.as_deref().unwrap_or_default();
    let is_successor = |one: &Pod| {
        let place = pod::replaces(one);
        place.is_some() && known.iter().any(|other| other.metadata.uid.as_deref() == place)
    };
    let is_settled = |one: &Pod| pod::is_ready(one) && !is_leaving(set, one);
    let count = |n: Option<i32>| n.unwrap_or(0);
    let status = set.status.clone().unwrap_or_default();
    let (wanted, ready) = (set.spec.replicas, count(status.ready_replicas));
    let word = progress(wanted, count(status.updated_replicas), ready);
    let ready = format!("{ready}/{wanted}").into();
    vec![Node {
        below: pods(
            all,
            |one| !is_successor(one),
            is_settled,
            |one| node(set, known, one, now),
        ),
        ..Node::new("PodSet", set, [ready, word, "-".into(), "-".into(), born(set, now)])
    }]
}

fn is_leaving(set: &PodSet, one: &Pod) -> bool {
    let uid = one.metadata.uid.as_deref();
    set.spec
        .replace_pods
        .iter()
        .any(|chosen| Some(chosen.uid.as_str()) == uid)
}

fn node(set: &PodSet, known: &[Pod], one: &Pod, now: Timestamp) -> Node {
    let word = status(one);
    let status = if is_leaving(set, one) && one.metadata.deletion_timestamp.is_none() {
        Cell::styled(format!("{word}, being replaced"), Style::Busy)
    } else {
        Cell::styled(word, mood(one))
    };
    let cells = of_pod(one, status, now);
    let uid = one.metadata.uid.as_deref();
    let successors = known.iter().filter(|next| uid.is_some() && pod::replaces(next) == uid);
    Node {
        below: successors.map(|next| node(set, known, next, now)).collect(),
        ..Node::new("Pod", one, cells).at(Component::Pod, !pod::is_ready(one))
    }
}
