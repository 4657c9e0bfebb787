//! Computes the writes that bring the children of an app to the desired state.

use serde_json::{Value, json};

use crate::children::{Cached, Prune};
use crate::digest::paths;
use crate::{Child, ChildId, ChildKind, Desired, Failure, Observed, Valid, later};

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
    /// A forced server-side apply. With `metadata.uid`, it fails instead of creating the object again or writing to another
    /// object of the same name.
    Apply {
        /// The child.
        id: ChildId,
        /// The object to send.
        object: Value,
        /// The patch to send first, if the apply must remove a field.
        fold: Option<Fold>,
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
            Self::Create { id, .. } | Self::Apply { id, .. } | Self::Delete { id, .. } => id,
        }
    }

    /// Returns the kind of the child that is written.
    #[must_use]
    pub const fn kind(&self) -> &'static ChildKind {
        self.id().kind
    }
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
        let waits = target.is_some_and(|target| !may_become_ours(app, target));
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
                Cached::Present(child) => plan.apply(app, id, child, &wanted.object),
            }
        }
        // A kind that can't be listed is not pruned.
        for (id, child) in observed.of(kind).filter(|(id, _)| !desired.contains(id)) {
            if kind.prune == Prune::Delete && !child.deleting && child.is_controlled_by(&app.uid) {
                plan.delete(id.clone(), child);
            }
        }
    }
    plan
}

impl Plan {
    /// Plans the write of a child, if it differs from the desired one.
    fn apply(&mut self, app: &Valid<'_>, id: ChildId, child: &Child, wanted: &Value) {
        let wanted = &*later::due(wanted, &child.digest);
        let Some(because) = child.digest.lacks(wanted) else {
            return;
        };
        if because == "spec.replicas" {
            self.other_scaler.clone_from(&child.managers.scaled_by);
        }
        self.actions.push(Action::Apply {
            fold: fold(app, id.kind, child, wanted),
            id,
            object: with_uid(wanted, &child.uid),
            because,
        });
    }

    fn delete(&mut self, id: ChildId, child: &Child) {
        let uid = child.uid.clone();
        self.actions.push(Action::Delete { id, uid });
    }
}

/// Whether a child belongs to another owner, which was not deleted.
fn is_foreign(app: &Valid<'_>, child: &Child) -> bool {
    !child.is_controlled_by(&app.uid) && !child.is_of_deleted_app(&app.name)
}

fn may_become_ours(app: &Valid<'_>, target: Cached<&Child>) -> bool {
    match target {
        Cached::Absent => true,
        Cached::Present(child) => child.is_controlled_by(&app.uid),
        Cached::Unknown => false,
    }
}

/// Whether a write is allowed, given its target (`routes_to`) after the previous writes. An Ingress is written only while
/// the app controls its Service, because it would publish any object with the Service's name.
#[must_use]
pub fn may_write(action: &Action, uid: &str, target: Option<&Child>) -> bool {
    let is_delete = matches!(action, Action::Delete { .. });
    let is_ours = || target.is_some_and(|child| child.is_controlled_by(uid));
    is_delete || action.kind().routes_to.is_none() || is_ours()
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
            uid: child.uid.clone(),
        })
        .collect()
}

/// Returns the failure for a child whose name another object has. `app` is the name of the app.
#[must_use]
pub fn name_conflict(id: &ChildId, app: &str, child: &Child) -> Failure {
    let (kind, name) = (id.kind.kind, id.name.clone());
    if child.is_of_deleted_app(app) {
        return Failure::Leftover {
            kind,
            owner: format!("AppDeploy {app}"),
            name,
        };
    }
    Failure::NameConflict {
        kind,
        name,
        owner: child.other_owner.clone(),
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

fn with_uid(object: &Value, uid: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["uid"] = json!(uid);
    object
}

fn fold(app: &Valid<'_>, kind: &ChildKind, child: &Child, wanted: &Value) -> Option<Fold> {
    let index = child.managers.created_entry?;
    if !may_drop_a_field(app, kind, child, wanted) {
        return None;
    }
    let entry = format!("/metadata/managedFields/{index}");
    let change = if child.managers.applied {
        json!({"op": "remove", "path": entry})
    } else {
        json!({"op": "replace", "path": format!("{entry}/operation"), "value": "Apply"})
    };
    Some(Fold {
        patch: json!([
            {"op": "test", "path": "/metadata/uid", "value": child.uid},
            {"op": "test", "path": format!("{entry}/manager"), "value": crd::FIELD_MANAGER},
            {"op": "test", "path": format!("{entry}/operation"), "value": "Update"},
            change,
        ]),
    })
}

/// Whether the desired child has lost a field since the last write. If that is not known, returns true, which costs a write.
fn may_drop_a_field(app: &Valid<'_>, kind: &ChildKind, child: &Child, wanted: &Value) -> bool {
    let hash = |object: &Value| {
        object["metadata"]["annotations"][crd::annotation::DESIRED_HASH]
            .as_str()
            .map(str::to_owned)
    };
    if child.desired_hash == hash(wanted) {
        return false; // The desired object is the same; another client has changed the live one.
    }
    let Some(before) = (kind.rendered_before)(app, child) else {
        return true;
    };
    // If the hash differs, an older operator has written the child, or the app was restarted.
    let before_was = later::previous(&before, &child.digest);
    child.desired_hash != hash(&before) || !paths(&before_was).is_subset(&paths(wanted))
}

#[cfg(test)]
mod tests {
    use crd::AppDeploy;
    use kube::core::ObjectMeta;
    use proptest::prelude::*;

    use super::*;
    use crate::children::{CHILDREN, DEPLOYMENT, INGRESS, SERVICE};
    use crate::{desired, validate};

    const UID: &str = "11111111-1111-1111-1111-111111111111";

    fn app(spec: Value) -> AppDeploy {
        serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "web", "namespace": "default", "uid": UID}, "spec": spec,
        }))
        .unwrap()
    }

    /// Changes the observed state as the API server would.
    fn perform(observed: &mut Observed, action: &Action) {
        match action {
            Action::Create { id, object } | Action::Apply { id, object, .. } => {
                let mut meta: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
                meta.uid = Some(format!("uid-of-{}", id.kind));
                observed.insert(id.clone(), Child::read(id.kind, &meta, object));
            }
            Action::Delete { id, .. } => observed.remove(id),
        }
    }

    fn change<'a>(observed: &'a mut Observed, kind: &ChildKind) -> &'a mut Child {
        let mut all = observed.children.iter_mut();
        all.find(|(id, _)| id.kind == kind).map(|(_, child)| child).unwrap()
    }

    fn lose(observed: &mut Observed, kind: &'static ChildKind) {
        observed.remove(&ChildId::new(kind, "web"));
    }

    fn hide(observed: &mut Observed, kind: &'static ChildKind) {
        lose(observed, kind);
        observed.unknown.push((kind, "403".into()));
    }

    fn plan_for(spec: &Value, observed: &Observed) -> Plan {
        let app = app(spec.clone());
        let valid = validate(&app).unwrap();
        plan(&valid, &desired(&valid), observed)
    }

    fn settled(spec: &Value) -> Observed {
        let mut observed = Observed::default();
        for action in plan_for(spec, &Observed::default()).actions {
            perform(&mut observed, &action);
        }
        observed
    }

    fn kinds(plan: &Plan) -> Vec<(&'static str, &'static ChildKind)> {
        let verb = |action: &Action| match action {
            Action::Create { .. } => "create",
            Action::Apply { .. } => "apply",
            Action::Delete { .. } => "delete",
        };
        plan.actions
            .iter()
            .map(|action| (verb(action), action.kind()))
            .collect()
    }

    #[test]
    fn new_app_is_created_with_three_writes() {
        let spec = json!({"image": "nginx", "port": 80});
        let plan = plan_for(&spec, &Observed::default());
        assert_eq!(
            kinds(&plan),
            [("create", &DEPLOYMENT), ("create", &SERVICE), ("create", &INGRESS)]
        );
        assert_eq!(plan_for(&spec, &settled(&spec)), Plan::default());
    }

    #[test]
    fn new_image_is_one_apply() {
        let observed = settled(&json!({"image": "nginx", "port": 80}));
        let plan = plan_for(&json!({"image": "nginx:1.27", "port": 80}), &observed);
        assert_eq!(kinds(&plan), [("apply", &DEPLOYMENT)]);
    }

    fn created(mut observed: Observed, applied: bool) -> Observed {
        for (_, child) in &mut observed.children {
            child.managers = crate::children::Managers {
                created_entry: Some(0),
                applied,
                scaled_by: None,
            };
        }
        observed
    }

    fn fold_of(plan: &Plan) -> Option<&str> {
        let [Action::Apply { fold, .. }] = &plan.actions[..] else {
            panic!("{plan:?}")
        };
        fold.as_ref().map(|fold| fold.patch[3]["op"].as_str().unwrap())
    }

    #[test]
    fn only_a_removed_field_needs_a_fold() {
        let before = json!({"image": "nginx", "port": 80, "env": [{"name": "A", "value": "1"}]});
        for (after, expected) in [
            (
                json!({"image": "nginx:2", "port": 80, "env": [{"name": "A", "value": "1"}]}),
                None,
            ),
            (
                json!({"image": "nginx", "port": 80, "env": [{"name": "A", "value": "1"}], "replicas": 3}),
                None,
            ),
            (
                json!({"image": "nginx", "port": 80, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}),
                None,
            ),
            (json!({"image": "nginx", "port": 80}), Some("replace")),
        ] {
            let plan = plan_for(&after, &created(settled(&before), false));
            assert_eq!(fold_of(&plan), expected, "{after}");
        }
        let plan = plan_for(&json!({"image": "nginx", "port": 80}), &created(settled(&before), true));
        assert_eq!(fold_of(&plan), Some("remove"));
    }

    /// Kubernetes merges ports by number. Without the fold the old port would stay, with the same name.
    #[test]
    fn new_port_replaces_the_old_one() {
        let observed = created(settled(&json!({"image": "nginx", "port": 80})), false);
        let plan = plan_for(&json!({"image": "nginx", "port": 81}), &observed);
        assert_eq!(kinds(&plan), [("apply", &DEPLOYMENT), ("apply", &SERVICE)]);
        assert!(
            plan.actions
                .iter()
                .all(|action| matches!(action, Action::Apply { fold: Some(_), .. }))
        );
    }

    #[test]
    fn removed_port_prunes_service_and_ingress() {
        let observed = settled(&json!({"image": "nginx", "port": 80}));
        let plan = plan_for(&json!({"image": "nginx"}), &observed);
        assert_eq!(
            kinds(&plan),
            [("apply", &DEPLOYMENT), ("delete", &SERVICE), ("delete", &INGRESS)]
        );
        let Action::Delete { uid, .. } = &plan.actions[1] else {
            panic!()
        };
        assert_eq!(uid, "uid-of-Service");
    }

    #[test]
    fn third_party_object_is_neither_written_nor_deleted() {
        let mut observed = settled(&json!({"image": "nginx", "port": 80}));
        for kind in [&SERVICE, &INGRESS] {
            let child = change(&mut observed, kind);
            child.controller = Some("other uid".into());
            child.other_owner = Some("HelmRelease web".into());
        }
        let plan = plan_for(&json!({"image": "nginx", "port": 81}), &observed);
        assert_eq!(kinds(&plan), [("apply", &DEPLOYMENT)]);
        assert!(
            plan.failures
                .iter()
                .all(|failure| matches!(failure, Failure::NameConflict { .. }))
        );
        assert_eq!(plan.failures.len(), 2);
        assert_eq!(
            kinds(&plan_for(&json!({"image": "nginx"}), &observed)),
            [("apply", &DEPLOYMENT)]
        );
    }

    fn with_service(spec: &Value, edit: impl FnOnce(&mut Child)) -> Observed {
        let mut observed = settled(spec);
        edit(change(&mut observed, &SERVICE));
        observed
    }

    #[test]
    fn ingress_never_routes_to_a_third_party_service() {
        let spec = json!({"image": "nginx", "port": 80});
        let moved = json!({"image": "nginx", "port": 80, "host": "a.example"});
        let foreign = with_service(&spec, |child| {
            child.controller = None;
            child.other_owner = None;
        });
        assert_eq!(kinds(&plan_for(&moved, &foreign)), [("delete", &INGRESS)]);
        let being_deleted = with_service(&spec, |child| {
            child.controller = None;
            child.other_owner = None;
            child.deleting = true;
        });
        assert_eq!(kinds(&plan_for(&spec, &being_deleted)), [("delete", &INGRESS)]);
        let mut unknown = foreign.clone();
        hide(&mut unknown, &SERVICE);
        for mut observed in [foreign, being_deleted, unknown] {
            lose(&mut observed, &DEPLOYMENT);
            lose(&mut observed, &INGRESS);
            assert_eq!(kinds(&plan_for(&spec, &observed)), [("create", &DEPLOYMENT)]);
        }
        // The Service of a deleted app of the same name will be removed. Until then nothing is written.
        let leftover = with_service(&spec, |child| {
            child.controller = Some("its uid".into());
            child.other_owner = Some("another AppDeploy web".into());
        });
        assert_eq!(kinds(&plan_for(&moved, &leftover)), []);
        // The app has no port, and so no Ingress.
        let foreign = with_service(&spec, |child| {
            child.controller = None;
            child.other_owner = None;
        });
        assert_eq!(
            kinds(&plan_for(&json!({"image": "nginx"}), &foreign)),
            [("apply", &DEPLOYMENT), ("delete", &INGRESS)]
        );
    }

    #[test]
    fn ingress_is_written_only_while_the_app_controls_its_service() {
        let spec = json!({"image": "nginx", "port": 80});
        let [deployment, service, ingress] = &plan_for(&spec, &Observed::default()).actions[..] else {
            panic!()
        };
        for action in [deployment, service] {
            assert!(may_write(action, UID, None));
        }
        assert!(!may_write(ingress, UID, None));
        let observed = settled(&spec);
        assert!(may_write(ingress, UID, observed.first(&SERVICE)));
        assert!(!may_write(ingress, "another uid", observed.first(&SERVICE)));

        let app = app(spec);
        let valid = validate(&app).unwrap();
        let of = |kind: &ChildKind| Failure::NameConflict {
            kind: kind.kind,
            name: "web".into(),
            owner: None,
        };
        assert_eq!(deletions_after(&of(&DEPLOYMENT), &valid, &observed), []);
        assert_eq!(deletions_after(&of(&SERVICE), &valid, &Observed::default()), []);
        let [removed] = &deletions_after(&of(&SERVICE), &valid, &observed)[..] else {
            panic!()
        };
        let id = ChildId::new(&INGRESS, "web");
        let uid = "uid-of-Ingress".to_owned();
        assert_eq!(*removed, Action::Delete { id, uid });
        assert!(may_write(removed, UID, None));
    }

    #[test]
    fn kind_that_cannot_be_listed_is_not_written() {
        let mut observed = settled(&json!({"image": "nginx", "port": 80}));
        hide(&mut observed, &INGRESS);
        let plan = plan_for(&json!({"image": "nginx:2", "port": 80, "host": "a.example"}), &observed);
        assert_eq!(kinds(&plan), [("apply", &DEPLOYMENT)]);
        assert_eq!(
            plan.failures,
            [Failure::WatchFailed {
                resource: "ingresses",
                why: "403".into()
            }]
        );
    }

    #[test]
    fn kind_without_desired_children_need_not_be_listed() {
        let mut observed = settled(&json!({"image": "nginx"}));
        hide(&mut observed, &INGRESS);
        assert_eq!(plan_for(&json!({"image": "nginx"}), &observed), Plan::default());
    }

    /// The app was deleted and created again, and the garbage collector has not deleted the old children yet.
    #[test]
    fn children_of_a_deleted_app_of_the_same_name_block_writes() {
        let spec = json!({"image": "nginx"});
        let mut observed = settled(&spec);
        let child = change(&mut observed, &DEPLOYMENT);
        child.controller = Some("its uid".into());
        child.other_owner = Some("another AppDeploy web".into());
        let leftover = Failure::Leftover {
            kind: "Deployment",
            owner: "AppDeploy web".into(),
            name: "web".into(),
        };
        assert_eq!(
            plan_for(&spec, &observed),
            Plan {
                failures: vec![leftover],
                ..Plan::default()
            }
        );
    }

    /// Another version of the operator may have rendered fields that this one does not have.
    #[test]
    fn unknown_previous_version_may_have_had_any_field() {
        let before = json!({"image": "nginx", "port": 80});
        let mut observed = created(settled(&before), false);
        let child = change(&mut observed, &DEPLOYMENT);
        child.desired_hash = Some("of another version".into());
        assert_eq!(
            fold_of(&plan_for(&json!({"image": "nginx:2", "port": 80}), &observed)),
            Some("replace")
        );
    }

    #[test]
    fn child_that_is_being_deleted_is_not_written() {
        let spec = json!({"image": "nginx", "port": 80});
        let mut observed = settled(&spec);
        let child = change(&mut observed, &SERVICE);
        child.deleting = true;
        assert_eq!(
            plan_for(&json!({"image": "nginx", "port": 81}), &observed)
                .actions
                .len(),
            1
        );
    }

    #[test]
    fn autoscaler_of_a_child_is_reported() {
        let spec = json!({"image": "nginx", "port": 80});
        let mut observed = settled(&json!({"image": "nginx", "port": 80, "replicas": 7}));
        let child = change(&mut observed, &DEPLOYMENT);
        child.desired_hash = None;
        let object = {
            let app = app(spec.clone());
            let mut object = desired(&validate(&app).unwrap()).first(&DEPLOYMENT).unwrap().clone();
            object["spec"]["replicas"] = json!(7);
            object
        };
        child.digest = crate::Digest::of(&object);
        child.managers.scaled_by = Some("kube-controller-manager".into());
        assert_eq!(
            plan_for(&spec, &observed).other_scaler.as_deref(),
            Some("kube-controller-manager")
        );
    }

    fn spec() -> impl Strategy<Value = Value> {
        let env = prop::collection::btree_map("[A-Z]{1,2}", "[a-z]{0,3}", 0..4);
        (
            prop::sample::select(vec!["nginx", "nginx:1", "busybox"]),
            prop::option::of(1..65535_i32),
            0..4_i32,
            env,
            any::<bool>(),
        )
            .prop_map(|(image, port, replicas, env, service)| {
                let env: Vec<_> = env
                    .into_iter()
                    .map(|(name, value)| json!({"name": name, "value": value}))
                    .collect();
                let mut spec = json!({"image": image, "replicas": replicas, "env": env});
                if let Some(port) = port {
                    spec["port"] = json!(port);
                    spec["expose"] = json!(if service { "Cluster" } else { "Public" });
                }
                spec
            })
    }

    proptest! {
        /// After any change of the spec and any deletion of children, one round of writes is enough.
        #[test]
        fn one_round_of_writes_is_enough(before in spec(), after in spec(), lost in any::<[bool; 3]>()) {
            let mut observed = settled(&before);
            for (kind, is_lost) in CHILDREN.iter().zip(lost) {
                if is_lost { lose(&mut observed, kind); }
            }
            for action in plan_for(&after, &observed).actions {
                perform(&mut observed, &action);
            }
            prop_assert_eq!(plan_for(&after, &observed), Plan::default());
        }
    }
}
