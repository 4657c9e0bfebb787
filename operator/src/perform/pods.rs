//! Carries out the steps of a PodSet: writes to its pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crd::PodSet;
use futures::future::join_all;
use http::Request as HttpRequest;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use kube::api::{DeleteParams, GetParams, Patch, PostParams, Preconditions};
use kube::core::{Request, request};
use model::podset::{self, Creation, Hindrance, PodRef, Removal, SetPod, Step, Taken, Verb, Wanted};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::info;

use crate::attempt;
use crate::call::{CallError, Caller, about, by_us, is_another_uid};
use crate::key::Key;
use crate::seeded::{self, Bug};
use crate::world::World;
use crate::world::set_pods::set_pod;

/// How many requests for pods are under way at a time, for all PodSets together.
pub const CONCURRENCY: usize = 64;

/// What the writes of a PodSet need.
pub struct Performer<'a> {
    /// Who sends them.
    pub caller: &'a Caller,
    /// Where answers are taken in.
    pub world: &'a World,
    /// Whom to tell of other PodSets that an answer concerns.
    pub wake: &'a (dyn Fn(Key) + Sync),
    /// How many may be under way.
    pub slots: &'a Semaphore,
    /// The name of the PodSet.
    pub key: &'a Key,
    /// The PodSet.
    pub set: &'a PodSet,
    /// The same, as decisions are made by it.
    pub wanted: &'a Wanted,
}

/// What became of a step.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What failed.
    pub hindrances: Vec<Hindrance>,
    /// Names that turned out to be taken.
    pub taken: BTreeMap<u16, Taken>,
    /// What was deleted.
    pub removed: Vec<Removal>,
    /// Something was not as it was believed to be, and what is known was set right.
    pub mistaken: bool,
}

/// What became of one write.
enum Answer {
    Done,
    Removed(Removal),
    Mistaken,
    Taken(u16, Taken),
}

type Written = Result<Answer, Hindrance>;

impl Performer<'_> {
    /// Carries out a step and takes in the answers.
    pub async fn perform(&self, step: &Step) -> Outcome {
        let answers: Vec<Written> = match step {
            Step::Settled => Vec::new(),
            Step::Release(pods) => join_all(pods.iter().map(|pod| self.release(pod))).await,
            Step::Adopt(pods) => self.adopt(pods).await,
            Step::Create(creations) => join_all(creations.iter().map(|creation| self.create(creation))).await,
            Step::Delete(removals) => join_all(removals.iter().map(|removal| self.delete(removal))).await,
            Step::Update(updates) => {
                join_all(updates.iter().map(|update| async {
                    info!(
                        pod = update.pod.name,
                        image = self.set.spec.template.image,
                        "changing the image in place"
                    );
                    let patch = podset::updated(self.set, self.wanted, update);
                    self.patch(&update.pod, patch).await
                }))
                .await
            }
        };
        let mut outcome = Outcome::default();
        for answer in answers {
            match answer {
                Ok(Answer::Done) => {}
                Ok(Answer::Removed(removal)) => outcome.removed.push(removal),
                Ok(Answer::Mistaken) => outcome.mistaken = true,
                Ok(Answer::Taken(slot, by)) => drop(outcome.taken.insert(slot, by)),
                Err(hindrance) => outcome.hindrances.push(hindrance),
            }
        }
        outcome
    }

    /// Looks at a pod that a watch by label no longer shows. If it is still there and still refers to this PodSet, it
    /// has lost its label, and is taken in to be let go.
    ///
    /// # Errors
    /// Says why it could not be looked at.
    pub async fn look_at_lost(&self, pod: &PodRef) -> Result<(), Hindrance> {
        match self.get(&pod.name).await {
            Ok(live) => {
                if SetPod::read(&live).is_controlled_by(self.wanted) {
                    self.take_in(&live);
                }
                Ok(())
            }
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error.failure("get", "Pod", &pod.name).into()),
        }
    }

    async fn create(&self, creation: &Creation) -> Written {
        let name = self.wanted.pod_name(creation.slot);
        let object = podset::pod(self.set, self.wanted, creation);
        let params = PostParams {
            field_manager: Some(crd::FIELD_MANAGER.into()),
            dry_run: false,
        };
        let sent = seeded::created(&object).to_string();
        let request = self.collection().create(&params, sent.into_bytes());
        match self
            .send::<Pod>("create", request)
            .await
            .and_then(|pod| about(&name, pod))
        {
            Ok(pod) => {
                info!(pod = name, "created");
                self.take_in(&pod);
                Ok(Answer::Done)
            }
            Err(CallError::Refused(status)) if status.is_already_exists() => self.who_has_the_name(creation.slot).await,
            Err(error) => Err(hindrance(Verb::Create, error, "create", &name)),
        }
    }

    /// A name that we thought was free is taken. If the pod is ours (our own create was committed although its answer
    /// was lost, or the other operator was faster) or may become so, it is taken in. If not, it is left as it is.
    async fn who_has_the_name(&self, slot: u16) -> Written {
        let name = self.wanted.pod_name(slot);
        match self.get(&name).await {
            Ok(live) => {
                let pod = SetPod::read(&live);
                let may_be_ours = pod.controller.is_none() && pod.is_selected_by(self.wanted);
                let is_ours = pod.is_controlled_by(self.wanted) || may_be_ours;
                if is_ours && self.take_in(&live) {
                    return Ok(Answer::Mistaken);
                }
                Ok(Answer::Taken(slot, Taken::by(&pod, self.wanted)))
            }
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(Answer::Mistaken),
            Err(error) => Err(hindrance(Verb::Create, error, "get", &name)),
        }
    }

    async fn delete(&self, removal: &Removal) -> Written {
        let PodRef { name, uid } = &removal.pod;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = self.collection().delete(name, &params);
        // The answer is the pod, or a Status where it is gone at once.
        match self.send::<Value>("delete", request).await {
            Ok(answer) => {
                info!(pod = name, why = ?removal.why, "deleted");
                if let Ok(pod) = serde_json::from_value::<Pod>(answer) {
                    let mut item = set_pod(&pod);
                    Arc::make_mut(&mut item.value).pod.deleting = true;
                    let cache = &self.world.set_pods.kind.cache;
                    if item.value.ends_unseen() {
                        cache.remove(&item.key, &item.version);
                    } else {
                        cache.upsert_known(item);
                    }
                }
                // What is known may be newer than the answer, and still older than the deletion.
                self.amend(name, uid, |pod| pod.deleting = true);
                Ok(Answer::Removed(removal.clone()))
            }
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => {
                self.forget(name, uid);
                Ok(Answer::Mistaken)
            }
            Err(error) => Err(hindrance(Verb::Delete, error, "delete", name)),
        }
    }

    async fn release(&self, pod: &PodRef) -> Written {
        if seeded::is(Bug::NotLetGo) {
            return Ok(Answer::Done);
        }
        info!(pod = pod.name, "letting go: it has lost the label");
        let answer = self.patch(pod, podset::released(self.wanted, pod)).await?;
        // It keeps its name.
        Ok(match (answer, self.wanted.slot_of(&pod.name)) {
            (Answer::Done, Some(slot)) => Answer::Taken(slot, Taken::Released),
            (answer, _) => answer,
        })
    }

    /// Takes pods in. The set is known to be there.
    async fn adopt(&self, pods: &[PodRef]) -> Vec<Written> {
        let known = self.world.set_pods.kind.cache.members(self.key);
        join_all(pods.iter().map(|pod| async {
            info!(pod = pod.name, "taking in: it has the label and no controller");
            let Some(member) = known.iter().find(|member| member.pod.uid == pod.uid) else {
                return Ok(Answer::Mistaken);
            };
            self.patch(pod, podset::adopted(self.set, self.wanted, &member.pod))
                .await
        }))
        .await
    }

    async fn patch(&self, pod: &PodRef, patch: Value) -> Written {
        let request = self.collection().patch(&pod.name, &by_us(), &Patch::Strategic(&patch));
        let answer = self.send::<Pod>("patch", request).await;
        match answer.and_then(|live| about(&pod.name, live)) {
            Ok(live) => {
                self.take_in(&live);
                Ok(Answer::Done)
            }
            // The pod that we meant is gone, whether or not a namesake took its place.
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => {
                self.forget(&pod.name, &pod.uid);
                Ok(Answer::Mistaken)
            }
            // It has changed since this was decided, which the watch has not reported yet.
            Err(CallError::Refused(status))
                if status.is_conflict() && patch["metadata"]["resourceVersion"].is_string() =>
            {
                match self.get(&pod.name).await {
                    Ok(live) => drop(self.take_in(&live)),
                    Err(CallError::Refused(status)) if status.is_not_found() => self.forget(&pod.name, &pod.uid),
                    Err(error) => return Err(hindrance(Verb::Other, error, "get", &pod.name)),
                }
                Ok(Answer::Mistaken)
            }
            Err(error) => Err(hindrance(Verb::Other, error, "patch", &pod.name)),
        }
    }

    async fn get(&self, name: &str) -> Result<Pod, CallError> {
        let request = self.collection().get(name, &GetParams::default());
        about(name, self.send("get", request).await?)
    }

    async fn send<T: serde::de::DeserializeOwned>(
        &self,
        verb: &'static str,
        request: Result<HttpRequest<Vec<u8>>, request::Error>,
    ) -> Result<T, CallError> {
        // Other PodSets may have all slots for longer than this attempt lasts. They are never closed, so never refused.
        let Ok(_slot) = timeout(attempt::time_left(Duration::MAX), self.slots.acquire()).await else {
            return Err(CallError::Lost("too many other requests for pods are under way".into()));
        };
        self.caller.send(verb, "pods", request).await
    }

    /// Takes a pod in. One that has nothing to do with any PodSet any more is forgotten, and so is one of which no watch
    /// tells when it is gone. To another PodSet it is news that the watch will not tell again. Returns whether it is kept.
    fn take_in(&self, pod: &Pod) -> bool {
        let item = set_pod(pod);
        let cache = &self.world.set_pods.kind.cache;
        if item.owners.is_empty() || item.value.ends_unseen() {
            // With its version, so that a watch that lags behind does not bring it back.
            cache.remove(&item.key, &item.version);
            return false;
        }
        let concerned = cache.upsert(item);
        for other in concerned.into_iter().filter(|owner| owner != self.key) {
            (self.wake)(other);
        }
        true
    }

    fn forget(&self, name: &str, uid: &str) {
        let key = Key::new(&self.key.namespace, name);
        self.world
            .set_pods
            .kind
            .cache
            .forget_if(&key, |member| member.pod.uid == uid);
    }

    fn amend(&self, name: &str, uid: &str, change: impl FnOnce(&mut SetPod)) {
        let key = Key::new(&self.key.namespace, name);
        self.world.set_pods.kind.cache.amend(&key, |member| {
            if member.pod.uid == uid {
                change(&mut Arc::make_mut(member).pod);
            }
        });
    }

    fn collection(&self) -> Request {
        Request::new(Pod::url_path(&(), Some(&self.key.namespace)))
    }
}

fn hindrance(verb: Verb, error: CallError, word: &str, pod: &str) -> Hindrance {
    Hindrance {
        verb,
        failure: error.failure(word, "Pod", pod),
    }
}
