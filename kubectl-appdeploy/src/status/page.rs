//! The page of one: how it is, why, what to do next, and what belongs to it.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::table::{self, View};
use crate::children::Children;
use crate::tree;
use crate::ui::Look;
use crate::workload::Workload;

/// Returns the page.
pub fn text(
    workload: &Workload,
    wide: bool,
    children: &Children,
    absence: Option<(String, String)>,
    now: Timestamp,
    look: &Look,
) -> String {
    let view = View {
        namespaces: false,
        wide,
        headers: true,
    };
    let table = table::table(&[workload], view, now);
    let table = if wide { table } else { table.fit("URL", look.width) };
    let mut text = table.text(look.color);
    let explanation = absence
        .map(|(why, next)| (why, Some(next)))
        .or_else(|| workload.explanation());
    if let Some((why, next)) = explanation {
        let _ = write!(text, "\n\n{}", look.sentence("", "why: ", &why));
        if let Some(next) = next {
            let _ = write!(text, "\n{} {}", look.label("next:"), look.command(&next));
        }
    }
    // Ready and yet not reachable from outside: told, although nothing is broken.
    if let Some(why) = workload.hidden() {
        let _ = write!(text, "\n\n{}", look.sentence("", "note:", why));
    }
    let tree = tree::table(workload, children, now);
    if !tree.is_empty() {
        let tree = if wide { tree } else { tree.fit("NODE", look.width) };
        let _ = write!(text, "\n\n{}", tree.text(look.color));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::list::tests::{app, broken, cond, healthy, noon};
    use serde_json::{Value, json};

    fn meta(name: &str, owner: &str) -> Value {
        json!({"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-06-01T11:58:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": owner, "uid": owner, "controller": true}],
            "annotations": {"deployment.kubernetes.io/revision": "2"}})
    }

    fn pod(name: &str, waiting: Option<&str>) -> Value {
        let state = waiting.map_or_else(
            || json!({"running": {}}),
            |reason| json!({"waiting": {"reason": reason}}),
        );
        json!({"metadata": meta(name, "blog-5d4"), "spec": {"containers": [{"name": "app"}]},
            "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": if waiting.is_some() { "False" } else { "True" }}],
                "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": waiting.is_none(), "restartCount": 0, "state": state}]}})
    }

    fn children(pods: Vec<Value>) -> Children {
        Children {
            ingresses: Ok(vec![serde_json::from_value(json!({"metadata": meta("blog", "blog"), "spec": {"ingressClassName": "traefik"}})).unwrap()]),
            services: Ok(vec![serde_json::from_value(json!({"metadata": meta("blog", "blog"), "spec": {"clusterIP": "10.96.0.12", "ports": [{"port": 80}]}})).unwrap()]),
            deployments: Ok(vec![serde_json::from_value(json!({"metadata": meta("blog-uid", "blog"), "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {"updatedReplicas": 2}})).unwrap()]),
            replica_sets: Ok(vec![
                serde_json::from_value(json!({"metadata": meta("blog-5d4", "blog-uid"), "spec": {"replicas": 2, "selector": {}}, "status": {"replicas": 2}})).unwrap(),
                serde_json::from_value(json!({"metadata": meta("blog-old", "blog-uid"), "spec": {"replicas": 0, "selector": {}}, "status": {"replicas": 0}})).unwrap(),
            ]),
            pods: Ok(pods.into_iter().map(|pod| serde_json::from_value(pod).unwrap()).collect()),
        }
    }

    #[test]
    fn the_page_of_a_broken_app_tells_why_and_shows_where() {
        let children = children(vec![
            pod("blog-5d4-a", Some("ImagePullBackOff")),
            pod("blog-5d4-b", Some("ErrImagePull")),
        ]);
        insta::assert_snapshot!(text(&broken(), false, &children, None, noon(), &Look { width: Some(80), ..Look::default() }), @r"
        NAME   READY   REASON          URL                   AGE
        blog   0/2     ImageNotFound   http://blog.default   12h

        why:  image nginx:1.99 does not exist
        next: kubectl edit appdeploy blog

        NAME                    READY   STATUS                           AGE
        Ingress/blog            -       no address yet (class traefik)   2m
        Service/blog            0/2     10.96.0.12:80                    2m
        Deployment/blog-uid     0/2     not ready                        2m
        └─ReplicaSet/blog-5d4   0/2     revision 2                       2m
          ├─Pod/blog-5d4-a      0/1     ImagePullBackOff                 2m
          └─Pod/blog-5d4-b      0/1     ErrImagePull                     2m
        ");
    }

    #[test]
    fn a_list_that_is_not_allowed_does_not_spoil_the_page() {
        let mut children = children(vec![]);
        let no = || "n/a (forbidden)".to_owned();
        (children.ingresses, children.replica_sets, children.pods) = (Err(no()), Err(no()), Err(no()));
        insta::assert_snapshot!(text(&broken(), false, &children, None, noon(), &Look { width: Some(80), ..Look::default() }), @r"
        NAME   READY   REASON          URL                   AGE
        blog   0/2     ImageNotFound   http://blog.default   12h

        why:  image nginx:1.99 does not exist
        next: kubectl edit appdeploy blog

        NAME                  READY   STATUS            AGE
        Ingress               -       n/a (forbidden)   -
        Service/blog          -       10.96.0.12:80     2m
        Deployment/blog-uid   0/2     not ready         2m
        ├─ReplicaSet          -       n/a (forbidden)   -
        └─Pod                 -       n/a (forbidden)   -
        ");
    }

    #[test]
    fn many_pods_are_counted_and_those_in_trouble_shown() {
        let mut pods: Vec<Value> = (0..30).map(|n| pod(&format!("blog-5d4-{n:02}"), None)).collect();
        pods.push(pod("blog-5d4-zz", Some("CrashLoopBackOff")));
        let text = text(&broken(), false, &children(pods), None, noon(), &Look::default());
        assert!(text.contains("blog-5d4-zz"), "{text}");
        assert!(text.contains("…and 21 more"), "{text}");
    }

    #[test]
    fn an_app_that_nobody_outside_reaches_says_so_although_it_is_ready() {
        let app = app(
            "shop",
            &json!({"image": "nginx", "port": 80, "replicas": 1}),
            &json!({"observedGeneration": 1, "readyReplicas": 1,
            "conditions": [cond("Ready", "True", "Ready", ""), cond("Exposed", "False", "NoIngressClass", "no IngressClass applies: the app is reached inside the cluster only")]}),
        );
        let text = text(&app, false, &children(vec![]), None, noon(), &Look::default());
        assert!(text.contains("note: no IngressClass applies"), "{text}");
        assert!(!super::text(&healthy(), false, &children(vec![]), None, noon(), &Look::default()).contains("why:"));
    }
}
