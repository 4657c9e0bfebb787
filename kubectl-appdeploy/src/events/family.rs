//! Which events are about one and what belongs to it: a list for each kind, whatever the number of pods.

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use super::Type;
use crate::children::{self, Section};
use crate::connection::Cluster;
use crate::error::Result;
use crate::output;
use crate::workload::Workload;

/// How many of a kind are read: enough for any namespace that can still be helped.
const READ: u32 = 500;

/// Lists the events of one and of what belongs to it, oldest first. Children bear its name, revisions and pods a name
/// that begins with it.
pub async fn events(cluster: &Cluster, workload: &Workload, only: Option<Type>) -> Result<Vec<Event>> {
    match fetch(cluster, workload, only, only).await? {
        Ok(events) => Ok(events),
        Err(source) => Err(cluster.explain(source)),
    }
}

/// The same for a page: what is normal of pods is left out, and a right that is missing is a word.
pub async fn for_page(cluster: &Cluster, workload: &Workload) -> Result<Section<Event>> {
    let events = fetch(cluster, workload, None, Some(Type::Warning)).await?;
    children::section(cluster, events)
}

async fn fetch(
    cluster: &Cluster,
    workload: &Workload,
    own: Option<Type>,
    of_pods: Option<Type>,
) -> Result<kube::Result<Vec<Event>>> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let kinds: &[&str] = match workload {
        Workload::App(_) => &["ReplicaSet", "Pod"],
        Workload::PodSet(_) => &["Pod"],
    };
    let typed = |fields: String, only: Option<Type>| match only {
        Some(only) => format!("{fields},type={}", only.as_str()),
        None => fields,
    };
    let own = typed(format!("involvedObject.name={}", workload.name()), own);
    let others = kinds
        .iter()
        .map(|kind| typed(format!("involvedObject.kind={kind}"), of_pods));
    let lists = std::iter::once(own).chain(others).map(async |fields| {
        let params = ListParams::default().fields(&fields).limit(READ);
        cluster.attempt(api.list(&params)).await
    });
    let mut all = Vec::new();
    for list in join_all(lists).await {
        match list? {
            Ok(events) => all.extend(events.items),
            Err(source) => return Ok(Err(source)),
        }
    }
    all.retain(|event| is_of(event, workload));
    all.sort_by_key(order);
    Ok(Ok(all))
}

/// Whether an event is about a workload or about what belongs to it, also of pods that are gone.
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
            Workload::App(_) => ["Ingress", "Service", "Deployment"].contains(&kind),
            Workload::PodSet(_) => false,
        }
    } else {
        let rest = name
            .strip_prefix(workload.name())
            .and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| match (workload, kind) {
            (Workload::App(_), "ReplicaSet") => is_random(rest),
            (Workload::App(_), "Pod") => rest
                .split_once('-')
                .is_some_and(|(set, pod)| is_random(set) && is_random(pod) && pod.len() == 5),
            (Workload::PodSet(_), "Pod") => !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()),
            _ => false,
        })
    };
    let created = workload.meta().creation_timestamp.as_ref().map(|time| time.0);
    is_ours && last_seen(event) >= created
}

/// Whether a part of a name was made by Kubernetes: without vowels, and without what looks like one.
fn is_random(part: &str) -> bool {
    const LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
    !part.is_empty() && part.len() <= 10 && part.chars().all(|c| LETTERS.contains(c))
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

/// Returns an event as an object of its own: a list leaves out what it is.
pub fn complete(event: &Event) -> Value {
    let mut value = output::presentable(event);
    value["apiVersion"] = "v1".into();
    value["kind"] = "Event".into();
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::list::tests::{healthy, workers};
    use serde_json::json;

    fn is(workload: &Workload, kind: &str, name: &str, uid: Option<&str>, time: &str) -> bool {
        let event = serde_json::from_value(json!({"metadata": {}, "lastTimestamp": time,
            "involvedObject": {"kind": kind, "name": name, "uid": uid}}));
        is_of(&event.unwrap(), workload)
    }

    #[test]
    fn events_are_told_apart_by_name_and_kind() {
        const DAY: &str = "2026-06-01T11:00:00Z";
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
}
