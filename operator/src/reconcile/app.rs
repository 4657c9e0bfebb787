//! One look at one application: observe, validate, desired, plan, perform, status.

use std::collections::VecDeque;
use std::sync::Arc;

use crd::AppDeploy;
use model::desired::render;
use model::digest::stable_hash;
use model::plan::{after, may_follow};
use model::status::{StatusOptions, asks, changes_in};
use model::{Action, ChildId, Failure, Invalid, Observed, Plan, Valid, host, plan, status, validate};
use tracing::warn;

use super::dependents::{Dependents, Doubts};
use super::teller::{Fate, Look, Teller, Word};
use crate::call::Caller;
use crate::dispatch::{Reconcile, Verdict};
use crate::key::Key;
use crate::perform::Outcome;
use crate::perform::children::{Performer, read_ingress};
use crate::world::World;

/// What reconciling an application needs.
pub struct Reconciler {
    /// Who writes children.
    pub caller: Caller,
    /// What is known.
    pub world: Arc<World>,
    /// How strict the status is.
    pub options: StatusOptions,
    /// What hosts have to end with, unless they may be any.
    pub host_suffixes: Vec<String>,
    /// Who writes statuses.
    pub teller: Teller<AppDeploy>,
    /// What applications have.
    pub dependents: Dependents,
}

impl Reconcile for Reconciler {
    /// Brings one application to where its spec wants it, as far as it can be, and says how it is.
    async fn reconcile(&self, key: Key) -> Verdict {
        let verified = self.verify_host(&key).await;
        let Some(look) = self.teller.look(key.clone()) else {
            // It is gone. Its children go with it: they carry its owner reference.
            self.dependents.forget(&key);
            self.release_host(&key);
            return verified.map_or(Verdict::Failed, |()| Verdict::Settled);
        };
        let app = &*look.object;
        let valid = match &look.unreadable {
            Some(why) => Err(why.failure()),
            None => validate(app).map_err(Failure::from).and_then(|valid| self.admit(valid)),
        };
        let failures = match &valid {
            Err(failure) => vec![failure.clone()],
            Ok(_) if app.metadata.deletion_timestamp.is_some() => Vec::new(),
            Ok(_) if verified.is_err() => Vec::new(),
            Ok(valid) => match self.bring(&look, valid).await {
                Ok(failures) => failures,
                Err(verdict) => {
                    self.release_host(&look.key);
                    return verdict;
                }
            },
        };
        let failures = [failures, Vec::from_iter(verified.err())].concat();
        // An application that is tried again soon keeps its turn: no other one gets the host in the meantime.
        if !failures
            .iter()
            .any(|failure| matches!(failure, Failure::Unavailable { .. }))
        {
            self.release_host(&look.key);
        }
        self.teller
            .conclude(&look, &failures, |now| {
                let observed = self.world.observe(&look.key);
                let failures = [failures.clone(), self.world.children.outdated(&look.key, &observed)].concat();
                let status = status(app, valid.as_ref().ok(), &observed, &failures, self.options, now);
                Word {
                    changes_in: changes_in(&observed, now),
                    asks: asks(&status, &observed, now),
                    status,
                }
            })
            .await
    }

    async fn report(&self, key: &Key, failure: Failure) {
        self.teller.report(key, failure).await;
    }
}

impl Reconciler {
    /// Ends the reservation of an application, unless its host is unverified, and wakes the applications that may have a host
    /// because of it.
    fn release_host(&self, app: &Key) {
        self.wake(self.world.release_host(app));
    }

    fn wake(&self, others: Vec<Key>) {
        for other in others {
            self.teller.wake(other);
        }
    }

    /// Reads the Ingress of an application if the answer to its last write was lost. Otherwise another namespace could get
    /// the host of an Ingress that no watch has shown yet.
    ///
    /// # Errors
    /// Says why the Ingress could not be read. Then no Ingress must be written, and the reservation stays.
    async fn verify_host(&self, app: &Key) -> Result<(), Failure> {
        if !self.world.host_is_unverified(app) {
            return Ok(());
        }
        read_ingress(&self.caller, &self.world, app).await.inspect_err(
            |failure| warn!(%failure, "the host stays reserved: it is not known what became of a write"),
        )?;
        self.world.end_ingress_write(app);
        self.wake(self.world.note_host(app));
        Ok(())
    }

    /// Checks what the administrator has to say about hosts.
    fn admit<'a>(&self, valid: Valid<'a>) -> Result<Valid<'a>, Failure> {
        match host::allowed(&valid, &self.host_suffixes) {
            Ok(()) => Ok(valid),
            Err(problem) => Err(Invalid(vec![problem]).into()),
        }
    }

    /// Writes what is not as wanted, and returns what failed; a verdict if what was believed was wrong.
    async fn bring(&self, look: &Look<AppDeploy>, valid: &Valid<'_>) -> Result<Vec<Failure>, Verdict> {
        let mut wanted = render(self.world.children.kinds(), valid);
        let conflict = match self.world.reserve_host(&look.key) {
            Ok(others) => {
                self.wake(others);
                None
            }
            Err(lost) => {
                let (claim, rival) = *lost;
                wanted.retain(|kind| !kind.serves_hosts);
                Some(host::conflict(&claim, &rival))
            }
        };
        let observed = self.world.observe(&look.key);
        let doubts = self.see(look, valid, &observed);
        let Plan {
            actions,
            mut failures,
            rival_scaler,
        } = plan(valid, &wanted, &observed);
        failures.extend(conflict);
        let mut actions = VecDeque::from(actions);
        let is_undone = |action: &Action| self.teller.has_written(&look.key, action.id(), content(action));
        if actions.iter().any(is_undone) && !self.teller.may_repair(look).await {
            actions.retain(|action| !is_undone(action));
        }
        let creates = actions.iter().any(|action| matches!(action, Action::Create { .. }));
        if doubts.robbed && creates || doubts.unread && !actions.is_empty() {
            match self.teller.read_anew(look).await {
                Ok(Fate::Same) => self.dependents.owner_was_read(&look.key),
                Ok(Fate::Changed) => return Err(Verdict::Again),
                Ok(Fate::Gone) => return Err(Verdict::Settled),
                Err(failure) => {
                    failures.push(failure);
                    actions.clear();
                }
            }
        }
        let performer = Performer {
            caller: &self.caller,
            world: &self.world,
            app: &look.key,
            uid: &valid.uid,
        };
        while let Some(action) = actions.pop_front() {
            let target = action.kind().routes_to.map(|kind| ChildId::new(kind, &valid.name));
            let target = target.and_then(|target| self.world.children.get(&valid.namespace, &target));
            if !may_follow(&action, &valid.uid, target.as_deref()) {
                continue;
            }
            if let Action::Delete { uid, .. } = &action {
                self.dependents.give_up(&look.key, uid);
            }
            let (id, content) = (action.id().clone(), content(&action));
            match self.perform(&performer, action).await {
                Ok(Outcome::Done) => self.teller.wrote(&look.key, id, content),
                Ok(Outcome::Again) => return Err(Verdict::Again),
                Err(failure) => {
                    // Of a server that does not answer, the next request would be as late. A webhook may be asked of one kind alone.
                    let lost = matches!(failure, Failure::Unavailable { .. }) && !failure.is_of_a_webhook();
                    actions.extend(after(&failure, valid, &observed));
                    failures.push(failure);
                    if lost {
                        break;
                    }
                }
            }
        }
        if let Some(rival) = rival_scaler {
            self.warn_of_rival(&look.object, &rival).await;
        }
        self.see(look, valid, &self.world.observe(&look.key));
        Ok(failures)
    }

    /// Carries out one write. The host of an Ingress stays reserved until the result is known.
    async fn perform(&self, performer: &Performer<'_>, action: Action) -> Result<Outcome, Failure> {
        let gives_host = action.kind().serves_hosts && !matches!(action, Action::Delete { .. });
        if gives_host {
            self.world.begin_ingress_write(performer.app);
        }
        let result = performer.perform(action).await;
        if gives_host && !matches!(result, Err(Failure::Unavailable { .. })) {
            self.world.end_ingress_write(performer.app);
        }
        result
    }

    /// Takes in which children are there, and returns why the application has to be read anew before it is acted upon.
    fn see(&self, look: &Look<AppDeploy>, valid: &Valid<'_>, observed: &Observed) -> Doubts {
        let children = observed.children.iter().map(|(_, child)| child);
        let children = children.filter(|child| child.is_controlled_by(&valid.uid) && !child.deleting);
        let children = children.map(|child| &*child.uid);
        let told = look.object.status.is_some();
        self.dependents.see(&look.key, &valid.uid, told, children)
    }

    async fn warn_of_rival(&self, app: &AppDeploy, rival: &str) {
        let name = app.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "{rival} has scaled Deployment {name}, and was overruled: the number of pods is spec.replicas of AppDeploy \
             {name}. A HorizontalPodAutoscaler works if its scaleTargetRef is AppDeploy {name}"
        );
        self.teller.warn(app, "ScaledByAnother", &message).await;
    }
}

/// Returns a hash of what an action makes of a child.
fn content(action: &Action) -> u64 {
    match action {
        Action::Create { object, .. } | Action::Apply { object, .. } => stable_hash(object),
        Action::Delete { .. } => 0,
    }
}
