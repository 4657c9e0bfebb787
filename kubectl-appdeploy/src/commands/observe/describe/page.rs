//! The page of `describe`: head, spec, conditions, children, events.

use std::fmt::Write as _;

use crd::PodSetStatus;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use model::children::DEPLOYMENT;

use super::spec;
use crate::diagnosis::events::table::table;
use crate::diagnosis::queue::used;
use crate::diagnosis::request_path::{self, Diagnosis, PathContext};
use crate::diagnosis::tree;
use crate::output::description::Page;
use crate::resource::children::{Children, Section};
use crate::resource::revision::{self, Revision};
use crate::resource::workload::{Workload, url};
use crate::terminal::ui::{RenderOptions, Style};

/// The described object.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Whose page it is.
    pub workload: &'a Workload,
    /// Its children.
    pub children: &'a Children,
    /// The events of the object and its children.
    pub events: &'a Section<Event>,
    /// What else is known.
    pub asked: &'a PathContext,
    /// The time.
    pub now: Timestamp,
}

/// Returns the page.
pub fn text(subject: &Subject<'_>, render: &RenderOptions) -> String {
    let Subject {
        workload,
        children,
        events,
        asked,
        now,
    } = *subject;
    let mut page = Page {
        text: String::new(),
        render,
    };
    let story = request_path::diagnose(workload, children, asked, now);
    page.head(workload.meta(), now);
    spec::write(&mut page, workload);
    state(&mut page, workload, children, &story);
    page.conditions(workload.state().conditions, now);
    let view = tree::View {
        broken: story.broken,
        wide: false,
        width: page.room(),
        now,
    };
    let tree = tree::table(workload, children, view);
    if tree.is_empty() {
        page.line("Children", "<none>");
    } else {
        page.section("Children", &tree.text(render.color));
    }
    if !asked.queues.is_empty() {
        let queues = used::table(&asked.queues).wrapped(render.color, page.room());
        page.section("Queues", &queues);
    }
    let table = |events: &[Event]| table(events, now);
    page.events(events, table);
    page.text.truncate(page.text.trim_end().len());
    page.text
}

fn state(page: &mut Page<'_>, workload: &Workload, children: &Children, story: &Diagnosis) {
    let state = workload.state();
    let mut replicas = format!(
        "{} desired, {} updated, {} total, {} ready",
        workload.wanted(),
        state.updated,
        state.replicas,
        state.ready
    );
    match workload {
        Workload::App(app) => {
            page.line("Replicas", &replicas);
            rollout(page, children);
            page.line("URL", &url(app));
            if let Some(address) = app.status.as_ref().and_then(|status| status.address()) {
                page.line("Address", address);
            }
        }
        Workload::PodSet(set) => {
            let status = set.status.as_ref();
            let count = |n: fn(&PodSetStatus) -> Option<i32>| status.and_then(n).unwrap_or(0);
            let (available, ending) = (count(|s| s.available_replicas), count(|s| s.terminating_replicas));
            let _ = write!(replicas, ", {available} available");
            if ending > 0 {
                let _ = write!(replicas, ", {ending} terminating");
            }
            page.line("Replicas", &replicas);
        }
    }
    page.line(
        "Ready",
        &format!(
            "{} ({})",
            if workload.mood() == Style::Good { "yes" } else { "no" },
            workload.reason()
        ),
    );
    let notes = story.notes.iter().map(|note| ("  note", note));
    for (label, (sentence, next)) in story.why.iter().map(|why| ("  why", why)).chain(notes) {
        page.line(label, sentence);
        if let Some(next) = next {
            page.command("  next", next);
        }
    }
}

/// Writes which revisions serve while a newer one is rolled out.
fn rollout(page: &mut Page<'_>, children: &Children) {
    let (Some(deployment), Ok(sets)) = (children.first::<Deployment>(&DEPLOYMENT), &children.replica_sets) else {
        return;
    };
    let revisions = revision::read(&deployment, sets, &[]).into_iter();
    let mut revisions: Vec<Revision> = revisions.collect();
    let Some(newest) = revisions.pop() else { return };
    let text = |one: &Revision| {
        let (number, image) = (one.number, one.image());
        format!(
            "revision {number} with image {image}, {} of {} pods ready",
            one.ready, one.wanted
        )
    };
    let serving: Vec<String> = revisions.iter().filter(|one| one.serves()).map(text).collect();
    if !serving.is_empty() {
        page.list("Serving", &serving);
        page.line("Rolling out", &text(&newest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::observe::status::list::tests::{app, batch, cond, noon};
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use serde_json::json;

    fn described(workload: &Workload, events: Vec<Event>, width: Option<usize>) -> String {
        let subject = Subject {
            workload,
            children: &Children::of_pods(Ok(vec![])),
            events: &Ok(events),
            asked: &PathContext::default(),
            now: noon(),
        };
        text(
            &subject,
            &RenderOptions {
                width,
                ..RenderOptions::default()
            },
        )
    }

    #[test]
    fn description_has_the_probes_and_the_rollout() {
        let probes = json!({"readiness": {"httpGet": {"port": 8081}}, "liveness": {"exec": {"command": ["sh", "-c", "cat /alive"]}},
            "startup": {"grpc": {"port": 9090}}});
        let app = app(
            "shop",
            &json!({"image": "shop:1", "port": 80, "probes": probes, "preStopSleepSeconds": 5, "terminationGracePeriodSeconds": 60,
                "rollout": {"maxSurge": 2, "maxUnavailable": "0%", "progressDeadlineSeconds": 90}}),
            &json!({}),
        );
        let page = described(&app, Vec::new(), None);
        let lines: Vec<&str> = page
            .lines()
            .filter(|line| {
                ["9090", "81", "cat", "sleep", "Grace", "Rollout"]
                    .iter()
                    .any(|part| line.contains(part))
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        Rollout:         RollingUpdate, 0% max unavailable, 2 max surge, progress deadline 90s
        Readiness:       GET / on port 8081
        Liveness:        command sh -c "cat /alive"
        Startup:         gRPC on port 9090
        Grace Period:    60s
        Pre-Stop:        sleep 5s
        "#);
    }

    #[test]
    fn description_has_all_sections() {
        let app = app(
            "shop",
            &json!({"image": "shop:1", "port": 80, "replicas": 2, "args": ["--greeting", "hello world"],
                "env": [{"name": "A", "value": "1"}, {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "envFrom": [{"prefix": "A_", "configMapRef": {"name": "look"}}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}, "healthCheck": {"path": "/healthz"}}),
            &json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "url": "http://shop.default",
                "conditions": [cond("Ready", "False", "CrashLoop", "1 of 2 pods keeps crashing")],
                "cause": {"reason": "CrashLoop", "message": "shop-1: exit code 1: no such table", "next": "kubectl logs shop-1 -p"}}),
        );
        let event: Event = serde_json::from_value(
            json!({"metadata": {}, "type": "Warning", "reason": "BackOff", "message": "restarting\n", "count": 4,
            "involvedObject": {"kind": "Pod", "name": "shop-1"}, "lastTimestamp": "2026-06-01T11:59:30Z"}),
        )
        .unwrap();
        insta::assert_snapshot!(described(&app, vec![event], None), @r#"
        Name:            shop
        Namespace:       default
        Age:             12h
        Created:         2026-06-01T00:00:00Z
        Image:           shop:1
        Port:            80
        Args:            --greeting "hello world"
        Requests:        cpu=100m, memory=64Mi
        Health Check:    GET /healthz on port 80
        Environment:     all keys of ConfigMap look, prefix A_
                         A=1
                         DB from Secret db, key url
                         IP from field status.podIP
        Replicas:        2 desired, 2 updated, 2 total, 1 ready
        URL:             http://shop.default
        Ready:           no (CrashLoop)
          why:           shop-1: exit code 1: no such table
          next:          kubectl logs shop-1 -p
        Conditions:
          TYPE    STATUS   REASON      SINCE   MESSAGE
          Ready   False    CrashLoop   2m      1 of 2 pods keeps crashing
        Children:        <none>
        Events:
          LAST       TYPE      REASON    OBJECT       MESSAGE
          30s (x4)   Warning   BackOff   Pod/shop-1   restarting
        "#);
    }

    #[test]
    fn revision_that_serves_is_shown_while_another_one_is_rolled_out() {
        let owner =
            |uid: &str| json!([{"apiVersion": "v1", "kind": "X", "name": "shop", "uid": uid, "controller": true}]);
        let set = |number: &str, image: &str, wanted: i32, ready: i32| {
            serde_json::from_value(json!({"metadata": {"name": format!("shop-{number}"), "ownerReferences": owner("d"),
                    "annotations": {"deployment.kubernetes.io/revision": number}},
                "spec": {"selector": {}, "replicas": wanted, "template": {"spec": {"containers": [{"name": "app", "image": image}]}}},
                "status": {"replicas": wanted, "readyReplicas": ready}}))
            .unwrap()
        };
        let lines = |sets: Vec<ReplicaSet>| {
            let app = app("shop", &json!({"image": "shop:3"}), &json!({}));
            let deployment = json!({"metadata": {"name": "shop", "uid": "d"}});
            let children = Children {
                owned: vec![(&DEPLOYMENT, Ok(vec![serde_json::from_value(deployment).unwrap()]))],
                replica_sets: Ok(sets),
                ..Children::of_pods(Ok(vec![]))
            };
            let subject = Subject {
                workload: &app,
                children: &children,
                events: &Ok(vec![]),
                asked: &PathContext::default(),
                now: noon(),
            };
            let text = text(&subject, &RenderOptions::default());
            let is_shown = |line: &&str| line.starts_with("Serving:") || line.starts_with("Rolling out:");
            text.lines().filter(is_shown).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(vec![
                set("2", "shop:2", 2, 2),
                set("3", "shop:3", 1, 0),
                set("1", "shop:1", 0, 0)
            ]),
            [
                "Serving:         revision 2 with image shop:2, 2 of 2 pods ready",
                "Rolling out:     revision 3 with image shop:3, 0 of 1 pods ready"
            ]
        );
        assert_eq!(lines(vec![set("3", "shop:3", 2, 2), set("2", "shop:2", 0, 0)]), [""; 0]);
    }

    #[test]
    fn description_is_cut_at_the_width_of_the_terminal() {
        let app = app(
            "shop",
            &json!({"image": "shop:1"}),
            &json!({"observedGeneration": 1, "conditions": [
                cond("Ready", "False", "Unschedulable", "no node has room for the pod: 3 nodes have too little memory left, and 1 node is tainted")],
                "cause": {"reason": "Unschedulable", "message": "no node has room for the pod: 3 nodes have too little memory left, and 1 node is tainted", "next": "kubectl describe nodes"}}),
        );
        let event: Event = serde_json::from_value(
            json!({"metadata": {}, "type": "Warning", "reason": "FailedScheduling", "count": 4, "lastTimestamp": "2026-06-01T11:59:30Z",
            "message": "0/4 nodes are available: 3 Insufficient memory, 1 node(s) had untolerated taint",
            "involvedObject": {"kind": "Pod", "name": "shop-5d4f8c7b6d-x2x9k"}}),
        )
        .unwrap();
        let text = described(&app, vec![event], Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text, @r"
        Name:            shop
        Namespace:       default
        Age:             12h
        Created:         2026-06-01T00:00:00Z
        Image:           shop:1
        Port:            <none> (a worker: no Service, no Ingress)
        Replicas:        1 desired, 0 updated, 0 total, 0 ready
        URL:             <none>
        Ready:           no (Unschedulable)
          why:           no node has room for the pod: 3 nodes have too little memory
                         left, and 1 node is tainted
          next:          kubectl describe nodes
        Conditions:
          TYPE    STATUS   REASON          SINCE   MESSAGE
          Ready   False    Unschedulable   2m      no node has room for the pod: 3 nodes
                                                   have too little memory left, and 1
                                                   node is tainted
        Children:        <none>
        Events:
          LAST       TYPE      REASON             OBJECT
          30s (x4)   Warning   FailedScheduling   Pod/shop-5d4f8c7b6d-x2x9k
              0/4 nodes are available: 3 Insufficient memory, 1 node(s) had untolerated
              taint
        ");
    }

    #[test]
    fn description_of_a_pod_set_has_its_own_lines() {
        let mut batch = batch();
        let Workload::PodSet(set) = &mut batch else { panic!() };
        set.spec.replace_pods = ["batch-0", "batch-3"]
            .map(|name| crd::PodReference {
                name: name.to_owned(),
                uid: name.to_owned(),
            })
            .to_vec();
        set.status.as_mut().unwrap().pod_names = ["batch-1", "batch-3"].map(String::from).to_vec();
        insta::assert_snapshot!(described(&batch, vec![], None), @r"
        Name:            batch
        Namespace:       default
        Age:             12h
        Created:         2026-06-01T00:00:00Z
        Image:           ghcr.io/acme/batch:1.99
        Min Ready:       10s
        Max Unavailable: 25%
        Replacing:       batch-3
        Replicas:        8 desired, 2 updated, 8 total, 6 ready, 0 available
        Ready:           no (ImageNotFound)
          why:           image ghcr.io/acme/batch:1.99 was not found
          next:          kubectl edit podset batch -n default
        Conditions:
          TYPE      STATUS   REASON          SINCE   MESSAGE
          Ready     False    ImageNotFound   2m      image ghcr.io/acme/batch:1.99 was not found
          Stalled   True     ImageNotFound   2m      <none>
        Children:        <none>
        Events:          <none>
        ");
    }
}
