//! The page of one: how it is, why, what to do next, and what belongs to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::table::{self, View};
use crate::children::Children;
use crate::output::some;
use crate::pod;
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
    let told = explanation.as_ref().map_or("", |(why, _)| why.as_str()).to_owned();
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
    let mut space = "\n\n";
    for (why, names) in troubles(workload, children) {
        if !told.contains(&why) {
            let _ = write!(
                text,
                "{space}{}",
                look.sentence("", &format!("{}:", some(&names)), &why)
            );
            space = "\n";
        }
    }
    text
}

/// Returns what is wrong with which pods. One app runs one template, whose trouble its status has told; pods of a
/// pod set can differ.
fn troubles(workload: &Workload, children: &Children) -> BTreeMap<String, Vec<String>> {
    let mut troubles: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if let Workload::PodSet(_) = workload {
        let pods = children.pods.iter().flatten();
        let living = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        for trouble in living.filter_map(pod::trouble) {
            troubles.entry(trouble.message).or_default().push(trouble.pod);
        }
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::list::tests::{app, batch, broken, cond, healthy, noon, workers};
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

    fn pod_of(set: &str, name: &str, waiting: Option<(&str, &str)>, more: &Value) -> Value {
        let mut one = pod(name, waiting.map(|(reason, _)| reason));
        one["metadata"] = meta(name, set);
        one["metadata"]["annotations"] = more.clone();
        one["spec"]["nodeName"] = "node-1".into();
        one["spec"]["containers"][0]["image"] = "ghcr.io/acme/batch:1.99".into();
        if let Some((_, message)) = waiting {
            one["status"]["containerStatuses"][0]["state"]["waiting"]["message"] = message.into();
        } else {
            one["status"]["phase"] = "Running".into();
        }
        one
    }

    fn of_pods(pods: Vec<Value>) -> Children {
        Children::of_pods(Ok(pods
            .into_iter()
            .map(|pod| serde_json::from_value(pod).unwrap())
            .collect()))
    }

    #[test]
    fn the_page_of_a_pod_set_shows_which_pod_takes_whose_place() {
        let none = json!({});
        let mut restarted = pod_of("workers", "workers-2", None, &none);
        restarted["status"]["containerStatuses"][0]["restartCount"] = 2.into();
        restarted["spec"]["nodeName"] = "ip-10-0-1-23.eu-central-1.compute.internal".into();
        let children = of_pods(vec![
            pod_of("workers", "workers-0", None, &none),
            pod_of("workers", "workers-1", None, &none),
            restarted,
            pod_of(
                "workers",
                "workers-3",
                Some(("ContainerCreating", "")),
                &json!({"appdeploy.dev/replaces": "workers-0"}),
            ),
        ]);
        insta::assert_snapshot!(text(&workers(), false, &children, None, noon(), &Look { width: Some(80), ..Look::default() }), @r"
        NAME      READY   UPDATED   REASON        AGE
        workers   3/3     3         Progressing   12h

        why:  replacing workers-0: workers-3 is starting

        NAME                READY   STATUS                    NODE                   AGE
        PodSet/workers      3/3     up to date                -                      12h
        ├─Pod/workers-0     1/1     Running, being replaced   node-1                 2m
        │ └─Pod/workers-3   0/1     ContainerCreating         node-1                 2m
        ├─Pod/workers-1     1/1     Running                   node-1                 2m
        └─Pod/workers-2     1/1     Running (2 restarts)      ip-10-0-1-23.eu-cen…   2m
        ");
    }

    #[test]
    fn what_is_wrong_with_pods_is_told_once_unless_it_is_the_reason() {
        let none = json!({});
        let missing = "failed to resolve reference: not found";
        let children = of_pods(vec![
            pod_of("batch", "batch-0", Some(("ErrImagePull", missing)), &none),
            pod_of(
                "batch",
                "batch-1",
                Some(("CreateContainerConfigError", "secret \"db\" not found")),
                &none,
            ),
            pod_of(
                "batch",
                "batch-2",
                Some(("CreateContainerConfigError", "secret \"db\" not found")),
                &none,
            ),
            pod_of("batch", "batch-3", None, &none),
        ]);
        insta::assert_snapshot!(text(&batch(), false, &children, None, noon(), &Look { width: Some(80), ..Look::default() }), @r"
        NAME    READY   UPDATED   REASON          AGE
        batch   6/8     2         ImageNotFound   12h

        why:  image ghcr.io/acme/batch:1.99 was not found
        next: kubectl edit podset batch -n default

        NAME            READY   STATUS                       NODE     AGE
        PodSet/batch    6/8     updating 2/8                 -        12h
        ├─Pod/batch-0   0/1     ErrImagePull                 node-1   2m
        ├─Pod/batch-1   0/1     CreateContainerConfigError   node-1   2m
        ├─Pod/batch-2   0/1     CreateContainerConfigError   node-1   2m
        └─Pod/batch-3   1/1     Running                      node-1   2m

        batch-1, batch-2: Secret db does not exist
        ");
    }

    #[test]
    fn a_pod_set_whose_pods_may_not_be_listed_still_has_a_page() {
        let children = Children::of_pods(Err("n/a (forbidden)".to_owned()));
        insta::assert_snapshot!(text(&workers(), false, &children, None, noon(), &Look { width: Some(80), ..Look::default() }), @r"
        NAME      READY   UPDATED   REASON        AGE
        workers   3/3     3         Progressing   12h

        why:  replacing workers-0: workers-3 is starting

        NAME             READY   STATUS            NODE   AGE
        PodSet/workers   3/3     up to date        -      12h
        └─Pod            -       n/a (forbidden)   -      -
        ");
        let none = Children::of_pods(Ok(vec![]));
        assert!(!text(&workers(), false, &none, None, noon(), &Look::default()).contains("PodSet/"));
    }
}
