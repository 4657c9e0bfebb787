//! What to write, as data: from what is wanted and what was seen.

use crd::PodFields;
use serde_json::{Value, json};

use crate::desired::deployment;
use crate::digest::paths;
use crate::{Child, ChildKind, Desired, Failure, Observed, Sight, Valid, later};

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// POST. A name that is taken is told by the answer (409), so no read is needed before.
    Create {
        /// The kind of the child.
        kind: ChildKind,
        /// What is sent.
        object: Value,
    },
    /// A forced server-side apply. Its `metadata.uid` makes it fail rather than create the object anew or
    /// write to a namesake.
    Apply {
        /// The kind of the child.
        kind: ChildKind,
        /// What is sent.
        object: Value,
        /// The write that must go before, if a field is to be removed.
        fold: Option<Fold>,
        /// The first field that is not as wanted, for the log.
        because: String,
    },
    /// DELETE, only of the object with this UID.
    Delete {
        /// The kind of the child.
        kind: ChildKind,
        /// Its name.
        name: String,
        /// Its identity.
        uid: String,
    },
}

impl Action {
    /// Returns the kind of the child that is written.
    #[must_use]
    pub const fn kind(&self) -> ChildKind {
        match self {
            Self::Create { kind, .. } | Self::Apply { kind, .. } | Self::Delete { kind, .. } => *kind,
        }
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

/// Compares what is wanted with what was seen. A child that is as wanted is not written.
#[must_use]
pub fn plan(app: &Valid<'_>, desired: &Desired, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let service = &observed.service;
    for (kind, wanted) in desired.objects() {
        let leads_to_a_service = kind == ChildKind::Ingress && desired.service.is_some();
        let misleads = leads_to_a_service && service.seen().is_some_and(|child| is_foreign(app, child));
        let waits = leads_to_a_service && !may_become_ours(app, service);
        match (wanted, observed.child(kind)) {
            // It leads to a foreign Service, which is perhaps not meant to be reached from outside.
            (Some(_), Sight::Seen(child)) if misleads && !child.deleting && child.is_controlled_by(&app.uid) => {
                plan.actions.push(Action::Delete {
                    kind,
                    name: app.name.clone(),
                    uid: child.uid.clone(),
                });
            }
            // It waits for a Service of ours, or for one that this plan creates.
            (Some(_), Sight::Absent) if waits => {}
            (Some(_), Sight::Seen(child)) if waits && child.is_controlled_by(&app.uid) => {}
            (Some(_), Sight::Blind(why)) => {
                plan.failures.push(Failure::Blind {
                    resource: kind.resource(),
                    why: why.clone(),
                });
            }
            (Some(object), Sight::Absent) => plan.actions.push(Action::Create {
                kind,
                object: object.clone(),
            }),
            // It has to be gone before the name is free again, whosever it is; its end wakes us.
            (_, Sight::Seen(child)) if child.deleting => {}
            (Some(_), Sight::Seen(child)) if !child.is_controlled_by(&app.uid) => {
                plan.failures.push(taken(kind, &app.name, child));
            }
            (Some(object), Sight::Seen(child)) => {
                let object = &*later::due(object, &child.digest);
                if let Some(because) = child.digest.lacks(object) {
                    if because == "spec.replicas" {
                        plan.rival_scaler.clone_from(&child.managers.scaled_by);
                    }
                    plan.actions.push(Action::Apply {
                        kind,
                        fold: fold(app, kind, child, object),
                        object: with_uid(object, &child.uid),
                        because,
                    });
                }
            }
            (None, Sight::Seen(child)) if child.is_controlled_by(&app.uid) => {
                plan.actions.push(Action::Delete {
                    kind,
                    name: app.name.clone(),
                    uid: child.uid.clone(),
                });
            }
            // Nothing is there, or nothing of ours. Where it can't be seen, pruning waits until it can.
            (None, _) => {}
        }
    }
    plan
}

/// Whether a child belongs to another owner, who is not just about to be removed with it.
fn is_foreign(app: &Valid<'_>, child: &Child) -> bool {
    !child.is_controlled_by(&app.uid) && !child.is_left_by_a_predecessor(&app.name)
}

fn may_become_ours(app: &Valid<'_>, service: &Sight<Child>) -> bool {
    match service {
        Sight::Absent => true,
        Sight::Seen(child) => child.is_controlled_by(&app.uid),
        Sight::Blind(_) => false,
    }
}

/// Whether a write can be carried out, by what is known of the Service after the writes before it. An Ingress is written only
/// while its Service is known to be ours: it would publish whatever has the Service's name.
#[must_use]
pub fn may_follow(action: &Action, uid: &str, service: Option<&Child>) -> bool {
    let is_delete = matches!(action, Action::Delete { .. });
    is_delete || action.kind() != ChildKind::Ingress || service.is_some_and(|child| child.is_controlled_by(uid))
}

/// Returns what has to be removed when a write has found the name of a child to be taken: our Ingress, if it leads to that
/// Service. A watch does not show a Service without our label, so the plan could not know.
#[must_use]
pub fn after(failure: &Failure, app: &Valid<'_>, ingress: &Sight<Child>) -> Option<Action> {
    let is_of_the_service = |kind: &str| kind == ChildKind::Service.as_str();
    let is_taken = matches!(failure, Failure::NameConflict { kind, .. } if is_of_the_service(kind));
    let ingress = ingress
        .seen()
        .filter(|child| is_taken && child.is_controlled_by(&app.uid) && !child.deleting)?;
    Some(Action::Delete {
        kind: ChildKind::Ingress,
        name: app.name.clone(),
        uid: ingress.uid.clone(),
    })
}

/// Says who has the name of a child that is not ours.
#[must_use]
pub fn taken(kind: ChildKind, name: &str, child: &Child) -> Failure {
    let name = name.to_owned();
    if child.is_left_by_a_predecessor(&name) {
        return Failure::Leftover {
            kind: kind.as_str(),
            owner: format!("AppDeploy {name}"),
            name,
        };
    }
    Failure::NameConflict {
        kind: kind.as_str(),
        name,
        owner: child.foreign_owner.clone(),
    }
}

/// Returns the strategic merge patch that leaves no ports but ours, for a kind that has ports.
///
/// Ports are merged by number. One that was given another number by hand is not ours any more, and an apply
/// puts ours beside it, under the same name, which the API server refuses.
#[must_use]
pub fn our_ports_alone(kind: ChildKind, object: &Value) -> Option<Value> {
    let alone = |ports: &Value| {
        let mut list = vec![json!({"$patch": "replace"})];
        list.extend(ports.as_array()?.iter().cloned());
        Some(json!(list))
    };
    let spec = match kind {
        ChildKind::Deployment => {
            let container = object.pointer("/spec/template/spec/containers/0")?;
            let ours = json!({"name": container["name"], "ports": alone(&container["ports"])?});
            json!({"template": {"spec": {"containers": [ours]}}})
        }
        ChildKind::Service => json!({"ports": alone(&object["spec"]["ports"])?}),
        ChildKind::Ingress => return None,
    };
    Some(json!({"metadata": {"uid": object["metadata"]["uid"]}, "spec": spec}))
}

fn with_uid(object: &Value, uid: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["uid"] = json!(uid);
    object
}

fn fold(app: &Valid<'_>, kind: ChildKind, child: &Child, wanted: &Value) -> Option<Fold> {
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

/// Whether a field that was wanted before is not wanted any more. Not sure counts as yes: that costs a write.
fn may_drop_a_field(app: &Valid<'_>, kind: ChildKind, child: &Child, wanted: &Value) -> bool {
    let hash = |object: &Value| {
        object["metadata"]["annotations"][crd::annotation::DESIRED_HASH]
            .as_str()
            .map(str::to_owned)
    };
    if child.desired_hash == hash(wanted) {
        return false; // The wish is the same; somebody else changed the object.
    }
    if kind != ChildKind::Deployment {
        return true;
    }
    let Some(rollout) = child.rollout() else { return true };
    let pod: Option<PodFields> = rollout
        .revision_spec
        .as_deref()
        .and_then(|spec| serde_json::from_str(spec).ok());
    let Some(pod) = pod else { return true };
    let before = deployment(&Valid {
        pod: &pod,
        replicas: rollout.wanted,
        ..app.clone()
    });
    // What this operator would have rendered is not what was written: an older one did, or there was a restart.
    let before_was = later::previous(&before, &child.digest);
    child.desired_hash != hash(&before) || !paths(&before_was).is_subset(&paths(wanted))
}

#[cfg(test)]
mod tests {
    use crd::AppDeploy;
    use kube::core::ObjectMeta;
    use proptest::prelude::*;

    use super::*;
    use crate::{desired, validate};

    const UID: &str = "11111111-1111-1111-1111-111111111111";

    fn app(spec: Value) -> AppDeploy {
        serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "web", "namespace": "default", "uid": UID}, "spec": spec,
        }))
        .unwrap()
    }

    /// The world, as far as a plan changes it: what the API server would store.
    fn perform(observed: &mut Observed, action: &Action) {
        let (kind, sight) = match action {
            Action::Create { kind, object } | Action::Apply { kind, object, .. } => {
                let mut meta: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
                meta.uid = Some(format!("uid-of-{kind}"));
                (*kind, Sight::Seen(Child::read(*kind, &meta, object)))
            }
            Action::Delete { kind, .. } => (*kind, Sight::Absent),
        };
        *match kind {
            ChildKind::Deployment => &mut observed.deployment,
            ChildKind::Service => &mut observed.service,
            ChildKind::Ingress => &mut observed.ingress,
        } = sight;
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

    fn kinds(plan: &Plan) -> Vec<(&'static str, ChildKind)> {
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
        assert_eq!(kinds(&plan), ChildKind::ALL.map(|kind| ("create", kind)));
        assert_eq!(plan_for(&spec, &settled(&spec)), Plan::default());
    }

    #[test]
    fn a_new_image_is_one_apply() {
        let observed = settled(&json!({"image": "nginx", "port": 80}));
        let plan = plan_for(&json!({"image": "nginx:1.27", "port": 80}), &observed);
        assert_eq!(kinds(&plan), [("apply", ChildKind::Deployment)]);
    }

    fn created(mut observed: Observed, applied: bool) -> Observed {
        for sight in [&mut observed.deployment, &mut observed.service, &mut observed.ingress] {
            if let Sight::Seen(child) = sight {
                child.managers = crate::observed::Managers {
                    created_entry: Some(0),
                    applied,
                    scaled_by: None,
                };
            }
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
        assert_eq!(
            kinds(&plan),
            [("apply", ChildKind::Deployment), ("apply", ChildKind::Service)]
        );
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
            [
                ("apply", ChildKind::Deployment),
                ("delete", ChildKind::Service),
                ("delete", ChildKind::Ingress)
            ]
        );
        let Action::Delete { uid, .. } = &plan.actions[1] else {
            panic!()
        };
        assert_eq!(uid, "uid-of-Service");
    }

    #[test]
    fn a_foreign_object_is_neither_written_nor_deleted() {
        let mut observed = settled(&json!({"image": "nginx", "port": 80}));
        for sight in [&mut observed.service, &mut observed.ingress] {
            let Sight::Seen(child) = sight else { panic!() };
            child.controller = Some("somebody else".into());
            child.foreign_owner = Some("HelmRelease web".into());
        }
        let plan = plan_for(&json!({"image": "nginx", "port": 81}), &observed);
        assert_eq!(kinds(&plan), [("apply", ChildKind::Deployment)]);
        assert!(
            plan.failures
                .iter()
                .all(|failure| matches!(failure, Failure::NameConflict { .. }))
        );
        assert_eq!(plan.failures.len(), 2);
        assert_eq!(
            kinds(&plan_for(&json!({"image": "nginx"}), &observed)),
            [("apply", ChildKind::Deployment)]
        );
    }

    fn with_service(spec: &Value, change: impl FnOnce(&mut Child)) -> Observed {
        let mut observed = settled(spec);
        let Sight::Seen(child) = &mut observed.service else {
            panic!()
        };
        change(child);
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
        assert_eq!(kinds(&plan_for(&moved, &foreign)), [("delete", ChildKind::Ingress)]);
        let being_deleted = with_service(&spec, |child| {
            child.controller = None;
            child.foreign_owner = None;
            child.deleting = true;
        });
        assert_eq!(
            kinds(&plan_for(&spec, &being_deleted)),
            [("delete", ChildKind::Ingress)]
        );
        for service in [foreign.service, being_deleted.service, Sight::Blind("403".into())] {
            let observed = Observed {
                service,
                ..Observed::default()
            };
            assert_eq!(kinds(&plan_for(&spec, &observed)), [("create", ChildKind::Deployment)]);
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
            [("apply", ChildKind::Deployment), ("delete", ChildKind::Ingress)]
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
        assert!(may_follow(ingress, UID, observed.service.seen()));
        assert!(!may_follow(ingress, "another uid", observed.service.seen()));

        let app = app(spec);
        let valid = validate(&app).unwrap();
        let of = |kind: ChildKind| Failure::NameConflict {
            kind: kind.as_str(),
            name: "web".into(),
            owner: None,
        };
        assert!(after(&of(ChildKind::Deployment), &valid, &observed.ingress).is_none());
        assert!(after(&of(ChildKind::Service), &valid, &Sight::Absent).is_none());
        let removed = after(&of(ChildKind::Service), &valid, &observed.ingress).unwrap();
        assert!(matches!(&removed, Action::Delete { kind: ChildKind::Ingress, uid, .. } if uid == "uid-of-Ingress"));
        assert!(may_follow(&removed, UID, None));
    }

    #[test]
    fn what_cannot_be_seen_is_not_written() {
        let mut observed = settled(&json!({"image": "nginx", "port": 80}));
        observed.ingress = Sight::Blind("403".into());
        let plan = plan_for(&json!({"image": "nginx:2", "port": 80, "host": "a.example"}), &observed);
        assert_eq!(kinds(&plan), [("apply", ChildKind::Deployment)]);
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
        observed.ingress = Sight::Blind("403".into());
        assert_eq!(plan_for(&json!({"image": "nginx"}), &observed), Plan::default());
    }

    /// Deleted and made anew under the same name: the garbage collector still has the old children.
    #[test]
    fn what_a_predecessor_left_is_waited_for() {
        let spec = json!({"image": "nginx"});
        let mut observed = settled(&spec);
        let Sight::Seen(child) = &mut observed.deployment else {
            panic!()
        };
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
        let Sight::Seen(child) = &mut observed.deployment else {
            panic!()
        };
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
        let Sight::Seen(child) = &mut observed.service else {
            panic!()
        };
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
        let Sight::Seen(child) = &mut observed.deployment else {
            panic!()
        };
        child.desired_hash = None;
        let object = {
            let app = app(spec.clone());
            let mut object = desired(&validate(&app).unwrap()).deployment;
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
                    spec["expose"] = json!(if service { "Service" } else { "Ingress" });
                }
                spec
            })
    }

    proptest! {
        /// From any app to any other, whatever children were lost in between: one round of writes, then quiet.
        #[test]
        fn settles_after_one_round(before in spec(), after in spec(), lost in any::<[bool; 3]>()) {
            let mut observed = settled(&before);
            if lost[0] { observed.deployment = Sight::Absent; }
            if lost[1] { observed.service = Sight::Absent; }
            if lost[2] { observed.ingress = Sight::Absent; }
            for action in plan_for(&after, &observed).actions {
                perform(&mut observed, &action);
            }
            prop_assert_eq!(plan_for(&after, &observed), Plan::default());
        }
    }
}
