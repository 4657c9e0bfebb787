//! One look at one PodSet: observe, decide the next step, perform it, status; and at once again until it is settled.

mod progress;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crd::PodSet;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use model::pod::PodState;
use model::podset::{
    Hindrance, Removal, SetPod, Step, Wanted, Why, asks, changes_in, conflicts, marks, next_step, next_step_despite,
    status,
};
use model::{Failure, podset};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::dependents::{Dependents, Doubts};
use super::teller::{Fate, Look, Teller, Word};
use crate::call::Caller;
use crate::dispatch::{Reconcile, Verdict};
use crate::key::Key;
use crate::perform::pods::{CONCURRENCY, Performer};
use crate::world::World;
use crate::world::set_pods::Known;
pub use progress::Memory;
use progress::Progress;

/// How many Events about pods that have ended are written at a time. A node that is lost ends many.
const OBITUARIES: usize = 16;

/// How long they may take. A look has its deadline, and what was done is to be told in the status.
const OBITUARIES_LAST: Duration = Duration::from_secs(5);

/// How long steps go on that can be done although another one has failed, before the failure is reported.
const DESPITE_FAILURES: Duration = Duration::from_secs(5);

/// What reconciling a PodSet needs.
pub struct Reconciler {
    caller: Caller,
    world: Arc<World>,
    teller: Teller<PodSet>,
    slots: Semaphore,
    progress: Progress,
    dependents: Dependents,
}

/// When a look began.
#[derive(Clone, Copy)]
struct Began {
    clock: Timestamp,
    instant: Instant,
}

impl Began {
    fn now() -> Self {
        Self {
            clock: Timestamp::now(),
            instant: Instant::now(),
        }
    }
}

/// What became of a step.
enum Advance {
    /// There was nothing to do.
    Settled,
    /// It was done, and another may follow.
    Stepped,
    /// What was believed was wrong.
    Mistaken,
    /// The set is gone, which the watch has not told yet.
    Gone,
    /// Something stands in the way.
    Hindered(Vec<Hindrance>),
}

impl Reconciler {
    /// Makes one that has looked at nothing yet.
    #[must_use]
    pub fn new(caller: Caller, world: Arc<World>, teller: Teller<PodSet>) -> Self {
        Self {
            caller,
            world,
            teller,
            slots: Semaphore::new(CONCURRENCY),
            progress: Progress::default(),
            dependents: Dependents::default(),
        }
    }
}

impl Reconcile for Reconciler {
    /// Brings one PodSet one step closer to where its spec wants it, and says how it is.
    async fn reconcile(&self, key: Key) -> Verdict {
        let Some(look) = self.teller.look(key.clone()) else {
            // It is gone. Its pods go with it, or stay: as whoever deleted it has said.
            self.progress.forget(&key);
            self.dependents.forget(&key);
            self.world.set_pods.forget_lost(&key);
            return Verdict::Settled;
        };
        let began = Began::now();
        let wanted = match &look.unreadable {
            Some(why) => Err(why.failure()),
            None => Wanted::of(&look.object).map_err(Failure::from),
        };
        let advance = match &wanted {
            Err(failure) => Advance::Hindered(vec![failure.clone().into()]),
            Ok(wanted) => self.advance(&look, wanted).await,
        };
        let (hindrances, stepped) = match advance {
            Advance::Mistaken => return Verdict::Again,
            Advance::Gone => return Verdict::Settled,
            // Who creates a hundred pods need not tell of each.
            Advance::Stepped if !self.is_due(&key) => return Verdict::Onward,
            Advance::Stepped => (Vec::new(), true),
            Advance::Settled => (Vec::new(), false),
            Advance::Hindered(hindrances) => (hindrances, false),
        };
        match self.conclude(&look, wanted.as_ref().ok(), &hindrances, began).await {
            Verdict::Settled if stepped => Verdict::Onward,
            verdict => verdict,
        }
    }

    async fn report(&self, key: &Key, failure: Failure) {
        self.teller.report(key, failure).await;
    }
}

impl Reconciler {
    async fn advance(&self, look: &Look<PodSet>, wanted: &Wanted) -> Advance {
        let Look { key, object: set, .. } = look;
        let pods = &self.world.set_pods;
        if let Some(why) = pods.kind.health.unseen(&key.namespace) {
            return Advance::Hindered(vec![Failure::Blind { resource: "pods", why }.into()]);
        }
        let performer = Performer {
            caller: &self.caller,
            world: &self.world,
            wake: &|other| self.teller.wake(other),
            slots: &self.slots,
            own_slot: Semaphore::new(1),
            key,
            set,
            wanted,
        };
        // A set that is being deleted lets nothing go.
        let lost = if wanted.deleting { Vec::new() } else { pods.lost_by(key) };
        let (found, hindrance) = performer.look_at_all_lost(&lost).await;
        for pod in &found {
            pods.found(key, pod);
        }
        if let Some(hindrance) = hindrance {
            return Advance::Hindered(vec![hindrance]);
        }
        let (began, mut failed, mut hindrances) = (Instant::now(), None, Vec::new());
        loop {
            match self.step(look, &performer, failed.as_ref()).await {
                // What does not need the step that failed is done all the same, before the failure is reported.
                (Some(step), Advance::Hindered(more)) => {
                    hindrances.extend(more);
                    failed = Some(step);
                }
                (None, Advance::Hindered(more)) => {
                    hindrances.extend(more);
                    return Advance::Hindered(hindrances);
                }
                (_, advance) if hindrances.is_empty() => return advance,
                (_, Advance::Stepped | Advance::Mistaken) => {}
                (_, Advance::Settled | Advance::Gone) => return Advance::Hindered(hindrances),
            }
            if began.elapsed() >= DESPITE_FAILURES {
                return Advance::Hindered(hindrances);
            }
        }
    }

    /// Decides on the next step, or on what can be done although a step has failed, and carries it out. Returns the step,
    /// if it was tried, and what became of it.
    async fn step(
        &self,
        look: &Look<PodSet>,
        performer: &Performer<'_>,
        failed: Option<&Step>,
    ) -> (Option<Step>, Advance) {
        let Look { key, object: set, .. } = look;
        let (pods, wanted) = (&self.world.set_pods, performer.wanted);
        let known = pods.of(key);
        let doubts = self.see(look, wanted, &known);
        let memory = self.progress.of(key, &wanted.uid, &wanted.template);
        let now = Timestamp::now().as_second();
        let seen = known.seen(&memory, now);
        let step = match failed {
            None => next_step(wanted, seen),
            Some(failed) => next_step_despite(wanted, seen, failed),
        }
        // The rest is another step: no step may take longer than a reconcile.
        .at_most(CONCURRENCY);
        if step == Step::Settled {
            if failed.is_some() {
                return (None, Advance::Settled);
            }
            self.progress.rested(key);
            let conflicts: Vec<Hindrance> = conflicts(wanted, seen).into_iter().map(Hindrance::from).collect();
            let advance = if conflicts.is_empty() {
                Advance::Settled
            } else {
                Advance::Hindered(conflicts)
            };
            return (None, advance);
        }
        // Nothing is made or taken in for a set that is gone: the garbage collector would take it along.
        let is_for_the_living = matches!(step, Step::Adopt(_)) || doubts.robbed && matches!(step, Step::Create(_));
        let reads = is_for_the_living || doubts.unread;
        match if reads {
            self.teller.read_anew(look).await
        } else {
            Ok(Fate::Same)
        } {
            Ok(Fate::Same) if reads => self.dependents.owner_was_read(key),
            Ok(Fate::Same) => {}
            Ok(Fate::Changed) => return (None, Advance::Mistaken),
            Ok(Fate::Gone) => return (None, Advance::Gone),
            Err(failure) => return (None, Advance::Hindered(vec![failure.into()])),
        }
        for pod in step.given_up() {
            self.dependents.give_up(key, &pod.uid);
        }
        let outcome = performer.perform(&step, memory.pace).await;
        self.see(look, wanted, &pods.of(key));
        let done = outcome.hindrances.is_empty();
        // After a failure, only a step that was to come next shows that it is over.
        self.progress.stepped(key, done && failed.is_none(), outcome.taken);
        let ended = Ended::of(&known, &outcome.removed);
        let ages = ended.pods.iter().map(|(pod, _)| now - pod.created);
        self.progress.ended(key, &wanted.template, ages);
        self.tell_of_the_ended(set, &ended).await;
        let advance = match (done, outcome.mistaken) {
            (false, _) => Advance::Hindered(outcome.hindrances),
            (true, true) => Advance::Mistaken,
            (true, false) => Advance::Stepped,
        };
        (Some(step), advance)
    }

    /// Takes in which pods are there, and returns why the set has to be read anew before it is acted upon.
    fn see(&self, look: &Look<PodSet>, wanted: &Wanted, known: &Known) -> Doubts {
        let ours = |pod: &&SetPod| pod.is_controlled_by(wanted) && !pod.deleting;
        let pods = known.pods.iter().filter(ours).map(|pod| &*pod.uid);
        let told = look.object.status.is_some();
        self.dependents.see(&look.key, &wanted.uid, told, pods)
    }

    fn is_due(&self, key: &Key) -> bool {
        self.progress.has_gone_on(key) && self.teller.is_due(key)
    }

    async fn conclude(
        &self,
        look: &Look<PodSet>,
        wanted: Option<&Wanted>,
        hindrances: &[Hindrance],
        began: Began,
    ) -> Verdict {
        let failures: Vec<Failure> = hindrances.iter().map(|hindrance| hindrance.failure.clone()).collect();
        let say = |now: Timestamp| {
            let mut known = self.world.set_pods.of(&look.key);
            let answers = &self.world.answers;
            answers.add_to(crd::Kind::PodSet, &look.key, known.states.iter_mut());
            let (uid, template) = wanted.map_or(("", ""), |wanted| (&*wanted.uid, &*wanted.template));
            let memory = self.progress.of(&look.key, uid, template);
            let (then, now_seconds) = (began.clock.as_second(), now.as_second());
            let progressed_at = wanted.map_or(then, |wanted| {
                let marks = marks(&look.object, wanted, known.knowledge(&memory, now_seconds, then));
                self.progress.progressed_at(&look.key, marks, then)
            });
            let knowledge = known.knowledge(&memory, now_seconds, progressed_at);
            // From when it began: nothing was decided on what has become due since.
            let before = known.knowledge(&memory, then, progressed_at);
            let clock = wanted.and_then(|wanted| changes_in(wanted, before));
            let changes_in = clock
                .into_iter()
                .chain(self.progress.tries_again_in(&look.key, began.instant))
                .min();
            let outdated = self
                .world
                .set_pods
                .kind
                .outdated("pods", &look.key)
                .map(Hindrance::from);
            let hindrances: Vec<Hindrance> = hindrances.iter().cloned().chain(outdated).collect();
            let status = status(&look.object, wanted, knowledge, &hindrances, now);
            Word {
                asks: asks(&status, wanted, knowledge),
                status,
                changes_in: changes_in.map(|wait| wait.saturating_sub(began.instant.elapsed())),
            }
        };
        self.teller.conclude(look, &failures, say).await
    }

    /// A pod that has ended for good would be the record of what it died of. It had to go, so an Event is.
    async fn tell_of_the_ended(&self, set: &PodSet, ended: &Ended<'_>) {
        let told = stream::iter(&ended.pods).for_each_concurrent(OBITUARIES, async |(pod, state)| {
            let message = podset::obituary(set, &pod.name, Some(state));
            self.teller.warn(set, "PodEnded", &message).await;
        });
        if timeout(OBITUARIES_LAST, told).await.is_err() {
            debug!("not of all pods that have ended an Event could be written in time");
        }
    }
}

/// Pods that had ended and were deleted, and what they said of themselves.
struct Ended<'a> {
    pods: Vec<(&'a SetPod, &'a PodState)>,
}

impl<'a> Ended<'a> {
    fn of(known: &'a Known, removed: &[Removal]) -> Self {
        let finished = removed.iter().filter(|removal| removal.why == Why::Finished);
        let uids: HashSet<&str> = finished.map(|removal| &*removal.pod.uid).collect();
        let all = known.pods.iter().zip(&known.states);
        Self {
            pods: all.filter(|(pod, _)| uids.contains(&*pod.uid)).collect(),
        }
    }
}
