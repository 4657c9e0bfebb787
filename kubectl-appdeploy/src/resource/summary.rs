//! The state of an object in one line, as its status has it. The same for all kinds.

use crd::Cause;
use crd::status::condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::ObjectMeta;
use model::NextCommand;

use crate::cluster::kind_info::{self, KindInfo};
use crate::terminal::ui::Style;

/// The part of an object that all kinds have.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// Its kind.
    pub kind: &'static KindInfo,
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// The observed generation.
    pub observed: Option<i64>,
    /// The observed restart.
    pub restarted: Option<&'a str>,
    /// Whether pods wait for a `resume` to get the current spec.
    pub is_held: bool,
    /// What is wrong.
    pub cause: Option<&'a Cause>,
    /// The conditions.
    pub conditions: &'a [Condition],
}

impl<'a> Summary<'a> {
    /// Returns its name.
    pub fn name(self) -> &'a str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Returns its namespace.
    pub fn namespace(self) -> &'a str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    /// Returns its name as kubectl prints it.
    pub fn title(self) -> String {
        kind_info::title(self.kind, self.name())
    }

    /// Returns a condition by its type.
    pub fn condition(self, kind: &str) -> Option<&'a Condition> {
        self.conditions.iter().find(|c| c.type_ == kind)
    }

    /// Whether a condition is true.
    pub fn is_true(self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|c| c.status == "True")
    }

    /// Whether it is being deleted.
    pub const fn is_deleted(self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Whether the status is about the current spec.
    pub fn is_observed(self) -> bool {
        let observed = self.observed;
        observed.is_some_and(|seen| self.meta.generation.is_none_or(|now| seen >= now))
    }

    /// Whether the status is about the current spec and the last restart, which does not change the spec.
    pub fn is_accounted_for(self) -> bool {
        let annotations = self.meta.annotations.as_ref();
        let asked = annotations.and_then(|all| all.get(crd::annotation::RESTARTED_AT));
        self.is_observed() && asked.map(String::as_str) == self.restarted
    }

    /// Whether an operator that watches should have seen it by now.
    pub fn is_overlooked(self, now: Timestamp) -> bool {
        let created = self.meta.creation_timestamp.as_ref();
        self.observed.is_none() && created.is_none_or(|time| is_long_ago(time, now))
    }

    /// Whether an operator should have removed its finalizer by now, or reported why it can't.
    pub fn is_deletion_overlooked(self, now: Timestamp) -> bool {
        let deleted = self.meta.deletion_timestamp.as_ref();
        let is_late = deleted.is_some_and(|time| is_long_ago(time, now));
        is_late && has_finalizer(self.meta) && self.cause.is_none()
    }

    /// Returns the status of the Ready condition: `Unknown` also while it is about an earlier spec.
    pub fn ready_status(self) -> &'a str {
        let ready = self.condition(condition::READY).filter(|_| self.is_observed());
        ready.map_or("Unknown", |ready| ready.status.as_str())
    }

    /// Returns the one word for how it is.
    pub fn reason(self) -> String {
        if self.is_deleted() {
            return "Deleting".to_owned();
        }
        if !self.is_observed() {
            return "Pending".to_owned();
        }
        self.condition(condition::READY)
            .map_or_else(|| "<unknown>".to_owned(), |c| c.reason.clone())
    }

    /// Returns the style for its state.
    pub fn mood(self) -> Style {
        if self.is_deleted() || !self.is_observed() {
            Style::Busy
        } else if self.is_true(condition::READY) {
            Style::Good
        } else if self.is_true(condition::STALLED) || self.cause.is_some() {
            Style::Bad
        } else {
            Style::Busy
        }
    }

    /// Returns one sentence on one that is not as its author wants it, and the command to run next.
    pub fn explanation(self) -> Option<(String, Option<NextCommand>)> {
        if self.is_deleted() {
            // The operator reports why it can't remove its own finalizer.
            if let Some(cause) = self.cause.filter(|_| has_finalizer(self.meta)) {
                return Some(explain_cause(cause));
            }
            // Those of the garbage collector are how a deletion works, not what holds it up.
            let own = |guard: &&String| !["foregroundDeletion", "orphan"].contains(&guard.as_str());
            let guards = self.meta.finalizers.iter().flatten().filter(own);
            let guards: Vec<&str> = guards.map(String::as_str).collect();
            let text = if guards.is_empty() {
                "it is being deleted".to_owned()
            } else {
                format!("it is being deleted and waits for: {}", guards.join(", "))
            };
            return Some((text, None));
        }
        if !self.is_observed() {
            let text = if self.observed.is_some() {
                "the operator has not seen the last change yet"
            } else {
                "no operator has seen it yet"
            };
            return Some((text.to_owned(), None));
        }
        if let Some(cause) = self.cause {
            return Some(explain_cause(cause));
        }
        if self.is_true(condition::READY) {
            return None;
        }
        let ready = self.condition(condition::READY)?;
        Some((ready.message.clone(), None)).filter(|(text, _)| !text.is_empty())
    }
}

fn is_long_ago(time: &Time, now: Timestamp) -> bool {
    /// An operator needs milliseconds; this forgives one that has just been restarted.
    const GRACE: i64 = 15;
    now.as_second() - time.0.as_second() > GRACE
}

/// Whether the operator has a finalizer on an object.
pub fn has_finalizer(meta: &ObjectMeta) -> bool {
    let all = meta.finalizers.iter().flatten();
    all.into_iter().any(|name| name == crd::finalizer::QUEUE)
}

/// Returns the sentence of a cause, and its command.
fn explain_cause(cause: &Cause) -> (String, Option<NextCommand>) {
    let next = cause.next.as_deref().and_then(NextCommand::read);
    (cause.message.clone(), next)
}
