//! Computes the writes that bring the children of an app to the desired state.

mod merge_patch;

use crd::{PodFields, RolloutType};
use serde_json::{Value, json};

use crate::children::{Cached, DEPLOYMENT, Prune, Rollout};
use crate::digest::paths;
use crate::uid::Uid;
use crate::{Child, ChildId, ChildKind, Desired, Failure, Observed, Valid, deferred_defaults};

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// POST. It fails with 409 if the name is taken, so no read is needed before.
    Create {
        /// The child.
        id: ChildId,
        /// The object to send.
        object: Value,
    },
    /// A change of an existing child. With `metadata.uid`, it fails instead of creating the object again or writing to another
    /// object of the same name.
    Change {
        /// The child.
        id: ChildId,
        /// The desired object, with its UID.
        object: Value,
        /// How it is sent.
        means: Means,
        /// The first field that differs, for the log.
        because: String,
    },
    /// DELETE, with the UID as a precondition.
    Delete {
        /// The child.
        id: ChildId,
        /// Its UID.
        uid: String,
    },
}

impl Action {
    /// Returns the child that is written.
    #[must_use]
    pub const fn id(&self) -> &ChildId {
        match self {
            Self::Create { id, .. } | Self::Change { id, .. } | Self::Delete { id, .. } => id,
        }
    }

    /// Returns the kind of the child that is written.
    #[must_use]
    pub const fn kind(&self) -> &'static ChildKind {
        self.id().kind
    }
}

/// How the change of a child is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Means {
    /// A forced server-side apply of the desired object. It restores what other clients have changed.
    Apply,
    /// The same after a patch, because it must remove a field.
    FoldAndApply(Fold),
    /// This strategic merge patch, which costs the API server about two thirds of an apply. It removes no field.
    Patch(Value),
}

/// A patch of `managedFields` that lets an apply remove a field of the POST.
///
/// The API server records the fields of a POST as an "Update" by the field manager, and those of an apply in another entry.
/// A field that is no longer applied would stay, owned by the Update. The patch turns the Update into an Apply, or removes
/// it if there is an Apply already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The JSON patch (RFC 6902). Its tests make it fail if the entries have moved in the meantime.
    pub patch: Value,
}

/// The writes, in their order, and the obstacles to other writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes.
    pub actions: Vec<Action>,
    /// Why some children can't be written.
    pub failures: Vec<Failure>,
    /// The field manager of another client that has changed the number of replicas.
    pub other_scaler: Option<String>,
}

/// Compares the desired children with the observed ones. A child that is as desired is not written.
#[must_use]
pub fn plan(app: &Valid<'_>, desired: &Desired, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    for kind in observed.kinds {
        // A kind that routes to another one is written after it, and must not route to a third-party object.
        let target = kind.routes_to.filter(|target| desired.first(target).is_some());
        let target = target.map(|target| observed.child(&ChildId::new(target, &app.name)));
        let is_misled = target
            .and_then(Cached::present)
            .is_some_and(|child| is_foreign(app, child));
        let needed = kind.needs.filter(|needed| desired.first(needed).is_some());
        let needed = needed.map(|needed| observed.child(&ChildId::new(needed, &app.name)));
        let waits = target
            .into_iter()
            .chain(needed)
            .any(|other| !may_become_ours(app, other));
        for wanted in desired.of(kind) {
            let id = wanted.id.clone();
            match observed.child(&id) {
                Cached::Present(child) if is_misled && !child.deleting && child.is_controlled_by(&app.uid) => {
                    plan.delete(id, child);
                }
                Cached::Absent if waits => {}
                Cached::Present(child) if waits && child.is_controlled_by(&app.uid) => {}
                Cached::Unknown => plan.failures.push(Failure::WatchFailed {
                    resource: kind.plural,
                    why: observed.why_unknown(kind).unwrap_or_default().to_owned(),
                }),
                Cached::Absent => plan.actions.push(Action::Create {
                    id,
                    object: wanted.object.clone(),
                }),
                // Its name is free only after the deletion, which causes a reconcile.
                Cached::Present(child) if child.deleting => {}
                Cached::Present(child) if !child.is_controlled_by(&app.uid) => {
                    plan.failures.push(name_conflict(&id, &app.name, child));
                }
                Cached::Present(child) => plan.apply(app, id, child, &wanted.object, observed),
            }
        }
        // A kind that can't be listed is not pruned.
        for (id, child) in observed.of(kind).filter(|(id, _)| !desired.contains(id)) {
            if kind.prune == Prune::Delete && !child.deleting && child.is_controlled_by(&app.uid) {
                plan.delete(id.clone(), child);
            }
        }
    }
    plan.delete_after_rollout(app, desired, observed);
    plan
}

impl Plan {
    /// Plans the write of a child, if it differs from the desired one.
    fn apply(&mut self, app: &Valid<'_>, id: ChildId, child: &Child, wanted: &Value, observed: &Observed) {
        let wanted = &*deferred_defaults::defer(wanted, &child.digest);
        let dropped = observed.dropped(&id, wanted);
        let counts = |path: &str| !dropped.iter().any(|dropped| dropped == path);
        let lacking = child.digest.lacking(wanted, counts);
        let Some(because) = lacking.first() else {
            return;
        };
        if because == "spec.replicas" {
            self.other_scaler = child.managers.scaled_by.as_deref().map(Into::into);
        }
        let mut object = with_uid(wanted, &child.uid);
        if had_service_account(child) {
            drop_service_account(&mut object);
        }
        self.actions.push(Action::Change {
            means: means(app, id.kind, child, wanted, &lacking),
            id,
            object,
            because: because.clone(),
        });
    }

    /// Plans the deletion of what only pods of the previous revision use, if there are none any more.
    fn delete_after_rollout(&mut self, app: &Valid<'_>, desired: &Desired, observed: &Observed) {
        let is_written = self.actions.iter().any(|action| *action.kind() == DEPLOYMENT);
        if is_written || !observed.rollout().is_some_and(Rollout::is_complete) {
            return;
        }
        let kinds = observed.kinds.iter().filter(|kind| kind.prune == Prune::AfterRollout);
        for (id, child) in kinds.flat_map(|kind| observed.of(kind)) {
            if !desired.contains(id) && !child.deleting && child.is_controlled_by(&app.uid) {
                self.delete(id.clone(), child);
            }
        }
    }

    fn delete(&mut self, id: ChildId, child: &Child) {
        let uid = child.uid.to_string();
        self.actions.push(Action::Delete { id, uid });
    }
}

/// Whether a child with the name of the app belongs to another owner, which was not deleted.
fn is_foreign(app: &Valid<'_>, child: &Child) -> bool {
    !child.is_controlled_by(&app.uid) && !child.is_of_app(&app.name, &app.name)
}

fn may_become_ours(app: &Valid<'_>, target: Cached<&Child>) -> bool {
    match target {
        Cached::Absent => true,
        Cached::Present(child) => child.is_controlled_by(&app.uid),
        Cached::Unknown => false,
    }
}

/// Returns the child that a written child refers to: the Service of an Ingress, the app's own ServiceAccount of a Deployment.
/// The app must control it after the previous writes. Otherwise the Ingress would publish any object with the Service's name,
/// and the pods would run as a third-party ServiceAccount.
#[must_use]
pub fn target(action: &Action, app: &Valid<'_>) -> Option<ChildId> {
    if matches!(action, Action::Delete { .. }) {
        return None;
    }
    let needs = action.kind().needs;
    let needed = needs.filter(|kind| !(kind.render)(app).is_empty());
    let kind = action.kind().routes_to.or(needed)?;
    Some(ChildId::new(kind, &app.name))
}

/// Returns the deletions that follow from a name conflict: the children that route to the taken name. The plan can't contain
/// them, because the watch does not show objects without the operator's label.
#[must_use]
pub fn deletions_after(failure: &Failure, app: &Valid<'_>, observed: &Observed) -> Vec<Action> {
    let Failure::NameConflict { kind: taken, .. } = failure else {
        return Vec::new();
    };
    let routes_there = |kind: &ChildKind| kind.routes_to.is_some_and(|target| target.kind == *taken);
    let children = observed.children.iter().filter(|(id, _)| routes_there(id.kind));
    children
        .filter(|(_, child)| child.is_controlled_by(&app.uid) && !child.deleting)
        .map(|(id, child)| Action::Delete {
            id: id.clone(),
            uid: child.uid.to_string(),
        })
        .collect()
}

/// Returns the failure for a child whose name another object has. `app` is the name of the app.
#[must_use]
pub fn name_conflict(id: &ChildId, app: &str, child: &Child) -> Failure {
    let (kind, name) = (id.kind.kind, id.name.clone());
    if child.is_of_app(&name, app) {
        return Failure::Leftover {
            kind,
            owner: format!("AppDeploy {app}"),
            name,
        };
    }
    Failure::NameConflict {
        kind,
        owner: child.other_owner(&name),
        name,
    }
}

/// Returns the strategic merge patch that removes all ports but the desired ones, for a kind that has ports.
///
/// Ports are merged by number. After the number of a port was changed by another client, an apply would add the desired port
/// next to it with the same name, which the API server rejects.
#[must_use]
pub fn ports_patch(kind: &ChildKind, object: &Value) -> Option<Value> {
    let spec = (kind.ports_patch)(object)?;
    Some(json!({"metadata": {"uid": object["metadata"]["uid"]}, "spec": spec}))
}

/// Returns the strategic merge patch that removes the settings of rolling updates from a Deployment, if it is to recreate its
/// pods.
///
/// The settings are defaults of the API server. No manager owns them, so an apply keeps them, and the API server rejects
/// them next to the type.
#[must_use]
pub fn recreate_patch(object: &Value) -> Option<Value> {
    let type_ = RolloutType::Recreate.as_str();
    let strategy = json!({"$retainKeys": ["type"], "type": type_});
    (object["spec"]["strategy"]["type"] == type_)
        .then(|| json!({"metadata": {"uid": object["metadata"]["uid"]}, "spec": {"strategy": strategy}}))
}

/// Whether the spec from which a child was last written has a ServiceAccount.
fn had_service_account(child: &Child) -> bool {
    let spec = child.rollout().and_then(|rollout| rollout.revision_spec.as_deref());
    let spec = spec.filter(|spec| spec.contains("serviceAccount"));
    let spec = spec.and_then(|spec| serde_json::from_str::<PodFields>(spec).ok());
    spec.is_some_and(|spec| spec.service_account.is_some())
}

/// Empties the ServiceAccount of the pods if they have none any more.
///
/// The API server copies the name into a deprecated field, which no manager owns. An apply that only leaves out the name gets it
/// back from there, and the pods keep the rights of the ServiceAccount.
fn drop_service_account(object: &mut Value) {
    const NAME: &str = "serviceAccountName";
    let pod = object.pointer_mut("/spec/template/spec");
    if let Some(pod) = pod.filter(|pod| pod[NAME].is_null()) {
        pod[NAME] = json!("");
        pod["serviceAccount"] = json!("");
    }
}

fn with_uid(object: &Value, uid: &Uid) -> Value {
    let mut object = object.clone();
    object["metadata"]["uid"] = json!(uid.to_string());
    object
}

/// Returns how a child is changed to the desired one, of which it lacks the fields of these paths.
fn means(app: &Valid<'_>, kind: &ChildKind, child: &Child, wanted: &Value, lacking: &[String]) -> Means {
    let patched = |patch: Option<Value>| patch.map_or(Means::Apply, |patch| Means::Patch(with_uid(&patch, &child.uid)));
    let hash = |object: &Value| {
        object["metadata"]["annotations"][crd::annotation::DESIRED_HASH]
            .as_str()
            .map(Into::into)
    };
    // Without the entry of the create, an apply removes fields by itself.
    let Some(created_entry) = child.managers.created_entry else {
        return Means::Apply;
    };
    // A patch would take fields from the entry of an apply, which the next apply could not remove then.
    let may_be_patched = !child.managers.applied;
    if child.desired_hash == hash(wanted) {
        // Another client has changed the live object.
        return patched(
            may_be_patched
                .then(|| merge_patch::restoring(wanted, lacking))
                .flatten(),
        );
    }
    // If the hash differs, an older operator has written the child, or the app was restarted.
    let before = (kind.rendered_before)(app, child).filter(|before| child.desired_hash == hash(before));
    let Some(before) = before.map(|before| deferred_defaults::previous(&before, &child.digest)) else {
        return Means::FoldAndApply(fold(child, created_entry));
    };
    if !paths(&before).is_subset(&paths(wanted)) {
        return Means::FoldAndApply(fold(child, created_entry));
    }
    let is_as_written = may_be_patched && child.digest.lacks(&before).is_none();
    patched(is_as_written.then(|| merge_patch::between(&before, wanted)).flatten())
}

fn fold(child: &Child, created_entry: u32) -> Fold {
    let entry = format!("/metadata/managedFields/{created_entry}");
    let change = if child.managers.applied {
        json!({"op": "remove", "path": entry})
    } else {
        json!({"op": "replace", "path": format!("{entry}/operation"), "value": "Apply"})
    };
    Fold {
        patch: json!([
            {"op": "test", "path": "/metadata/uid", "value": child.uid.to_string()},
            {"op": "test", "path": format!("{entry}/manager"), "value": crd::FIELD_MANAGER},
            {"op": "test", "path": format!("{entry}/operation"), "value": "Update"},
            change,
        ]),
    }
}

#[cfg(test)]
mod tests;
