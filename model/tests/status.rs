//! The status for children and pods as the API server and the kubelet report them over time.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use crd::{AppDeploy, AppDeployStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::core::ObjectMeta;
use model::children::{DEPLOYMENT, INGRESS, SERVICE};
use model::pod::PodState;
use model::status::{StatusOptions, event_query};
use model::{Child, ChildId, ChildKind, IngressClasses, Observed, status, validate};
use serde_json::{Value, json};

const UID: &str = "u1";

fn app(replicas: i32) -> AppDeploy {
    serde_json::from_value(json!({
        "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
        "metadata": {"name": "web", "namespace": "shop", "uid": UID, "generation": 2},
        "spec": {"image": "nginx", "port": 80, "replicas": replicas},
    }))
    .unwrap()
}

fn child(kind: &'static ChildKind, object: &Value) -> (ChildId, Child) {
    let meta: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
    (ChildId::new(kind, "web"), Child::read(kind, &meta, object))
}

fn meta(extra: &Value) -> Value {
    let owner = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "web", "uid": UID, "controller": true});
    let mut meta = json!({"name": "web", "namespace": "shop", "uid": "c", "generation": 1, "ownerReferences": [owner]});
    for (key, value) in extra.as_object().into_iter().flatten() {
        meta[key] = value.clone();
    }
    meta
}

/// Returns a Deployment with these numbers of pods: desired, all, updated, ready.
fn deployment(extra: &Value, [wanted, all, updated, ready]: [i32; 4]) -> Value {
    json!({"metadata": meta(extra), "spec": {"replicas": wanted}, "status": {"observedGeneration": 1, "replicas": all,
        "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": ready}})
}

/// Returns an app with one pod whose children all exist.
fn complete() -> Observed {
    let nothing = json!({});
    let service = json!({"metadata": meta(&nothing), "spec": {"clusterIP": "10.0.0.1"}});
    let ingress = json!({"metadata": meta(&nothing), "spec": {"ingressClassName": "traefik"},
        "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.7"}]}}});
    Observed {
        children: [
            child(&DEPLOYMENT, &deployment(&nothing, [1; 4])),
            child(&SERVICE, &service),
            child(&INGRESS, &ingress),
        ]
        .map(|(id, child)| (id, child.into()))
        .into(),
        ingress_classes: IngressClasses::Known {
            names: ["traefik".to_owned()].into(),
            has_default: true,
        },
        ..Observed::default()
    }
}

/// Replaces a child.
fn with(mut observed: Observed, (id, child): (ChildId, Child)) -> Observed {
    observed.insert(id, child);
    observed
}

fn status_of(replicas: i32, observed: &Observed, now: i64) -> AppDeployStatus {
    let app = app(replicas);
    let valid = validate(&app).unwrap();
    let now = Timestamp::from_second(now).unwrap();
    let options = StatusOptions { needs_address: true };
    status(&app, Some(&valid), observed, &[], options, now)
}

fn condition(status: &AppDeployStatus, type_: &str) -> Option<(String, String)> {
    let found = status.conditions.iter().find(|c| c.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone()))
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

const HELD: &str = "2026-01-01T00:00:00Z";

#[test]
fn app_is_not_ready_while_one_of_its_children_is_being_deleted() {
    assert_eq!(
        condition(&status_of(1, &complete(), 0), "Ready"),
        Some(pair("True", "Available"))
    );
    let held = json!({"deletionTimestamp": HELD, "finalizers": ["foregroundDeletion", "example.com/hold"]});
    let foreign = json!({"deletionTimestamp": HELD, "finalizers": ["example.com/hold"], "ownerReferences": []});
    for (kind, extra) in [
        (&DEPLOYMENT, &held),
        (&SERVICE, &held),
        (&INGRESS, &held),
        (&SERVICE, &foreign),
    ] {
        let leaving = json!({"metadata": meta(extra), "spec": {"replicas": 1, "clusterIP": "10.0.0.1"},
            "status": deployment(&json!({}), [1; 4])["status"]});
        let observed = with(complete(), child(kind, &leaving));
        let status = status_of(1, &observed, 0);
        assert_eq!(
            condition(&status, "Ready"),
            Some(pair("False", "ChildDeleting")),
            "{kind}"
        );
        let cause = status.cause.unwrap();
        assert!(
            cause.message.starts_with(&format!("{kind} web is being deleted"))
                && cause.message.contains("example.com/hold"),
            "{cause:?}"
        );
        assert!(!cause.message.contains("foregroundDeletion"), "{cause:?}");
        let resource = kind.as_str().to_lowercase();
        assert_eq!(cause.next.unwrap(), format!("kubectl edit {resource} web -n shop"));
    }
}

#[test]
fn deletion_without_a_finalizer_is_progress() {
    let leaving = json!({"deletionTimestamp": HELD, "finalizers": ["foregroundDeletion"]});
    let observed = with(complete(), child(&DEPLOYMENT, &deployment(&leaving, [1; 4])));
    let status = status_of(1, &observed, 0);
    assert_eq!(condition(&status, "Ready"), Some(pair("False", "Progressing")));
    assert_eq!(status.cause, None);
}

fn time(second: i64) -> String {
    Timestamp::from_second(second).unwrap().to_string()
}

/// Returns a pod of the new template whose container has this status.
fn pod(own: &Value) -> PodState {
    let probe = |threshold: i32| json!({"httpGet": {"path": "/nope", "port": 80}, "periodSeconds": 2, "failureThreshold": threshold});
    let mut status = json!({"name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": 0});
    for (key, value) in own.as_object().unwrap() {
        status[key] = value.clone();
    }
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "p1", "labels": {"pod-template-hash": "new"},
            "creationTimestamp": time(100)},
        "spec": {"containers": [{"name": "app", "image": "nginx", "startupProbe": probe(30), "readinessProbe": probe(3),
            "livenessProbe": probe(6), "resources": {"limits": {"memory": "64"}}}]},
        "status": {"phase": "Running", "startTime": time(100), "containerStatuses": [status],
            "conditions": [{"type": "PodScheduled", "status": "True"}]},
    }))
    .unwrap();
    PodState::read(&pod)
}

/// Returns an app with one pod that is not ready.
fn with_pod(pod: PodState) -> Observed {
    Observed {
        pods: vec![pod],
        ..with(complete(), child(&DEPLOYMENT, &deployment(&json!({}), [1, 1, 1, 0])))
    }
}

fn reason(pod: &PodState, now: i64) -> String {
    condition(&status_of(1, &with_pod(pod.clone()), now), "Ready")
        .unwrap()
        .1
}

/// The kubelet restarts a container that has not passed its startup probe for 60 s, each time after a longer wait.
#[test]
fn failed_startup_probe_stays_the_cause_across_restarts() {
    let mut reasons = Vec::new();
    let mut now = 100;
    let mut ended = json!({});
    for restarts in 0..4 {
        let running = pod(&json!({"restartCount": restarts, "started": false,
            "state": {"running": {"startedAt": time(now)}}, "lastState": ended}));
        for second in now..now + 60 {
            reasons.push((second, reason(&running, second)));
        }
        let end = json!({"terminated": {"exitCode": 0, "startedAt": time(now), "finishedAt": time(now + 60)}});
        let pod_after_end = pod(&json!({"restartCount": restarts, "started": false, "state": end, "lastState": ended}));
        reasons.push((now + 60, reason(&pod_after_end, now + 60)));
        ended = end;
        let waiting = pod(&json!({"restartCount": restarts, "started": false,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}));
        now += 60 + [0, 10, 20, 40][restarts];
        reasons.push((now, reason(&waiting, now)));
    }
    let others: Vec<_> = reasons.iter().filter(|(_, reason)| reason != "NotHealthy").collect();
    assert!(
        others
            .iter()
            .all(|(second, reason)| *second < 110 && reason == "Progressing"),
        "{others:?}"
    );
}

#[test]
fn several_crashes_in_a_row_are_stalled() {
    for (reason, code) in [("Error", 1), ("OOMKilled", 137)] {
        let ended = json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": time(200), "finishedAt": time(201)}});
        let stalled = |restarts: i32, state: &Value| {
            let pod = pod(&json!({"restartCount": restarts, "state": state, "lastState": ended}));
            condition(&status_of(1, &with_pod(pod), 201), "Stalled").is_some()
        };
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let running = json!({"running": {"startedAt": time(200)}});
        assert_eq!(
            [1, 2, 3, 9].map(|restarts| stalled(restarts, &waiting)),
            [false, false, true, true]
        );
        assert_eq!(
            [1, 3, 4, 9].map(|restarts| stalled(restarts, &running)),
            [false, false, true, true]
        );
    }
}

#[test]
fn crash_after_a_long_run_is_not_stalled() {
    let ended = json!({"terminated": {"exitCode": 1, "startedAt": time(200), "finishedAt": time(900)}});
    let pod =
        pod(&json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}));
    let status = status_of(1, &with_pod(pod), 901);
    assert_eq!(condition(&status, "Ready"), Some(pair("False", "CrashLoop")));
    assert_eq!(condition(&status, "Stalled"), None);
}

#[test]
fn failed_rollout_reports_pods_that_still_serve() {
    let waiting = json!({"waiting": {"reason": "InvalidImageName"}});
    let old = |name: &str| PodState {
        name: name.to_owned(),
        ready: true,
        created: 1,
        template: Some("old".to_owned()),
        ..PodState::default()
    };
    let observed = with_pod(pod(&json!({"state": waiting})));
    let mut observed = with(observed, child(&DEPLOYMENT, &deployment(&json!({}), [3, 4, 1, 3])));
    observed.pods.extend(["a", "b", "c"].map(old));
    let message = status_of(3, &observed, 200).cause.unwrap().message;
    let end = "; 3 pods of an earlier revision still serve, undo with: kubectl appdeploy undo web -n shop";
    assert!(message.ends_with(end), "{message}");
    // The only pods are those that fail.
    let message = status_of(1, &with_pod(pod(&json!({"state": waiting}))), 200)
        .cause
        .unwrap()
        .message;
    assert!(!message.contains("serve"), "{message}");
}

#[test]
fn events_are_needed_if_a_container_is_not_started() {
    let creating = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let needs_events = |pod: PodState, now: i64| {
        let observed = with_pod(pod);
        let status = status_of(1, &observed, now);
        event_query(&status, &observed, Timestamp::from_second(now).unwrap()).is_some()
    };
    assert!(!needs_events(pod(&creating), 109));
    assert!(needs_events(pod(&creating), 110));
}

#[test]
fn unknown_waiting_reasons_of_a_container_are_reported() {
    let waiting = json!({"waiting": {"reason": "ImageInspectError", "message": "failed to inspect image: EOF"}});
    let status = status_of(1, &with_pod(pod(&json!({"state": waiting}))), 200);
    assert_eq!(condition(&status, "Ready"), Some(pair("False", "ContainerFailed")));
    assert!(status.cause.unwrap().message.contains("failed to inspect image: EOF"));
}
