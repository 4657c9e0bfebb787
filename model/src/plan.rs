//! What to write, as data: from what is wanted and what was observed.

use serde_json::{Value, json};

use crate::children::Prune;
use crate::digest::paths;
use crate::observed::Cached;
use crate::{Child, ChildId, ChildKind, Desired, Failure, Observed, Valid, later};

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// POST. A name that is taken gives 409, so no read is needed before.
    Create {
        /// The child.
        id: ChildId,
        /// What is sent.
        object: Value,
    },
    /// A forced server-side apply. Its `metadata.uid` makes it fail rather than create the object again or
    /// write to a namesake.
    Apply {
        /// The child.
        id: ChildId,
        /// What is sent.
        object: Value,
        /// The write that must go before, if a field is to be removed.
        fold: Option<Fold>,
        /// The first field that is not as wanted, for the log.
        because: String,
    },
    /// DELETE, only of the object with this UID.
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

/// Lets an apply remove a field that came with the POST.
///
/// The API server keeps the fields of a POST as those of an "Update" by our manager, apart from what we apply
/// later. A field that we stop applying would stay, owned by that Update. The fold turns the Update's entry
/// into one of an Apply, or drops it where an Apply's is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The JSON patch (RFC 6902). Its tests make it fail if the entries have moved meanwhile.
    pub patch: Value,
}

/// What to write, in this order, and what stands in the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes.
    pub actions: Vec<Action>,
    /// What can't be written, and why.
    pub failures: Vec<Failure>,
    /// Somebody else who changes the number of replicas, by the name of their field manager.
    pub rival_scaler: Option<String>,
}

/// Compares what is wanted with what was observed. A child that is as wanted is not written.
#[must_use]
pub fn plan(app: &Valid<'_>, desired: &Desired, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    for kind in observed.kinds {
        // A kind that routes to another one waits for it, and must not route to a third-party object.
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
                Cached::Unknown => plan.failures.push(Failure::Blind {
                    resource: kind.plural,
                    why: observed.why_unknown(kind).unwrap_or_default().to_owned(),
                }),
                Cached::Absent => plan.actions.push(Action::Create {
                    id,
                    object: wanted.object.clone(),
                }),
                // It must be deleted before the name is free again, whoever owns it; its end causes a reconcile.
                Cached::Present(child) if child.deleting => {}
                Cached::Present(child) if !child.is_controlled_by(&app.uid) => {
                    plan.failures.push(taken(&id, &app.name, child));
                }
                Cached::Present(child) => plan.apply(app, id, child, &wanted.object),
            }
        }
        // Where a kind can't be listed, pruning waits until it can.
        for (id, child) in observed.of(kind).filter(|(id, _)| !desired.contains(id)) {
            if kind.prune == Prune::Delete && !child.deleting && child.is_controlled_by(&app.uid) {
                plan.delete(id.clone(), child);
            }
        }
    }
    plan
}

impl Plan {
    /// Plans the write that makes a child as wanted, if there is anything to write.
    fn apply(&mut self, app: &Valid<'_>, id: ChildId, child: &Child, wanted: &Value) {
        let wanted = &*later::due(wanted, &child.digest);
        let Some(because) = child.digest.lacks(wanted) else {
            return;
        };
        if because == "spec.replicas" {
            self.rival_scaler.clone_from(&child.managers.scaled_by);
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

/// Whether a child belongs to another owner that is not about to be deleted together with it.
fn is_foreign(app: &Valid<'_>, child: &Child) -> bool {
    !child.is_controlled_by(&app.uid) && !child.is_left_by_a_predecessor(&app.name)
}

fn may_become_ours(app: &Valid<'_>, target: Cached<&Child>) -> bool {
    match target {
        Cached::Absent => true,
        Cached::Present(child) => child.is_controlled_by(&app.uid),
        Cached::Unknown => false,
    }
}

/// Whether a write can be carried out, by what is known of its target (`routes_to`) after the writes before it. An Ingress is
/// written only while its Service is known to be ours: it would publish whatever has the Service's name.
#[must_use]
pub fn may_follow(action: &Action, uid: &str, target: Option<&Child>) -> bool {
    let is_delete = matches!(action, Action::Delete { .. });
    let is_ours = || target.is_some_and(|child| child.is_controlled_by(uid));
    is_delete || action.kind().routes_to.is_none() || is_ours()
}

/// Returns what must be deleted when a write has found the name of a child to be taken: our children that route to it. A watch
/// does not show an object without our label, so the plan could not know.
#[must_use]
pub fn after(failure: &Failure, app: &Valid<'_>, observed: &Observed) -> Vec<Action> {
    let Failure::NameConflict { kind: taken, .. } = failure else {
        return Vec::new();
    };
    let leads_there = |kind: &ChildKind| kind.routes_to.is_some_and(|target| target.kind == *taken);
    let children = observed.children.iter().filter(|(id, _)| leads_there(id.kind));
    children
        .filter(|(_, child)| child.is_controlled_by(&app.uid) && !child.deleting)
        .map(|(id, child)| Action::Delete {
            id: id.clone(),
            uid: child.uid.clone(),
        })
        .collect()
}

/// Returns the failure for a child whose name a third-party object has. `app` is the name of the app.
#[must_use]
pub fn taken(id: &ChildId, app: &str, child: &Child) -> Failure {
    let (kind, name) = (id.kind.kind, id.name.clone());
    if child.is_left_by_a_predecessor(app) {
        return Failure::Leftover {
            kind,
            owner: format!("AppDeploy {app}"),
            name,
        };
    }
    Failure::NameConflict {
        kind,
        name,
        owner: child.foreign_owner.clone(),
    }
}

/// Returns the strategic merge patch that leaves only our ports, for a kind that has ports.
///
/// Ports are merged by number. A port whose number was changed by hand is no longer ours, and an apply would add ours next to
/// it, under the same name, which the API server rejects.
#[must_use]
pub fn our_ports_alone(kind: &ChildKind, object: &Value) -> Option<Value> {
    let spec = (kind.only_ports)(object)?;
    Some(json!({"metadata": {"uid": object["metadata"]["uid"]}, "spec": spec}))
}

/// Returns a list that replaces the live one in a strategic merge patch.
pub(crate) fn only(items: &Value) -> Option<Value> {
    let mut list = vec![json!({"$patch": "replace"})];
    list.extend(items.as_array()?.iter().cloned());
    Some(json!(list))
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

/// Whether a field that was wanted before is no longer wanted. If that is not known, it is assumed, which costs a write.
fn may_drop_a_field(app: &Valid<'_>, kind: &ChildKind, child: &Child, wanted: &Value) -> bool {
    let hash = |object: &Value| {
        object["metadata"]["annotations"][crd::annotation::DESIRED_HASH]
            .as_str()
            .map(str::to_owned)
    };
    if child.desired_hash == hash(wanted) {
        return false; // The wanted object is the same; another writer changed the live one.
    }
    let Some(before) = (kind.rendered_before)(app, child) else {
        return true;
    };
    // If this is not what was written, an older operator wrote it, or the app was restarted.
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

    /// Changes what is observed as the API server would store it.
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
    fn a_new_app_is_three_creates_and_then_nothing() {
        let spec = json!({"image": "nginx", "port": 80});
        let plan = plan_for(&spec, &Observed::default());
        assert_eq!(
            kinds(&plan),
            [("create", &DEPLOYMENT), ("create", &SERVICE), ("create", &INGRESS)]
        );
        assert_eq!(plan_for(&spec, &settled(&spec)), Plan::default());
    }

    #[test]
    fn a_new_image_is_one_apply() {
        let observed = settled(&json!({"image": "nginx", "port": 80}));
        let plan = plan_for(&json!({"image": "nginx:1.27", "port": 80}), &observed);
        assert_eq!(kinds(&plan), [("apply", &DEPLOYMENT)]);
    }

    fn created(mut observed: Observed, applied: bool) -> Observed {
        for (_, child) in &mut observed.children {
            child.managers = crate::observed::Managers {
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
    fn only_a_dropped_field_needs_a_fold() {
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

    /// Kubernetes merges ports by number: without the fold the old one would stay, under the same name.
    #[test]
    fn a_new_port_replaces_the_old_one() {
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
    fn a_removed_port_prunes_what_it_led_to() {
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
    fn a_foreign_object_is_neither_written_nor_deleted() {
        let mut observed = settled(&json!({"image": "nginx", "port": 80}));
        for kind in [&SERVICE, &INGRESS] {
            let child = change(&mut observed, kind);
            child.controller = Some("somebody else".into());
            child.foreign_owner = Some("HelmRelease web".into());
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
    fn ingress_never_leads_to_a_foreign_service() {
        let spec = json!({"image": "nginx", "port": 80});
        let moved = json!({"image": "nginx", "port": 80, "host": "a.example"});
        let foreign = with_service(&spec, |child| {
            child.controller = None;
            child.foreign_owner = None;
        });
        assert_eq!(kinds(&plan_for(&moved, &foreign)), [("delete", &INGRESS)]);
        let being_deleted = with_service(&spec, |child| {
            child.controller = None;
            child.foreign_owner = None;
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
        // That of a predecessor is about to be removed: what exists stays, and nothing is written before.
        let leftover = with_service(&spec, |child| {
            child.controller = Some("its uid".into());
            child.foreign_owner = Some("another AppDeploy web".into());
        });
        assert_eq!(kinds(&plan_for(&moved, &leftover)), []);
        // Without a Service that is wanted, nothing leads anywhere.
        let foreign = with_service(&spec, |child| {
            child.controller = None;
            child.foreign_owner = None;
        });
        assert_eq!(
            kinds(&plan_for(&json!({"image": "nginx"}), &foreign)),
            [("apply", &DEPLOYMENT), ("delete", &INGRESS)]
        );
    }

    #[test]
    fn ingress_is_written_only_after_its_service_is_ours() {
        let spec = json!({"image": "nginx", "port": 80});
        let [deployment, service, ingress] = &plan_for(&spec, &Observed::default()).actions[..] else {
            panic!()
        };
        for action in [deployment, service] {
            assert!(may_follow(action, UID, None));
        }
        assert!(!may_follow(ingress, UID, None));
        let observed = settled(&spec);
        assert!(may_follow(ingress, UID, observed.first(&SERVICE)));
        assert!(!may_follow(ingress, "another uid", observed.first(&SERVICE)));

        let app = app(spec);
        let valid = validate(&app).unwrap();
        let of = |kind: &ChildKind| Failure::NameConflict {
            kind: kind.kind,
            name: "web".into(),
            owner: None,
        };
        assert_eq!(after(&of(&DEPLOYMENT), &valid, &observed), []);
        assert_eq!(after(&of(&SERVICE), &valid, &Observed::default()), []);
        let [removed] = &after(&of(&SERVICE), &valid, &observed)[..] else {
            panic!()
        };
        let id = ChildId::new(&INGRESS, "web");
        let uid = "uid-of-Ingress".to_owned();
        assert_eq!(*removed, Action::Delete { id, uid });
        assert!(may_follow(removed, UID, None));
    }

    #[test]
    fn what_cannot_be_seen_is_not_written() {
        let mut observed = settled(&json!({"image": "nginx", "port": 80}));
        hide(&mut observed, &INGRESS);
        let plan = plan_for(&json!({"image": "nginx:2", "port": 80, "host": "a.example"}), &observed);
        assert_eq!(kinds(&plan), [("apply", &DEPLOYMENT)]);
        assert_eq!(
            plan.failures,
            [Failure::Blind {
                resource: "ingresses",
                why: "403".into()
            }]
        );
    }

    #[test]
    fn a_kind_that_is_not_wanted_need_not_be_seen() {
        let mut observed = settled(&json!({"image": "nginx"}));
        hide(&mut observed, &INGRESS);
        assert_eq!(plan_for(&json!({"image": "nginx"}), &observed), Plan::default());
    }

    /// Deleted and made anew under the same name: the garbage collector still has the old children.
    #[test]
    fn what_a_predecessor_left_is_waited_for() {
        let spec = json!({"image": "nginx"});
        let mut observed = settled(&spec);
        let child = change(&mut observed, &DEPLOYMENT);
        child.controller = Some("its uid".into());
        child.foreign_owner = Some("another AppDeploy web".into());
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

    /// An older operator may have rendered a field that this one knows nothing of.
    #[test]
    fn a_wish_that_is_not_known_any_more_may_have_had_any_field() {
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
    fn a_child_that_is_being_deleted_is_waited_for() {
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
    fn an_autoscaler_on_the_child_is_named() {
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
            plan_for(&spec, &observed).rival_scaler.as_deref(),
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
        /// From any app to any other, whatever children were lost in between: one round of writes, then quiet.
        #[test]
        fn settles_after_one_round(before in spec(), after in spec(), lost in any::<[bool; 3]>()) {
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
