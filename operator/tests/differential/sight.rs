//! A set and its pods, as everybody can see them.

use std::ops::RangeInclusive;

use serde_json::Value;

use crate::differential::side::Rival;
use crate::harness::{ready, text, uid};

/// What is seen of a set.
#[derive(Debug, Default)]
pub struct Sight {
    /// The pods that count as the set's: controlled by it and neither ended nor ending. In the order of their age.
    pub owned: Vec<Value>,
    /// The released pods, by age.
    pub released: Vec<Value>,
    /// What is still to happen, whatever is wanted.
    pub unrest: Vec<String>,
    /// What the status says of the number of pods: those there, and those ready. `None` while it is about an older spec.
    reported: Option<(u64, u64)>,
}

impl Sight {
    /// Looks at a set and all pods of its namespace.
    pub fn of(rival: Rival, set: &Value, mut pods: Vec<Value>) -> Self {
        let mut sight = Self {
            reported: reported(set),
            ..Self::default()
        };
        // Timestamps of Kubernetes sort as text.
        pods.sort_by_cached_key(|pod| {
            ["creationTimestamp", "name"].map(|field| text(&pod["metadata"], &format!("/{field}")).to_owned())
        });
        for pod in pods {
            sight.take(rival, set, pod);
        }
        if let Some(unrest) = rival.unrest_of(set) {
            sight.unrest.push(unrest);
        }
        sight
    }

    /// Returns the difference from so many owned pods and so many released ones.
    pub fn differs(&self, replicas: usize, released: &RangeInclusive<usize>) -> Option<String> {
        let count = u64::try_from(replicas).unwrap_or(u64::MAX);
        let at_rest = self.unrest.is_empty() && self.reported == Some((count, count));
        let as_wanted = self.owned.len() == replicas && released.contains(&self.released.len());
        (!at_rest || !as_wanted).then(|| {
            format!(
                "{} owned of {replicas}, {} released of {released:?}, reported (existing, ready): {:?}, to come: {:?}",
                self.owned.len(),
                self.released.len(),
                self.reported,
                self.unrest
            )
        })
    }

    fn take(&mut self, rival: Rival, set: &Value, pod: Value) {
        let name = text(&pod, "/metadata/name").to_owned();
        let mut unrest = |what: &str| self.unrest.push(format!("{name} {what}"));
        let controller = pod["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|owner| owner["controller"] == true);
        let is_owned = controller.is_some_and(|owner| owner["uid"] == uid(set));
        let is_selected = pod["metadata"]["labels"][rival.label()] == text(set, "/metadata/name");
        if pod["metadata"].get("deletionTimestamp").is_some() {
            unrest("is ending");
        } else if matches!(text(&pod, "/status/phase"), "Failed" | "Succeeded") {
            if rival == Rival::PodSet {
                unrest("has ended, and its name is needed");
            }
        } else if ready(&pod).0 != "True" {
            unrest("is not ready");
        } else if is_owned != is_selected {
            unrest(if is_owned { "is not released" } else { "is not adopted" });
        } else if is_owned {
            self.owned.push(pod);
        } else {
            self.released.push(pod);
        }
    }
}

fn reported(set: &Value) -> Option<(u64, u64)> {
    let status = &set["status"];
    let count = |field: &str| status[field].as_u64().unwrap_or(0);
    (status["observedGeneration"] == set["metadata"]["generation"]).then(|| (count("replicas"), count("readyReplicas")))
}
