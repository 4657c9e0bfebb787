use serde_json::json;

use super::*;
use crate::commands::gitops::adopt::dependents::Dependents;
use crate::resource::live_children::Live;

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shop", "namespace": "a", "uid": "d1", "labels": {"app": "shop"},
            "annotations": {"meta.helm.sh/release-name": "shop"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "shop"}}, "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"containers": [{"name": "shop", "image": "shop:1.4", "ports": [{"containerPort": 8080, "name": "web"}]}]}}}})
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop", "namespace": "a", "uid": "s1"},
        "spec": {"selector": {"app": "shop"}, "clusterIP": "10.0.0.1", "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}})
}

fn ingress() -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "shop", "namespace": "a", "uid": "i1", "annotations": {"acme.com/limit": "10"}},
        "spec": {"rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "shop", "port": {"number": 80}}}}]}}]}})
}

fn found(live: [Option<Value>; 3]) -> Snapshot {
    Snapshot {
        namespace: "a".into(),
        name: "shop".into(),
        live: Live::from(live),
        may_bridge: true,
        ..Snapshot::default()
    }
}

fn app(uid: &str) -> AppDeploy {
    serde_json::from_value(json!({"metadata": {"name": "shop", "namespace": "a", "uid": uid},
        "spec": {"image": "shop:1.4", "port": 8080, "replicas": 2, "host": "shop.example.com"}}))
    .unwrap()
}

fn owned(mut object: Value, uid: &str) -> Value {
    object["metadata"]["ownerReferences"] =
        json!([{"kind": "AppDeploy", "name": "shop", "uid": uid, "controller": true}]);
    object
}

/// All that a person sees of a plan at 80 columns.
fn screen(plan: &Plan) -> String {
    let render = RenderOptions {
        width: Some(80),
        ..RenderOptions::default()
    };
    let mut text = crate::output::yaml::write(&plan.manifest).unwrap();
    for pair in plan.pairs.iter().filter(|pair| pair.differs()) {
        text += &crate::resource::object_diff::unified(pair, &render).unwrap();
    }
    text += &plan.summary(false, &render);
    if let Some(refusal) = plan.refusal("appdeploy.appdeploy.dev/shop", false) {
        text += "\n";
        text += &refusal.text(&render);
    }
    text
}

#[test]
fn third_party_objects_are_shown_as_they_become() {
    let plan = plan(&found([Some(deployment()), Some(service()), Some(ingress())])).unwrap();
    assert_eq!((plan.pods, plan.is_done()), (Pods::Replaced, false));
    insta::assert_snapshot!(screen(&plan));
}

#[test]
fn losses_are_reported_by_field_unless_forced() {
    let mut rich = deployment();
    let pod = &mut rich["spec"]["template"]["spec"];
    pod["serviceAccountName"] = json!("shop");
    pod["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let dependents = Dependents {
        services: Ok(vec![
            serde_json::from_value(json!({"metadata": {"name": "shop-admin"}, "spec": {"selector": {"app": "shop"}}})).unwrap(),
            serde_json::from_value(json!({"metadata": {"name": "blog"}, "spec": {"selector": {"app": "blog"}}})).unwrap(),
        ]),
        policies: Ok(vec![
            serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": {"podSelector": {"matchLabels": {"app": "db"}},
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "shop"}}}]}]}}))
            .unwrap(),
            serde_json::from_value(json!({"metadata": {"name": "deny"}, "spec": {"podSelector": {}}})).unwrap(),
        ]),
        budgets: Err("n/a (forbidden)".to_owned()),
        scalers: Ok(vec![
            serde_json::from_value(json!({"metadata": {"name": "shop"}, "spec": {"maxReplicas": 9,
                "scaleTargetRef": {"kind": "Deployment", "name": "shop"}}}))
            .unwrap(),
        ]),
        ingresses: Ok(vec![
            serde_json::from_value(json!({"metadata": {"name": "shop-www"}, "spec": {"rules": [{"http": {"paths": [
                {"pathType": "Prefix", "path": "/", "backend": {"service": {"name": "shop", "port": {"name": "web"}}}}]}}]}}))
            .unwrap(),
        ]),
    };
    let found = Snapshot {
        dependents,
        ..found([Some(rich), Some(service()), Some(owned(ingress(), "other"))])
    };
    let plan = plan(&found).unwrap();
    let refusal = plan.refusal("appdeploy.appdeploy.dev/shop", false).unwrap();
    insta::assert_snapshot!(refusal.text(&RenderOptions::default()));
    assert_eq!(plan.refusal("appdeploy.appdeploy.dev/shop", true), None);
}

#[test]
fn pods_with_the_selector_of_an_app_are_kept() {
    let mut ejected = deployment();
    let ours = json!({"appdeploy.dev/app": "shop"});
    ejected["spec"]["selector"]["matchLabels"] = ours.clone();
    ejected["spec"]["template"]["metadata"]["labels"] = ours.clone();
    let mut service = service();
    service["spec"]["selector"] = ours;
    let plan = plan(&found([Some(ejected), Some(service), None])).unwrap();
    assert_eq!(plan.pods, Pods::Kept);
    assert_eq!(plan.manifest["spec"]["expose"], "Cluster");
    assert_eq!(plan.refusal("shop", false), None);
}

#[test]
fn interrupted_adoption_continues() {
    let at = |live: [Option<Value>; 3], orphans: Vec<Value>| {
        let found = Snapshot {
            app: Some(app("u1")),
            orphans,
            ..found(live)
        };
        let plan = plan(&found).unwrap();
        (plan.pods, plan.pairs.len(), plan.is_done())
    };
    let (service, ingress, mut orphan) = (service(), ingress(), deployment());
    orphan["kind"] = json!("ReplicaSet");
    let ours = || Some(owned(deployment(), "u1"));
    // The app is there and nothing else has happened.
    let all = [Some(deployment()), Some(service.clone()), Some(ingress.clone())];
    assert_eq!(at(all, vec![]), (Pods::Replaced, 3, false));
    // The old Deployment was deleted, the new one does not exist yet.
    let between = [None, Some(service.clone()), Some(ingress.clone())];
    assert_eq!(at(between, vec![orphan.clone()]), (Pods::Replaced, 2, false));
    // The Service is ours, the Ingress is not, the old pods are there.
    let half = [ours(), Some(owned(service.clone(), "u1")), Some(ingress.clone())];
    assert_eq!(at(half, vec![orphan.clone()]), (Pods::Replaced, 1, false));
    // Only the old pods are left.
    let rest = [
        ours(),
        Some(owned(service.clone(), "u1")),
        Some(owned(ingress.clone(), "u1")),
    ];
    assert_eq!(at(rest, vec![orphan]), (Pods::Replaced, 0, false));
    let done = [ours(), Some(owned(service, "u1")), Some(owned(ingress, "u1"))];
    assert_eq!(at(done, vec![]), (Pods::Own, 0, true));
}

#[test]
fn renamed_port_needs_a_bridge() {
    let plan_of = |name: &str, may_bridge: bool| {
        let mut service = service();
        service["spec"]["ports"][0]["name"] = json!(name);
        let found = Snapshot {
            may_bridge,
            ..found([Some(deployment()), Some(service), None])
        };
        plan(&found).unwrap()
    };
    assert!(
        plan_of("http", true).is_bridged,
        "port 80 has the name http, which port 8080 of an app has"
    );
    assert!(!plan_of("web", true).is_bridged, "port 80 keeps its name");
    assert_eq!(plan_of("web", false).refusal("shop", false), None);
    let refusal = plan_of("http", false).refusal("shop", false).unwrap();
    insta::assert_snapshot!(refusal.text(&RenderOptions::default()), @r"
    error: adopting shop would lose something: nothing was changed
      why:  requests to service/shop fail for a moment while its ports are renamed; with the right to create and delete EndpointSlices, adopt avoids this
    ");
}

#[test]
fn pause_is_not_adopted_if_new_pods_are_needed() {
    let plan_of = |updated: i32, selector: Value| {
        let mut paused = deployment();
        paused["spec"]["paused"] = json!(true);
        paused["spec"]["selector"] = selector;
        paused["status"] = json!({"replicas": 2, "updatedReplicas": updated});
        plan(&found([Some(paused), None, None])).unwrap()
    };
    let theirs = json!({"matchLabels": {"app": "shop"}});
    let idle = plan_of(2, theirs.clone());
    assert_eq!(idle.manifest["spec"]["paused"], Value::Null);
    insta::assert_snapshot!(idle.summary(false, &RenderOptions::default()), @r"
    pods:  are replaced, because the selector of a Deployment is immutable: new ones are started first, and the old ones are deleted when the new ones serve
    note:  deployment/shop is paused; the app is not, because it must start new pods
    note:  the new pods do not have the labels app=shop
    note:  the new pods have no ServiceAccount token, no privilege escalation, the runtime's seccomp profile
    note:  Helm release shop may revert the adoption: remove these objects from it
    ");
    let refusal = plan_of(1, theirs).refusal("shop", false).unwrap();
    insta::assert_snapshot!(refusal.text(&RenderOptions::default()), @r"
    error: adopting shop would lose something: nothing was changed
      why:  deployment/shop is paused in the middle of a rollout, and all pods of the app would have the new template
    ");
    // If the pods are kept, the pause is kept.
    let kept = plan_of(1, json!({"matchLabels": {"appdeploy.dev/app": "shop"}}));
    assert_eq!(
        (kept.pods, &kept.manifest["spec"]["paused"]),
        (Pods::Kept, &json!(true))
    );
    assert_eq!(kept.refusal("shop", false), None);
}

#[test]
fn adoption_without_new_pods_is_rejected() {
    let mut paused = app("u1");
    paused.spec.paused = true;
    let held = Snapshot {
        app: Some(paused),
        ..found([Some(deployment()), None, None])
    };
    let two = Snapshot {
        other: Some(deployment()),
        ..found([Some(deployment()), None, None])
    };
    let mut going = app("u1");
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let going = Snapshot {
        app: Some(going),
        ..found([Some(owned(deployment(), "u1")), Some(service()), None])
    };
    let errors = [held, two, going].map(|found| plan(&found).unwrap_err().text(&RenderOptions::default()));
    insta::assert_snapshot!(errors.join("\n"), @r"
    error: AppDeploy shop is paused, so no new pods would start: nothing was changed
      next: kubectl appdeploy resume shop -n a
    error: Deployment shop already exists, and the app needs its name: nothing was changed
      next: kubectl delete deployment shop -n a
            (if it is not needed)
    error: AppDeploy shop is being deleted, and adopted objects would be deleted with it: nothing was changed
      next: kubectl appdeploy status shop -n a
            (shows what blocks it)
    ");
}

#[test]
fn service_that_leads_elsewhere_is_reported_and_waits_for_the_pods_of_the_app() {
    let own = |spec: AppDeploySpec, mut service: Value, selector: Value| {
        let mut deployment = owned(deployment(), "u1");
        deployment["spec"]["template"]["metadata"]["labels"] = json!({"appdeploy.dev/app": "shop"});
        service["spec"]["selector"] = selector;
        let app = AppDeploy { spec, ..app("u1") };
        plan(&Snapshot {
            app: Some(app),
            ..found([Some(deployment), Some(service), None])
        })
        .unwrap()
    };
    let mut outside = service();
    outside["spec"]["type"] = json!("LoadBalancer");
    outside["spec"]["ports"] = json!([{"name": "http", "port": 80, "targetPort": "web"},
        {"name": "admin", "port": 81, "targetPort": "admin"}]);
    let plan = own(app("u1").spec, outside, json!({"app": "shop-v1"}));
    assert_eq!((plan.pods, plan.waits, plan.is_done()), (Pods::Own, true, false));
    assert_eq!(plan.extra_ports[0]["targetPort"], "http", "it still routes to the app");
    insta::assert_snapshot!(plan.refusal("shop", false).unwrap().text(&RenderOptions::default()), @r#"
    error: adopting shop would lose something: nothing was changed
      why:  service/shop spec.type: "LoadBalancer" can't be set in an app
      why:  service/shop does not select the pods of the app; if it selects those of another Deployment, name that one with --deployment
      why:  port 81 of service/shop targets the port admin, which the pods of the app do not have
    "#);
    // A Service that already selects the pods: of an ejected app, or of an interrupted adoption.
    let plan = own(app("u1").spec, service(), json!({"appdeploy.dev/app": "shop"}));
    assert_eq!((plan.waits, plan.refusal("shop", false)), (false, None));
    // One that the app does not want keeps its owner.
    let worker = AppDeploySpec {
        pod: crd::PodFields {
            container: crd::ContainerFields {
                port: None,
                ..app("u1").spec.pod.container
            },
            ..app("u1").spec.pod
        },
        host: None,
        ..app("u1").spec
    };
    assert!(own(worker, service(), json!({"app": "shop-v1"})).is_done());
}

#[test]
fn owners_and_early_loss_of_pods_are_reported() {
    let other = Snapshot {
        other: Some(owned(deployment(), "u2")),
        ..found([None, Some(service()), None])
    };
    let mut marked = deployment();
    marked["metadata"]["annotations"]["reloader.example.com/auto"] = json!("true");
    marked["spec"]["template"]["metadata"]["labels"]["appdeploy.dev/app"] = json!("shop");
    let container = &mut marked["spec"]["template"]["spec"]["containers"][0];
    container["readinessProbe"] = json!({"httpGet": {"path": "/ready", "port": "web"}});
    let marked = plan(&found([Some(marked), Some(service()), None])).unwrap();
    let refused = |plan: &Plan| plan.refusal("shop", false).unwrap().text(&RenderOptions::default());
    let texts = [
        refused(&plan(&other).unwrap()),
        refused(&marked),
        marked.summary(false, &RenderOptions::default()),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    error: adopting shop would lose something: nothing was changed
      why:  deployment/shop is owned by AppDeploy shop, which may change or delete it
    error: adopting shop would lose something: nothing was changed
      why:  the pods have the label appdeploy.dev/app=shop already, so the app's Deployment adopts them and deletes them before the new pods get requests
    pods:  are replaced, because the selector of a Deployment is immutable: new ones are started first, and the old ones are deleted when the new ones serve
    note:  port http of service/shop is renamed to port-80; update clients that use the name
    note:  the new pods do not have the labels app=shop
    note:  deployment/shop metadata.annotations.reloader.example.com/auto: "true" is removed
    note:  the new pods have no ServiceAccount token, no privilege escalation, the runtime's seccomp profile
    note:  Helm release shop may revert the adoption: remove these objects from it
    "#);
}

#[test]
fn pods_that_are_kept_and_change_are_waited_for() {
    let waits = |image: &str, name: &str| {
        let mut live = wanted(&Live::default(), &app("u0"))
            .unwrap()
            .first(&DEPLOYMENT)
            .unwrap()
            .clone();
        live["metadata"]["ownerReferences"] = Value::Null;
        live["spec"]["template"]["spec"]["containers"][0]["name"] = json!(name);
        let mut app = app("u1");
        app.spec.pod.container.image = image.to_owned();
        let found = Snapshot {
            app: Some(app),
            ..found([Some(live), None, None])
        };
        let plan = plan(&found).unwrap();
        (plan.pods, plan.waits)
    };
    assert_eq!(waits("shop:1.4", "app"), (Pods::Kept, false));
    assert_eq!(waits("shop:1.5", "app"), (Pods::Kept, true));
    assert_eq!(waits("shop:1.4", "web"), (Pods::Kept, true));
}

/// The app was created first, as in a repository, and leaves host and number of pods to their defaults.
#[test]
fn changed_host_and_replicas_of_an_existing_app_are_reported() {
    let live = || [Some(deployment()), Some(service()), Some(ingress())];
    let of = |change: &dyn Fn(&mut AppDeploySpec)| {
        let mut app = app("u1");
        app.spec.host = None;
        app.spec.replicas = 1;
        change(&mut app.spec);
        let found = Snapshot {
            app: Some(app),
            ..found(live())
        };
        plan(&found).unwrap()
    };
    let changes = |plan: &Plan| {
        let refusal = plan.refusal("appdeploy.appdeploy.dev/shop", false);
        let whys = refusal.iter().flat_map(|error| error.whys().to_vec());
        let all = whys.chain(plan.notes.clone());
        all.filter(|sentence| sentence.contains(" change")).collect::<Vec<_>>()
    };
    assert_eq!(
        changes(&of(&|_| {})),
        [
            "the host of ingress/shop changes from shop.example.com to shop.a; keep the host with: kubectl appdeploy set host \
             shop=shop.example.com -n a",
            "the replicas of deployment/shop change from 2 to 1, as in the spec of the app",
        ]
    );
    let moved = of(&|spec| {
        spec.host = Some("new.example.com".to_owned());
        spec.replicas = 2;
    });
    assert_eq!(
        changes(&moved),
        [
            "the host of ingress/shop changes from shop.example.com to new.example.com: requests to shop.example.com will fail"
        ]
    );
    assert_eq!(moved.refusal("shop", false), None);
    let kept = of(&|spec| {
        spec.host = Some("shop.example.com".to_owned());
        spec.replicas = 2;
    });
    assert_eq!(changes(&kept), [""; 0]);
}
