//! One of the two sets, in a namespace of its own: what is done to it, and how it comes to rest.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use kube::Error;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::differential::schedule::{Act, Burst, OrphanName};
use crate::differential::sight::Sight;
use crate::harness::{Kind, Namespace, PATIENCE, POD, PODSET, REPLICA_SET, ready, text, uid};

/// What both sets are called.
const NAME: &str = "web";

/// Who keeps the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    PodSet,
    ReplicaSet,
}

impl Rival {
    pub const BOTH: [Self; 2] = [Self::PodSet, Self::ReplicaSet];

    const fn kind(self) -> Kind {
        match self {
            Self::PodSet => PODSET,
            Self::ReplicaSet => REPLICA_SET,
        }
    }

    /// Returns the label that makes a pod one of the set's; its value is the set's name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::PodSet => crd::label::PODSET,
            Self::ReplicaSet => "set",
        }
    }

    /// Returns what the set itself says is still to come. A ReplicaSet says nothing of the kind.
    pub fn unrest_of(self, set: &Value) -> Option<String> {
        let (status, reason) = ready(set);
        (self == Self::PodSet && status != "True").then(|| format!("it is not ready: {reason}"))
    }

    fn spec(self, replicas: u8) -> Value {
        match self {
            Self::PodSet => json!({"replicas": replicas}),
            Self::ReplicaSet => json!({
                "replicas": replicas,
                "selector": {"matchLabels": {self.label(): NAME}},
                "template": {"metadata": {"labels": {self.label(): NAME}}, "spec": containers()},
            }),
        }
    }
}

fn containers() -> Value {
    json!({"containers": [{"name": "main", "image": "busybox"}]})
}

/// What a burst has done to labels.
#[derive(Debug, Default)]
pub struct Done {
    /// The pods that have lost the label.
    pub stripped: Vec<Value>,
    /// How many have it again.
    pub restored: usize,
}

/// A set at work.
pub struct Side {
    pub rival: Rival,
    pub space: Namespace,
    orphans: u32,
}

impl Side {
    /// Creates the set.
    pub fn start(rival: Rival, space: Namespace, replicas: u8) -> Self {
        let set = json!({"metadata": {"name": NAME}, "spec": rival.spec(replicas)});
        space.create(rival.kind(), set);
        Self {
            rival,
            space,
            orphans: 0,
        }
    }

    /// Does what a burst says, one after the other and without waiting for what comes of it.
    pub fn play(&mut self, burst: &Burst, rest: &Sight) -> Done {
        let (mut owned, mut released) = (rest.owned.clone(), rest.released.clone());
        let mut done = Done::default();
        for act in &burst.acts {
            match *act {
                Act::Scale(to) => {
                    self.space
                        .patch(self.rival.kind(), NAME, Patch::Merge(json!({"spec": {"replicas": to}})));
                }
                Act::Delete(rank) => self.with(&mut owned, rank, Self::delete),
                Act::Fail(rank) => self.with(&mut owned, rank, Self::fail),
                Act::Strip(rank) => self.with(&mut owned, rank, |side, pod| {
                    side.label(pod, Value::Null);
                    done.stripped.push(pod.clone());
                }),
                Act::Restore(rank) => self.with(&mut released, rank, |side, pod| {
                    side.label(pod, json!(NAME));
                    done.restored += 1;
                }),
                Act::Flap(rank) => self.with(&mut owned, rank, |side, pod| {
                    side.label(pod, Value::Null);
                    side.label(pod, json!(NAME));
                }),
                Act::Orphan(name) => self.orphan(name),
            }
        }
        done
    }

    /// Waits until the set has settled with so many pods, and so many released ones.
    ///
    /// # Errors
    /// Says what is not as it is to be.
    pub fn rest(&self, replicas: u8, released: &RangeInclusive<usize>) -> Result<Sight, String> {
        let started = Instant::now();
        let mut wait = Duration::from_millis(50);
        loop {
            let pods = self.space.list(POD);
            let sight = Sight::of(self.rival, &self.space.get(self.rival.kind(), NAME), pods);
            let Some(difference) = sight.differs(replicas.into(), released) else {
                return Ok(sight);
            };
            if started.elapsed() > PATIENCE {
                return Err(format!("the {:?} does not come to rest: {difference}", self.rival));
            }
            std::thread::sleep(wait);
            wait = (wait * 3 / 2).min(Duration::from_millis(400));
        }
    }

    /// Deletes a pod, unless another one of its name has taken its place.
    pub fn delete(&self, pod: &Value) {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid(pod).to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let api = self.space.api(POD);
        unless_gone(self.space.cluster.block_on(api.delete(name(pod), &params)));
    }

    /// Gives a pod the label with this value, or takes it away.
    pub fn label(&self, pod: &Value, value: Value) {
        self.patch(pod, json!({"metadata": {"labels": {self.rival.label(): value}}}));
    }

    /// Changes a pod, unless another one of its name has taken its place.
    pub fn patch(&self, pod: &Value, mut patch: Value) {
        patch["metadata"]["uid"] = json!(uid(pod));
        let (api, params, patch) = (self.space.api(POD), PatchParams::default(), Patch::Merge(patch));
        unless_gone(self.space.cluster.block_on(api.patch(name(pod), &params, &patch)));
    }

    /// Does something to the pod of a rank, if there is one, and takes it off the list.
    fn with(&self, pods: &mut Vec<Value>, rank: usize, act: impl FnOnce(&Self, &Value)) {
        if !pods.is_empty() {
            act(self, &pods.remove(rank % pods.len()));
        }
    }

    fn fail(&self, pod: &Value) {
        let patch = Patch::Merge(json!({
            "metadata": {"uid": uid(pod)}, "status": {"phase": "Failed", "reason": "Evicted"},
        }));
        let (api, params) = (self.space.api(POD), PatchParams::default());
        let failed = api.patch_subresource("status", name(pod), &params, &patch);
        unless_gone(self.space.cluster.block_on(failed));
    }

    fn orphan(&mut self, name: OrphanName) {
        self.orphans += 1;
        let name = match name {
            OrphanName::Own => format!("orphan-{}", self.orphans),
            OrphanName::Slot(slot) => format!("{NAME}-{slot}"),
        };
        let pod = json!({"metadata": {"name": name, "labels": {self.rival.label(): NAME}}, "spec": containers()});
        match self.space.try_create(POD, pod) {
            Ok(_) => {}
            // The set has a pod of that name, and one more or less makes no difference.
            Err(Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => panic!("the pod {name} can't be created: {error}"),
        }
    }
}

fn name(pod: &Value) -> &str {
    text(pod, "/metadata/name")
}

/// Ignores errors of an action on a pod that was deleted or recreated in the meantime.
fn unless_gone<T>(answer: Result<T, Error>) {
    match answer {
        Ok(_) => {}
        Err(Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
        Err(error) => panic!("{error}"),
    }
}
