use std::sync::Arc;

use crd::AppDeploy;
use kube::core::ObjectMeta;
use proptest::prelude::*;

use super::*;
use crate::children::{CHILDREN, ChildState, DEPLOYMENT, INGRESS, Owner, SERVICE, SERVICE_ACCOUNT};
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
        Action::Create { id, object } | Action::Change { id, object, .. } => {
            let mut meta: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
            meta.uid = Some(format!("uid-of-{}", id.kind));
            observed.insert(id.clone(), Child::read(id.kind, &meta, object));
        }
        Action::Delete { id, .. } => observed.remove(id),
    }
}

fn change<'a>(observed: &'a mut Observed, kind: &ChildKind) -> &'a mut Child {
    let mut all = observed.children.iter_mut();
    let (_, child) = all.find(|(id, _)| id.kind == kind).unwrap();
    Arc::make_mut(child)
}

fn owner(name: Option<&str>) -> Owner {
    Owner {
        uid: "other uid".into(),
        name: name.map(Into::into),
    }
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
        Action::Change {
            means: Means::Patch(_), ..
        } => "patch",
        Action::Change { .. } => "apply",
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
        Arc::make_mut(child).managers = crate::children::Managers {
            created_entry: Some(0),
            applied,
            scaled_by: None,
        };
    }
    observed
}

fn means_of(plan: &Plan) -> &str {
    match &plan.actions[..] {
        [Action::Change { means, .. }] => match means {
            Means::Apply => "apply",
            Means::FoldAndApply(fold) => fold.patch[3]["op"].as_str().unwrap(),
            Means::Patch(_) => "patch",
        },
        _ => panic!("{plan:?}"),
    }
}

#[test]
fn means_of_a_change_depend_on_what_it_removes() {
    let before = json!({"image": "nginx", "port": 80, "env": [{"name": "A", "value": "1"}]});
    for (after, expected) in [
        (
            json!({"image": "nginx:2", "port": 80, "env": [{"name": "A", "value": "1"}]}),
            "patch",
        ),
        (
            json!({"image": "nginx", "port": 80, "env": [{"name": "A", "value": "1"}], "replicas": 3}),
            "patch",
        ),
        (
            json!({"image": "nginx", "port": 80, "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}),
            "apply",
        ),
        (json!({"image": "nginx", "port": 80}), "replace"),
    ] {
        let plan = plan_for(&after, &created(settled(&before), false));
        assert_eq!(means_of(&plan), expected, "{after}");
    }
    let applied = created(settled(&before), true);
    let removed = json!({"image": "nginx", "port": 80});
    assert_eq!(means_of(&plan_for(&removed, &applied)), "remove");
    let mut other_image = before.clone();
    other_image["image"] = json!("nginx:2");
    // A patch would take the image from the entry of the apply.
    assert_eq!(means_of(&plan_for(&other_image, &applied)), "apply");
}

#[test]
fn field_outside_of_lists_is_restored_by_a_patch() {
    let spec = json!({"image": "nginx", "port": 80, "replicas": 2});
    let edited = |pointer: &str, value: Value, applied: bool| {
        let mut observed = created(settled(&spec), applied);
        let plan = plan_for(&spec, &Observed::default());
        let Action::Create { mut object, .. } = plan.actions[0].clone() else {
            panic!("{plan:?}")
        };
        *object.pointer_mut(pointer).unwrap() = value;
        let meta: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
        change(&mut observed, &DEPLOYMENT).digest = Child::read(&DEPLOYMENT, &meta, &object).digest;
        plan_for(&spec, &observed)
    };
    let plan = edited("/spec/replicas", json!(5), false);
    let [
        Action::Change {
            means: Means::Patch(patch),
            ..
        },
    ] = &plan.actions[..]
    else {
        panic!("{plan:?}")
    };
    assert_eq!(
        *patch,
        json!({"metadata": {"uid": "uid-of-Deployment"}, "spec": {"replicas": 2}})
    );
    assert_eq!(means_of(&edited("/spec/replicas", json!(5), true)), "apply");
    let image = "/spec/template/spec/containers/0/image";
    assert_eq!(means_of(&edited(image, json!("evil"), false)), "apply");
}

/// A patch would keep what another client has changed.
#[test]
fn change_that_also_restores_a_field_is_applied() {
    let before = json!({"image": "nginx", "port": 80});
    let mut observed = created(settled(&before), false);
    let mut edited = plan_for(&before, &Observed::default());
    let Action::Create { object, .. } = &mut edited.actions[0] else {
        panic!()
    };
    object["spec"]["template"]["spec"]["enableServiceLinks"] = json!(true);
    let child = change(&mut observed, &DEPLOYMENT);
    let meta: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
    child.digest = Child::read(&DEPLOYMENT, &meta, object).digest;
    let plan = plan_for(&json!({"image": "nginx:2", "port": 80}), &observed);
    assert_eq!(means_of(&plan), "apply");
}

/// It also has the default that an older operator may not have written.
#[test]
fn patch_of_a_new_image_has_the_image_and_what_records_it() {
    let observed = created(settled(&json!({"image": "nginx", "port": 80})), false);
    let plan = plan_for(&json!({"image": "nginx:2", "port": 80}), &observed);
    let [
        Action::Change {
            object,
            means: Means::Patch(patch),
            ..
        },
    ] = &plan.actions[..]
    else {
        panic!("{plan:?}")
    };
    let expected = json!({"metadata": {"uid": "uid-of-Deployment", "annotations": object["metadata"]["annotations"]},
        "spec": {"template": {"spec": {"containers": [
            {"name": "app", "image": "nginx:2", "terminationMessagePolicy": "FallbackToLogsOnError"}]}}}});
    assert_eq!(*patch, expected);
}

/// A volume has one source, and Kubernetes merges mounts by their path. Without the fold the old ones would stay.
#[test]
fn new_source_or_path_of_a_volume_replaces_the_old_one() {
    let with = |volume: Value| {
        let mut volume = volume;
        volume["name"] = json!("config");
        json!({"image": "nginx", "volumes": [volume]})
    };
    let before = with(json!({"mountPath": "/a", "emptyDir": {}}));
    for after in [
        json!({"mountPath": "/a", "configMap": {"name": "web"}}),
        json!({"mountPath": "/b", "emptyDir": {}}),
    ] {
        let plan = plan_for(&with(after.clone()), &created(settled(&before), false));
        assert_eq!(means_of(&plan), "replace", "{after}");
    }
    let other = with(json!({"mountPath": "/a", "emptyDir": {"sizeLimit": "1Mi"}}));
    let plan = plan_for(&other, &created(settled(&before), false));
    assert_eq!(means_of(&plan), "apply");
}

/// Kubernetes merges ports by number. Without the fold the old port would stay, with the same name.
#[test]
fn new_port_replaces_the_old_one() {
    let observed = created(settled(&json!({"image": "nginx", "port": 80})), false);
    let plan = plan_for(&json!({"image": "nginx", "port": 81}), &observed);
    assert_eq!(kinds(&plan), [("apply", &DEPLOYMENT), ("apply", &SERVICE)]);
    assert!(plan.actions.iter().all(|action| matches!(
        action,
        Action::Change {
            means: Means::FoldAndApply(_),
            ..
        }
    )));
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
        child.controller = Some(owner(Some("HelmRelease web")));
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
    });
    assert_eq!(kinds(&plan_for(&moved, &foreign)), [("delete", &INGRESS)]);
    let being_deleted = with_service(&spec, |child| {
        child.controller = None;
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
        child.controller = Some(owner(None));
    });
    assert_eq!(kinds(&plan_for(&moved, &leftover)), []);
    // The app has no port, and so no Ingress.
    let foreign = with_service(&spec, |child| {
        child.controller = None;
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
    let app = app(spec.clone());
    let valid = validate(&app).unwrap();
    for action in [deployment, service] {
        assert_eq!(target(action, &valid), None);
    }
    assert_eq!(target(ingress, &valid), Some(ChildId::new(&SERVICE, "web")));
    let observed = settled(&spec);

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
    assert_eq!(target(removed, &valid), None);
}

fn with_account() -> Value {
    json!({"image": "nginx", "serviceAccount": {"annotations": {"a": "b"}}})
}

#[test]
fn own_service_account_is_written_before_the_deployment() {
    let spec = with_account();
    let plan = plan_for(&spec, &Observed::default());
    assert_eq!(kinds(&plan), [("create", &SERVICE_ACCOUNT), ("create", &DEPLOYMENT)]);
    let app = app(spec.clone());
    let valid = validate(&app).unwrap();
    let targets: Vec<_> = plan.actions.iter().map(|action| target(action, &valid)).collect();
    assert_eq!(targets, [None, Some(ChildId::new(&SERVICE_ACCOUNT, "web"))]);
    let observed = settled(&spec);
    assert_eq!(plan_for(&spec, &observed), Plan::default());
    let mut changed = spec;
    changed["serviceAccount"]["annotations"]["a"] = json!("c");
    let plan = plan_for(&changed, &observed);
    let of_account = ("apply", &SERVICE_ACCOUNT);
    // The Deployment records the spec.
    assert_eq!(kinds(&plan), [of_account, ("apply", &DEPLOYMENT)]);
}

/// Otherwise the pods would run as that ServiceAccount.
#[test]
fn deployment_is_not_written_while_its_service_account_is_a_third_party_object() {
    let mut spec = with_account();
    let mut observed = settled(&spec);
    let account = change(&mut observed, &SERVICE_ACCOUNT);
    account.controller = None;
    spec["image"] = json!("nginx:2");
    let plan = plan_for(&spec, &observed);
    assert_eq!(kinds(&plan), []);
    assert!(matches!(
        &plan.failures[..],
        [Failure::NameConflict {
            kind: "ServiceAccount",
            ..
        }]
    ));
    lose(&mut observed, &DEPLOYMENT);
    assert_eq!(kinds(&plan_for(&spec, &observed)), []);
    hide(&mut observed, &SERVICE_ACCOUNT);
    assert_eq!(kinds(&plan_for(&spec, &observed)), []);
    // An app that does not need one is not affected.
    let plan = plan_for(&json!({"image": "nginx"}), &observed);
    assert_eq!(kinds(&plan), [("create", &DEPLOYMENT)]);
}

/// Without the empty deprecated field, the API server would keep the name.
#[test]
fn dropped_service_account_is_emptied_in_both_fields() {
    let named = json!({"image": "nginx", "serviceAccount": {"name": "builder"}});
    let pod = |plan: &Plan| {
        let [Action::Change { object, .. }] = &plan.actions[..] else {
            panic!("{plan:?}")
        };
        let pod = &object["spec"]["template"]["spec"];
        [pod["serviceAccountName"].clone(), pod["serviceAccount"].clone()]
    };
    let observed = settled(&named);
    assert_eq!(
        pod(&plan_for(&json!({"image": "nginx"}), &observed)),
        [json!(""), json!("")]
    );
    let other = json!({"image": "nginx", "serviceAccount": {"name": "other"}});
    assert_eq!(pod(&plan_for(&other, &observed)), [json!("other"), Value::Null]);
    let observed = settled(&json!({"image": "nginx"}));
    assert_eq!(
        pod(&plan_for(&json!({"image": "nginx:2"}), &observed)),
        [Value::Null, Value::Null]
    );
}

#[test]
fn own_service_account_is_deleted_after_the_rollout() {
    let mut observed = settled(&with_account());
    let spec = json!({"image": "nginx"});
    let plan = plan_for(&spec, &observed);
    assert_eq!(kinds(&plan), [("apply", &DEPLOYMENT)]);
    for action in plan.actions {
        perform(&mut observed, &action);
    }
    assert_eq!(kinds(&plan_for(&spec, &observed)), []);
    change(&mut observed, &DEPLOYMENT).state = ChildState::Rollout(Box::new(Rollout {
        observed: true,
        ..Rollout::default()
    }));
    assert_eq!(kinds(&plan_for(&spec, &observed)), [("delete", &SERVICE_ACCOUNT)]);
    change(&mut observed, &SERVICE_ACCOUNT).controller = None;
    assert_eq!(kinds(&plan_for(&spec, &observed)), []);
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
    child.controller = Some(owner(None));
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
        means_of(&plan_for(&json!({"image": "nginx:2", "port": 80}), &observed)),
        "replace"
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
    fn one_round_of_writes_is_enough(before in spec(), after in spec(), lost in any::<[bool; 5]>()) {
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
