//! Carries out the steps of a PodSet: writes to its pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crd::PodSet;
use futures::future::{BoxFuture, join_all};
use futures::{FutureExt as _, StreamExt as _, stream};
use http::Request as HttpRequest;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use kube::api::{DeleteParams, GetParams, Patch, PostParams, Preconditions};
use kube::core::{Request, request};
use model::Failure;
use model::digest::missing;
use model::podset::{self, Creation, Deletion, NameHolder, PodError, PodRef, SetPod, Step, Update, ValidPodSet, Verb};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::info;

use crate::attempt;
use crate::call::{CallError, Caller, about, by_us, is_another_uid};
use crate::key::Key;
use crate::stores::Stores;
use crate::stores::set_pods::{Member, set_pod};

/// How many requests for pods run concurrently, for all PodSets together, in addition to one for each PodSet.
pub const CONCURRENCY: usize = 64;

/// How many requests of one PodSet run concurrently.
const SHARE: usize = 16;

/// How long a step may last before the PodSet is reconciled again. A reconcile has a deadline, and a batch may take as long as a
/// request that gets no answer.
const STEP_LASTS: Duration = Duration::from_secs(5);

/// Writes the pods of a PodSet.
pub struct Applier<'a> {
    /// Sends the requests.
    pub caller: &'a Caller,
    /// Where answers are stored.
    pub stores: &'a Stores,
    /// Queues other PodSets that an answer concerns.
    pub wake: &'a (dyn Fn(Key) + Sync),
    /// The permits for concurrent requests, shared by all PodSets.
    pub slots: &'a Semaphore,
    /// One more permit, for this PodSet only: it does not wait for requests of other sets.
    pub own_slot: Semaphore,
    /// The name of the PodSet.
    pub key: &'a Key,
    /// The PodSet.
    pub set: &'a PodSet,
    /// Its valid spec.
    pub valid: &'a ValidPodSet,
}

/// The outcome of a step.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What failed.
    pub errors: Vec<PodError>,
    /// The names that creates have found taken.
    pub taken: BTreeMap<u16, NameHolder>,
    /// The deleted pods.
    pub removed: Vec<Deletion>,
    /// Cached pods were outdated and have been corrected.
    pub stale: bool,
    /// The fields that the API server has not stored, if a pod was created.
    pub dropped: Option<Vec<String>>,
}

/// The outcome of one write.
enum Answer {
    Done,
    /// A pod was created, without these fields.
    Created(Vec<String>),
    Removed(Deletion),
    Mistaken,
    Taken(u16, NameHolder),
}

type Written = Result<Answer, PodError>;

impl Applier<'_> {
    /// Carries out a step, or a part of it, and stores the answers. The first batch has `pace` requests, and each batch after a
    /// successful one has twice as many.
    pub async fn execute(&self, step: &Step, pace: usize) -> Outcome {
        let known: HashMap<String, Arc<Member>>;
        let writes: Vec<BoxFuture<'_, Written>> = match step {
            Step::Settled => Vec::new(),
            Step::Release(pods) => pods.iter().map(|pod| self.release(pod).boxed()).collect(),
            Step::Adopt(pods) => {
                let members = self.stores.set_pods.kind.cache.members(self.key);
                known = members
                    .into_iter()
                    .map(|member| (member.pod.uid.clone(), member))
                    .collect();
                pods.iter().map(|pod| self.adopt(pod, &known).boxed()).collect()
            }
            Step::Create(creations) => creations.iter().map(|creation| self.create(creation).boxed()).collect(),
            Step::Delete(removals) => removals.iter().map(|removal| self.delete(removal).boxed()).collect(),
            Step::Update(updates) => updates.iter().map(|update| self.update(update).boxed()).collect(),
        };
        let answers = in_batches(writes, pace).await;
        let mut outcome = Outcome::default();
        for answer in answers {
            match answer {
                Ok(Answer::Done) => {}
                Ok(Answer::Created(dropped)) => outcome.dropped = Some(dropped),
                Ok(Answer::Removed(removal)) => outcome.removed.push(removal),
                Ok(Answer::Mistaken) => outcome.stale = true,
                Ok(Answer::Taken(slot, by)) => drop(outcome.taken.insert(slot, by)),
                Err(error) => outcome.errors.push(error),
            }
        }
        outcome
    }

    /// Reads pods that the watch no longer reports, several concurrently. Returns those that were read, and why another one could not
    /// be read.
    pub async fn read_all_lost(&self, pods: &[PodRef]) -> (Vec<PodRef>, Option<PodError>) {
        let mut looks = stream::iter(pods.iter().cloned())
            .map(|pod| async move { self.read_lost(&pod).await.map(|()| pod) })
            .boxed()
            .buffer_unordered(SHARE);
        let mut found = Vec::new();
        while let Some(look) = looks.next().await {
            match look {
                Ok(pod) => found.push(pod),
                Err(error) => return (found, Some(error)),
            }
        }
        (found, None)
    }

    /// Reads a pod that the watch no longer reports. If it exists and still refers to this PodSet, it has lost its label, and is
    /// stored, so that it is released.
    ///
    /// # Errors
    /// Returns why it could not be read.
    async fn read_lost(&self, pod: &PodRef) -> Result<(), PodError> {
        match self.get(&pod.name).await {
            Ok(live) => {
                if SetPod::read(&live).is_controlled_by(self.valid) {
                    self.store(&live);
                }
                Ok(())
            }
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error.failure("get", "Pod", &pod.name).into()),
        }
    }

    async fn create(&self, creation: &Creation) -> Written {
        let name = self.valid.pod_name(creation.slot);
        let object = podset::pod(self.set, self.valid, creation);
        let params = PostParams {
            field_manager: Some(crd::FIELD_MANAGER.into()),
            dry_run: false,
        };
        let body = serde_json::to_vec(&object).map_err(request::Error::SerializeBody);
        let request = body.and_then(|body| self.collection().create(&params, body));
        match self
            .send::<Pod>("create", request)
            .await
            .and_then(|pod| about(&name, pod))
        {
            Ok(pod) => {
                info!(pod = name, "created");
                self.store(&pod);
                // A typed object always serialises: its keys are text.
                let stored = serde_json::to_value(&pod).unwrap_or_default();
                Ok(Answer::Created(missing(&object, &stored)))
            }
            Err(CallError::Refused(status)) if status.is_already_exists() => self.read_name_owner(creation.slot).await,
            Err(error) => Err(pod_error(Verb::Create, error, "create", &name)),
        }
    }

    /// Reads the pod whose name was expected to be free. If it is ours (the answer to its creation was lost, or another operator was
    /// faster) or may be adopted, it is stored. Otherwise it stays as it is.
    async fn read_name_owner(&self, slot: u16) -> Written {
        let name = self.valid.pod_name(slot);
        match self.get(&name).await {
            Ok(live) => {
                let pod = SetPod::read(&live);
                let may_be_ours = pod.controller.is_none() && pod.is_selected_by(self.valid);
                let is_ours = pod.is_controlled_by(self.valid) || may_be_ours;
                if is_ours && self.store(&live) {
                    return Ok(Answer::Mistaken);
                }
                Ok(Answer::Taken(slot, NameHolder::by(&pod, self.valid)))
            }
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(Answer::Mistaken),
            Err(error) => Err(pod_error(Verb::Create, error, "get", &name)),
        }
    }

    async fn delete(&self, removal: &Deletion) -> Written {
        let PodRef { name, uid } = &removal.pod;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = self.collection().delete(name, &params);
        // The answer is the pod, or a Status if it was deleted immediately.
        match self.send::<Value>("delete", request).await {
            Ok(answer) => {
                info!(pod = name, why = ?removal.reason, "deleted");
                if let Ok(pod) = serde_json::from_value::<Pod>(answer) {
                    let mut item = set_pod(&pod);
                    Arc::make_mut(&mut item.value).pod.deleting = true;
                    let cache = &self.stores.set_pods.kind.cache;
                    if item.value.ends_unseen() {
                        cache.remove(&item.key, &item.version);
                    } else {
                        cache.upsert_known(item);
                    }
                }
                // The cached pod may be newer than the answer, and still older than the deletion.
                self.amend(name, uid, |pod| pod.deleting = true);
                Ok(Answer::Removed(removal.clone()))
            }
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => {
                self.forget(name, uid);
                Ok(Answer::Mistaken)
            }
            Err(error) => Err(pod_error(Verb::Delete, error, "delete", name)),
        }
    }

    async fn release(&self, pod: &PodRef) -> Written {
        info!(pod = pod.name, "releasing: it has lost the label");
        let answer = match self.patch(pod, podset::release_patch(self.valid, pod)).await {
            Err(refused) if matches!(refused.failure, Failure::Rejected { .. }) => {
                self.read_released(pod, refused).await?
            }
            answer => answer?,
        };
        // It keeps its name.
        Ok(match (answer, self.valid.slot_of(&pod.name)) {
            (Answer::Done, Some(slot)) => Answer::Taken(slot, NameHolder::Released),
            (answer, _) => answer,
        })
    }

    /// Reads a pod whose release was refused. If an earlier release was done and its answer was lost, the pod has no controller, and
    /// the policy of the operator refuses a change of it.
    async fn read_released(&self, pod: &PodRef, refused: PodError) -> Written {
        let Ok(live) = self.read_again(pod).await else {
            return Err(refused);
        };
        match live.as_ref().map(SetPod::read).filter(|live| live.uid == pod.uid) {
            Some(live) if live.is_controlled_by(self.valid) => Err(refused),
            Some(_) => Ok(Answer::Done),
            None => Ok(Answer::Mistaken),
        }
    }

    /// Adopts a pod, which is one of `known`. The set was verified to exist.
    async fn adopt(&self, pod: &PodRef, known: &HashMap<String, Arc<Member>>) -> Written {
        info!(pod = pod.name, "adopting: it has the label and no controller");
        let Some(member) = known.get(&pod.uid) else {
            return Ok(Answer::Mistaken);
        };
        self.patch(pod, podset::adoption_patch(self.set, self.valid, &member.pod))
            .await
    }

    async fn update(&self, update: &Update) -> Written {
        info!(
            pod = update.pod.name,
            image = self.set.spec.pod().container.image,
            "changing the image in place"
        );
        self.patch(&update.pod, podset::update_patch(self.set, self.valid, update))
            .await
    }

    async fn patch(&self, pod: &PodRef, patch: Value) -> Written {
        let request = self.collection().patch(&pod.name, &by_us(), &Patch::Strategic(&patch));
        let answer = self.send::<Pod>("patch", request).await;
        match answer.and_then(|live| about(&pod.name, live)) {
            Ok(live) => {
                self.store(&live);
                Ok(Answer::Done)
            }
            // The pod was deleted, whether or not another one has its name now.
            Err(CallError::Refused(status)) if status.is_not_found() || is_another_uid(&status) => {
                self.forget(&pod.name, &pod.uid);
                Ok(Answer::Mistaken)
            }
            // It has changed since this was decided, which the watch has not reported yet.
            Err(CallError::Refused(status))
                if status.is_conflict() && patch["metadata"]["resourceVersion"].is_string() =>
            {
                match self.read_again(pod).await {
                    Ok(_) => Ok(Answer::Mistaken),
                    Err(error) => Err(pod_error(Verb::Other, error, "get", &pod.name)),
                }
            }
            Err(error) => Err(pod_error(Verb::Other, error, "patch", &pod.name)),
        }
    }

    /// Reads a pod that is cached, and stores what has its name now; `None` if nothing has.
    async fn read_again(&self, pod: &PodRef) -> Result<Option<Pod>, CallError> {
        match self.get(&pod.name).await {
            Ok(live) => {
                self.store(&live);
                Ok(Some(live))
            }
            Err(CallError::Refused(status)) if status.is_not_found() => {
                self.forget(&pod.name, &pod.uid);
                Ok(None)
            }
            Err(error) => Err(error),
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
        if let Ok(_slot) = self.own_slot.try_acquire() {
            return self.caller.send(verb, "pods", request).await;
        }
        // Other PodSets may hold all permits for longer than this attempt lasts. The semaphores are never closed.
        let Ok(_slot) = timeout(attempt::time_left(Duration::MAX), self.slots.acquire()).await else {
            return Err(CallError::Lost("too many other requests for pods are running".into()));
        };
        self.caller.send(verb, "pods", request).await
    }

    /// Stores a pod. A pod that concerns no PodSet any more is removed from the cache, and so is one whose deletion no watch will
    /// report. Other PodSets that it concerns are queued: the watch will not report this version again. Returns whether it is cached.
    fn store(&self, pod: &Pod) -> bool {
        let item = set_pod(pod);
        let cache = &self.stores.set_pods.kind.cache;
        if item.owners.is_empty() || item.value.ends_unseen() {
            // With its version, so that a watch that lags behind does not store it again.
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
        self.stores
            .set_pods
            .kind
            .cache
            .forget_if(&key, |member| member.pod.uid == uid);
    }

    fn amend(&self, name: &str, uid: &str, change: impl FnOnce(&mut SetPod)) {
        let key = Key::new(&self.key.namespace, name);
        self.stores.set_pods.kind.cache.amend(&key, |member| {
            if member.pod.uid == uid {
                change(&mut Arc::make_mut(member).pod);
            }
        });
    }

    fn collection(&self) -> Request {
        Request::new(Pod::url_path(&(), Some(&self.key.namespace)))
    }
}

/// Sends writes in batches: `first` in the first batch, twice as many after each batch in which all succeed. After a failure, or
/// after [`STEP_LASTS`], the rest is not sent: the other requests would probably fail as well.
async fn in_batches(writes: Vec<BoxFuture<'_, Written>>, first: usize) -> Vec<Written> {
    let began = Instant::now();
    let mut answers = Vec::with_capacity(writes.len());
    let mut writes = writes.into_iter();
    let mut size = first;
    while !writes.as_slice().is_empty() && began.elapsed() < STEP_LASTS {
        let batch = writes.by_ref().take(size.clamp(1, SHARE));
        let batch = join_all(batch).await;
        let failed = batch.iter().any(Result::is_err);
        answers.extend(batch);
        if failed {
            break;
        }
        size = size.saturating_mul(2);
    }
    answers
}

fn pod_error(verb: Verb, error: CallError, word: &str, pod: &str) -> PodError {
    PodError {
        verb,
        failure: error.failure(word, "Pod", pod),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    /// Sends writes that take some time, of which the one at `fails` fails. Returns how many were running when each was sent, and how
    /// many were answered.
    async fn sent(count: usize, first: usize, fails: usize, takes: Duration) -> (Vec<usize>, usize) {
        let (under_way, sent) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let writes = (0..count).map(|at| {
            let write = async {
                let others = under_way.fetch_add(1, Ordering::Relaxed);
                sent.lock().unwrap().push(others + 1);
                sleep(takes).await;
                under_way.fetch_sub(1, Ordering::Relaxed);
            };
            async move {
                write.await;
                if at == fails {
                    Err(Failure::NamespaceTerminating.into())
                } else {
                    Ok(Answer::Done)
                }
            }
            .boxed()
        });
        let answers = in_batches(writes.collect(), first).await.len();
        (sent.into_inner().unwrap(), answers)
    }

    #[tokio::test(start_paused = true)]
    async fn batches_double_up_to_the_share_of_a_set() {
        let takes = Duration::from_millis(1);
        let (sent, answers) = sent(1000, 1, usize::MAX, takes).await;
        assert_eq!(answers, 1000);
        assert_eq!(sent[..7], [1, 1, 2, 1, 2, 3, 4]);
        assert_eq!(sent.iter().max(), Some(&SHARE));
    }

    #[tokio::test(start_paused = true)]
    async fn no_batch_follows_a_failure() {
        for (fails, expected) in [(0, 1), (1, 3), (2, 3), (3, 7)] {
            let (_, answers) = sent(1000, 1, fails, Duration::ZERO).await;
            assert_eq!(answers, expected, "{fails}");
        }
        assert_eq!(sent(1000, 8, 0, Duration::ZERO).await.1, 8, "the pace continues");
    }

    #[tokio::test(start_paused = true)]
    async fn step_ends_when_it_takes_too_long() {
        let (_, answers) = sent(1000, 1, usize::MAX, Duration::from_secs(2)).await;
        assert_eq!(answers, 7);
    }
}
