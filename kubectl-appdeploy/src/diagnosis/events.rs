//! The events of workloads and their children, with one list for each kind of object.

pub mod table;

use std::collections::HashSet;

use clap::ValueEnum;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt as _};
use model::CHILDREN;
use serde_json::Value;

use crate::cluster::connection::Cluster;
use crate::cluster::pager::Pager;
use crate::error::{Error, Result};
use crate::output::formats;
use crate::resource::children::{self, Section};
use crate::resource::workload::Workload;

/// The length to which Kubernetes cuts a name before it appends random letters.
const LONGEST_BASE: usize = 58;
/// The number of random letters.
const RANDOM: usize = 5;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Type {
    /// An expected event.
    #[value(alias = "normal")]
    Normal,
    /// A possible problem.
    #[value(alias = "warning")]
    Warning,
}

impl Type {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Lists the events of workloads of one namespace and of their children, oldest first. Children have the name of their
/// workload; names of revisions and pods begin with it.
pub async fn events(cluster: &Cluster, all: &[Workload], only: Option<Type>) -> Result<Vec<Event>> {
    match fetch(cluster, all, only, only).await? {
        Ok(events) => Ok(events),
        Err(source) => Err(cluster.explain(source)),
    }
}

/// Lists the events for a page: without normal events of pods. A missing right is reported in one word.
pub async fn for_page(cluster: &Cluster, workload: &Workload) -> Result<Section<Event>> {
    let events = fetch(cluster, std::slice::from_ref(workload), None, Some(Type::Warning)).await?;
    children::section(cluster, events)
}

/// Lists the events of one object that has no pods, oldest first.
pub async fn of_object(cluster: &Cluster, kind: &str, meta: &ObjectMeta) -> Result<Section<Event>> {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), namespace);
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let mut pages = Pager::list(cluster, &api, ListParams::default().fields(&fields));
    let mut all = Vec::new();
    loop {
        match pages.attempt().await? {
            Ok(Some(page)) => all.extend(page),
            Ok(None) => break,
            Err(source) => return children::section(cluster, Err(source)),
        }
    }
    // One that was deleted may have had the same name.
    all.retain(|event: &Event| event.involved_object.uid.is_none() || event.involved_object.uid == meta.uid);
    all.sort_by_key(order);
    Ok(Ok(all))
}

async fn fetch(
    cluster: &Cluster,
    workloads: &[Workload],
    own: Option<Type>,
    of_pods: Option<Type>,
) -> Result<kube::Result<Vec<Event>>> {
    let namespace = workloads
        .first()
        .map_or(cluster.namespace.as_str(), Workload::namespace);
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), namespace);
    let kinds: &[&str] = match workloads.first() {
        Some(Workload::App(_)) => &["ReplicaSet", "Pod"],
        Some(Workload::PodSet(_)) => &["Pod"],
        None => &[],
    };
    let typed = |fields: String, only: Option<Type>| match only {
        Some(only) => format!("{fields},type={}", only.as_str()),
        None => fields,
    };
    let own = workloads
        .iter()
        .map(|one| typed(format!("involvedObject.name={}", one.name()), own));
    let others = kinds
        .iter()
        .map(|kind| typed(format!("involvedObject.kind={kind}"), of_pods));
    let lists = own.chain(others).map(async |fields| {
        let mut pages = Pager::list(cluster, &api, ListParams::default().fields(&fields));
        let mut ours = Vec::new();
        loop {
            match pages.attempt().await? {
                Ok(Some(page)) => ours.extend(
                    page.into_iter()
                        .filter(|event| workloads.iter().any(|one| is_of(event, one))),
                ),
                Ok(None) => return Ok(Ok(ours)),
                Err(source) => return Ok::<_, Error>(Err(source)),
            }
        }
    });
    let mut all = Vec::new();
    for list in join_all(lists).await {
        match list? {
            Ok(events) => all.extend(events),
            Err(source) => return Ok(Err(source)),
        }
    }
    // A pod of one workload can have the name of another workload, and is then in both lists.
    let mut known = HashSet::new();
    all.retain(|event: &Event| event.uid().is_none_or(|uid| known.insert(uid)));
    all.sort_by_key(order);
    Ok(Ok(all))
}

/// Whether an event is about a workload or its children, including deleted pods.
pub fn is_of(event: &Event, workload: &Workload) -> bool {
    let about = &event.involved_object;
    let (Some(kind), Some(name)) = (about.kind.as_deref(), about.name.as_deref()) else {
        return false;
    };
    let is_ours = if name == workload.name() {
        let own = workload.kind().as_str();
        match workload {
            // One that was deleted may have had the same name.
            _ if kind == own => about.uid.is_none() || about.uid == workload.meta().uid,
            Workload::App(_) => CHILDREN.iter().any(|child| child.kind == kind),
            Workload::PodSet(_) => false,
        }
    } else {
        let rest = || name.strip_prefix(workload.name())?.strip_prefix('-');
        match (workload, kind) {
            (Workload::App(_), "ReplicaSet") => rest().is_some_and(is_random),
            (Workload::App(_), "Pod") => is_pod(name, workload.name()),
            (Workload::PodSet(_), "Pod") => {
                rest().is_some_and(|slot| !slot.is_empty() && slot.bytes().all(|b| b.is_ascii_digit()))
            }
            _ => false,
        }
    };
    let created = workload.meta().creation_timestamp.as_ref().map(|time| time.0);
    is_ours && last_seen(event) >= created
}

/// Whether a part of a name was made by Kubernetes: without vowels, and without what looks like one.
fn is_random(part: &str) -> bool {
    const LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
    !part.is_empty() && part.len() <= 10 && part.chars().all(|c| LETTERS.contains(c))
}

/// Whether a pod's name was generated from the name of this app: with the hash of a `ReplicaSet` and five random letters after it.
/// Kubernetes keeps [`LONGEST_BASE`] characters before those letters. The name of an app has at most 53, so only the hash is cut.
fn is_pod(name: &str, app: &str) -> bool {
    let hash = || {
        let (base, random) = name.split_at_checked(name.len().checked_sub(RANDOM)?)?;
        let hash = base.strip_prefix(app)?.strip_prefix('-')?;
        let whole = hash.strip_suffix('-');
        let cut = (base.len() == LONGEST_BASE).then_some(hash);
        is_random(random).then_some(whole.or(cut)?)
    };
    hash().is_some_and(is_random)
}

/// Returns when an event was seen last.
pub fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref().map(|t| t.0));
    series
        .or(event.last_timestamp.as_ref().map(|t| t.0))
        .or(event.event_time.as_ref().map(|t| t.0))
        .or(event.metadata.creation_timestamp.as_ref().map(|t| t.0))
}

/// Returns the place of an event in the order of time. Most times have whole seconds; the names of events end with
/// the nanosecond at which they were made.
pub fn order(event: &Event) -> (Option<i64>, u64) {
    let name = event.metadata.name.as_deref().unwrap_or_default();
    let made = name
        .rsplit_once('.')
        .and_then(|(_, made)| u64::from_str_radix(made, 16).ok());
    (last_seen(event).map(Timestamp::as_second), made.unwrap_or_default())
}

/// Returns an event with its kind and version, which the items of a list do not have.
pub fn complete(event: &Event) -> Value {
    let mut value = formats::presentable(event);
    value["apiVersion"] = "v1".into();
    value["kind"] = "Event".into();
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::observe::status::list::tests::{healthy, workers};
    use serde_json::json;

    const DAY: &str = "2026-06-01T11:00:00Z";

    fn is(workload: &Workload, kind: &str, name: &str, uid: Option<&str>, time: &str) -> bool {
        let event = serde_json::from_value(json!({"metadata": {}, "lastTimestamp": time,
            "involvedObject": {"kind": kind, "name": name, "uid": uid}}));
        is_of(&event.unwrap(), workload)
    }

    #[test]
    fn events_are_selected_by_name_and_kind() {
        let shop = healthy();
        for (kind, name, expected) in [
            ("Ingress", "shop", true),
            ("Deployment", "shop", true),
            ("Deployment", "shop-blog", false),
            ("ConfigMap", "shop", false),
            ("ReplicaSet", "shop-5d4f8c7b6d", true),
            ("ReplicaSet", "shop-blog-5d4f8c7b6d", false),
            ("Pod", "shop-5d4f8c7b6d-x2x9k", true),
            ("Pod", "shop-blog-x2x9k", false),
            ("Pod", "shop-blog-5d4f8c7b6d-x2x9k", false),
            ("Pod", "shopping-5d4f8c7b6d-x2x9k", false),
        ] {
            assert_eq!(is(&shop, kind, name, None, DAY), expected, "{kind}/{name}");
        }
        assert!(is(&shop, "AppDeploy", "shop", Some("shop"), DAY));
        assert!(!is(&shop, "AppDeploy", "shop", Some("another"), DAY));
        // Of one with the same name that was there before.
        assert!(!is(&shop, "Deployment", "shop", None, "2026-05-31T23:00:00Z"));
        assert!(is(&workers(), "Pod", "workers-12", None, DAY));
        assert!(!is(&workers(), "Pod", "workers-x2x9k", None, DAY));
        assert!(!is(&workers(), "Deployment", "workers", None, DAY));
    }

    /// As names.SimpleNameGenerator of k8s.io/apiserver generates names of pods.
    #[test]
    fn pods_of_apps_with_long_names_are_recognized() {
        let set = |app: &str| format!("{app}-5d4f8c7b6d");
        let pod = |app: &str| {
            let base = format!("{}-", set(app));
            format!("{}x2x9k", &base[..base.len().min(LONGEST_BASE)])
        };
        for length in 1..=53 {
            let app = "a".repeat(length);
            assert!(is_pod(&pod(&app), &app), "{}", pod(&app));
            for other in [format!("{app}-area"), format!("{app}b")] {
                assert!(!is_pod(&pod(&other), &app), "{} of {app}", pod(&other));
            }
        }
        let app = "shop-with-a-very-long-name-that-people-still-can-read"; // 53 letters
        assert_eq!(
            pod(app),
            "shop-with-a-very-long-name-that-people-still-can-read-5d4fx2x9k"
        );
        for name in [
            "",
            "x2x9k",
            "shop",
            "shop-x2x9k",
            "shop-5d4f8c7b6d-",
            "shop-5d4f8c7b6d-é2x9k",
        ] {
            assert!(!is_pod(name, "shop"), "{name:?}");
        }
    }
}
