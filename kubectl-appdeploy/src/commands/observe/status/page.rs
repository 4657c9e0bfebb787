//! The page of one app or pod set: its state, why, the next command, and its children.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::table::{self, View};
use crate::diagnosis::queue::used;
use crate::diagnosis::request_path::{self, PathContext};
use crate::diagnosis::tree;
use crate::output::formats::some;
use crate::resource::children::Children;
use crate::resource::pod;
use crate::resource::workload::Workload;
use crate::terminal::ui::RenderOptions;

/// The content of the page.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// Whose page it is.
    pub workload: &'a Workload,
    /// Its children.
    pub children: &'a Children,
    /// What else is known.
    pub asked: &'a PathContext,
    /// More columns, nothing shortened.
    pub wide: bool,
    /// The time.
    pub now: Timestamp,
}

/// Returns the page.
pub fn text(page: &Page<'_>, render: &RenderOptions) -> String {
    let Page {
        workload,
        children,
        asked,
        wide,
        now,
    } = *page;
    let view = View {
        namespaces: false,
        wide,
        headers: true,
    };
    let table = table::table(&[&workload.clone().into()], view, now);
    let table = if wide {
        table
    } else {
        table.fit_or_omit("URL", render.width)
    };
    let mut text = table.text(render.color);
    let story = request_path::diagnose(workload, children, asked, now);
    let told = story.why.as_ref().map_or("", |(why, _)| why.as_str()).to_owned();
    let notes = story.notes.into_iter().map(|note| ("note:", note));
    for (label, (sentence, next)) in story.why.into_iter().map(|why| ("why: ", why)).chain(notes) {
        let _ = write!(text, "\n\n{}", render.sentence("", label, &sentence));
        if let Some(next) = next {
            let _ = write!(text, "\n{}", render.next("", &next));
        }
    }
    let view = tree::View {
        broken: story.broken,
        wide,
        width: render.width,
        now,
    };
    let tree = tree::table(workload, children, view);
    if !tree.is_empty() {
        let _ = write!(text, "\n\n{}", tree.text(render.color));
    }
    if !asked.queues.is_empty() {
        let queues = used::table(&asked.queues);
        let queues = if wide { queues } else { queues.fit("URL", render.width) };
        let _ = write!(text, "\n\n{}", queues.text(render.color));
    }
    let mut space = "\n\n";
    for (why, names) in troubles(workload, children) {
        if !told.contains(&why) {
            let _ = write!(
                text,
                "{space}{}",
                render.sentence("", &format!("{}:", some(&names)), &why)
            );
            space = "\n";
        }
    }
    text
}

/// Returns the problems of pods. An app has one template, whose problem is in its status; pods of a
/// pod set can differ.
fn troubles(workload: &Workload, children: &Children) -> BTreeMap<String, Vec<String>> {
    let mut troubles: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if let Workload::PodSet(_) = workload {
        let pods = children.pods.iter().flatten();
        let living = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        for trouble in living.filter_map(|pod| pod::pod_problem(pod, Some(workload.pod()))) {
            troubles.entry(trouble.message).or_default().push(trouble.pod);
        }
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::observe::status::list::tests::{app, batch, broken, cond, healthy, noon, workers};
    use crate::resource::certificate::Tls;
    use crate::resource::certificate::tests::{pem, secret};
    use model::ChildKind;
    use model::children::{DEPLOYMENT, INGRESS, SERVICE};
    use serde_json::{Value, json};

    fn narrow() -> RenderOptions {
        RenderOptions {
            width: Some(80),
            ..RenderOptions::default()
        }
    }

    fn text(workload: &Workload, children: &Children, render: &RenderOptions) -> String {
        asked(workload, children, &PathContext::default(), render)
    }

    fn asked(workload: &Workload, children: &Children, asked: &PathContext, render: &RenderOptions) -> String {
        let page = Page {
            workload,
            children,
            asked,
            wide: render.width.is_none(),
            now: noon(),
        };
        super::text(&page, render)
    }

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
        json!({"metadata": meta(name, "blog-5d4f8c7b6d"), "spec": {"containers": [{"name": "app"}], "nodeName": "node-1"},
            "status": {"phase": if waiting.is_some() { "Pending" } else { "Running" }, "podIP": "10.244.0.7",
                "conditions": [{"type": "Ready", "status": if waiting.is_some() { "False" } else { "True" }}],
                "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": waiting.is_none(), "restartCount": 0, "state": state}]}})
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// Returns the children of an app with these pods and an Ingress with these addresses.
    fn family(pods: Vec<Value>, addresses: &Value) -> Children {
        let wanted = pods.len();
        let ready = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        let endpoints: Vec<Value> = pods
            .iter()
            .map(|pod| {
                json!({"addresses": ["10.244.0.7"], "conditions": {"ready": pod["status"]["phase"] == "Running"},
                    "targetRef": {"kind": "Pod", "uid": pod["metadata"]["uid"]}})
            })
            .collect();
        let ports = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
        let template =
            json!({"spec": {"containers": [{"name": "app", "ports": [{"name": "http", "containerPort": 80}]}]}});
        let one = |kind: &'static ChildKind, object| (kind, Ok(vec![read(object)]));
        Children {
            autoscalers: Vec::new(),
            owned: vec![
                one(
                    &DEPLOYMENT,
                    json!({"metadata": meta("blog-uid", "blog"),
                        "spec": {"replicas": wanted, "selector": {}, "template": template},
                        "status": {"updatedReplicas": wanted, "readyReplicas": ready}}),
                ),
                one(
                    &SERVICE,
                    json!({"metadata": meta("blog", "blog"),
                        "spec": {"clusterIP": "10.96.0.12", "ports": ports, "selector": {"appdeploy.dev/app": "blog"}}}),
                ),
                one(
                    &INGRESS,
                    json!({"metadata": meta("blog", "blog"), "spec": {"ingressClassName": "traefik"},
                        "status": {"loadBalancer": {"ingress": addresses}}}),
                ),
            ],
            slices: Ok(vec![read(
                json!({"metadata": meta("blog-x", "blog"), "addressType": "IPv4", "endpoints": endpoints}),
            )]),
            tls: None,
            replica_sets: Ok(vec![
                read(
                    json!({"metadata": meta("blog-5d4f8c7b6d", "blog-uid"), "spec": {"replicas": wanted, "selector": {}},
                    "status": {"replicas": wanted, "readyReplicas": ready}}),
                ),
                read(
                    json!({"metadata": meta("blog-old", "blog-uid"), "spec": {"replicas": 0, "selector": {}}, "status": {"replicas": 0}}),
                ),
            ]),
            pods: Ok(pods.into_iter().map(read).collect()),
        }
    }

    fn children(pods: Vec<Value>) -> Children {
        family(pods, &json!([]))
    }

    /// Returns an app that works as far as its operator knows.
    fn blog(replicas: usize, tls: Option<&str>) -> Workload {
        app(
            "blog",
            &json!({"image": "nginx:1.27", "port": 80, "replicas": replicas, "host": "blog.example.com",
                "tls": tls.map(|name| json!({"secretName": name}))}),
            &json!({
                "observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas,
                "url": format!("http{}://blog.example.com/", if tls.is_some() { "s" } else { "" }),
                "conditions": [cond("Ready", "True", if replicas == 0 { "ScaledToZero" } else { "Available" }, ""),
                    cond("Exposed", "True", "AddressPublished", "")],
            }),
        )
    }

    fn served(pods: Vec<Value>) -> Children {
        family(pods, &json!([{"ip": "10.0.0.7"}]))
    }

    fn with_tls(tls: Tls) -> Children {
        Children {
            tls: Some(("blog-tls".to_owned(), tls)),
            ..served(vec![pod("blog-5d4f8c7b6d-x2x9k", None)])
        }
    }

    #[test]
    fn autoscaler_is_shown_with_its_range() {
        let scaler = json!({"metadata": {"name": "busy", "creationTimestamp": "2026-06-01T11:58:00Z"}, "spec": {"minReplicas": 2,
            "maxReplicas": 5, "scaleTargetRef": {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "blog"}}});
        let family = Children {
            autoscalers: vec![read(scaler)],
            ..children(Vec::new())
        };
        let text = text(&healthy(), &family, &narrow());
        let row = text
            .lines()
            .find(|line| line.starts_with("HorizontalPodAutoscaler/busy"));
        let words: Vec<&str> = row.unwrap().split_whitespace().collect();
        assert_eq!(words[1..5], ["-", "2", "to", "5"], "{text}");
    }

    #[test]
    fn page_of_a_working_app_shows_the_request_path() {
        let tls = Tls::read(Some(&secret(&pem(&["blog.example.com"], (12, 31)))));
        insta::assert_snapshot!(text(&blog(1, Some("blog-tls")), &with_tls(tls.clone()), &narrow()), @r"
        NAME   READY   PODS   REASON      URL                         AGE
        blog   True    1/1    Available   https://blog.example.com/   12h

        NAME                            READY   STATUS                        AGE
        Ingress/blog                    -       class traefik at 10.0.0.7     2m
        └─Secret/blog-tls               -       TLS until 2026-12-31 (212d)   -
        Service/blog                    1/1     10.96.0.12:80                 2m
        Deployment/blog-uid             1/1     up to date                    2m
        └─ReplicaSet/blog-5d4f8c7b6d    1/1     revision 2                    2m
          └─Pod/blog-5d4f8c7b6d-x2x9k   1/1     Running                       2m
        ");
        insta::assert_snapshot!(text(&blog(1, Some("blog-tls")), &with_tls(tls), &RenderOptions::default()), @r"
        NAME   READY   PODS   REASON      URL                         ADDRESS   IMAGE        AGE
        blog   True    1/1    Available   https://blog.example.com/   <none>    nginx:1.27   12h

        NAME                            READY   STATUS                        NODE     IP           AGE
        Ingress/blog                    -       class traefik at 10.0.0.7     -        -            2m
        └─Secret/blog-tls               -       TLS until 2026-12-31 (212d)   -        -            -
        Service/blog                    1/1     10.96.0.12:80                 -        -            2m
        Deployment/blog-uid             1/1     up to date                    -        -            2m
        └─ReplicaSet/blog-5d4f8c7b6d    1/1     revision 2                    -        -            2m
          └─Pod/blog-5d4f8c7b6d-x2x9k   1/1     Running                       node-1   10.244.0.7   2m
        ");
    }

    #[test]
    fn certificate_that_browsers_reject_is_marked() {
        insta::assert_snapshot!(text(&blog(1, Some("blog-tls")), &with_tls(Tls::Missing), &narrow()), @r"
        NAME   READY   PODS   REASON      URL                         AGE
        blog   True    1/1    Available   https://blog.example.com/   12h

        why:  the TLS Secret blog-tls does not exist, so browsers get another
              certificate
        next: kubectl create secret tls blog-tls -n default --cert=tls.crt --key=tls.key

        NAME                              READY   STATUS                      AGE
          Ingress/blog                    -       class traefik at 10.0.0.7   2m
        ✖ └─Secret/blog-tls               -       missing                     -
          Service/blog                    1/1     10.96.0.12:80               2m
          Deployment/blog-uid             1/1     up to date                  2m
          └─ReplicaSet/blog-5d4f8c7b6d    1/1     revision 2                  2m
            └─Pod/blog-5d4f8c7b6d-x2x9k   1/1     Running                     2m
        ");
        for (tls, said) in [
            (Tls::Empty, "the TLS Secret blog-tls has no tls.crt"),
            (
                Tls::Unreadable,
                "tls.crt of the Secret blog-tls is not a PEM certificate",
            ),
            (
                Tls::read(Some(&secret(&pem(&["blog.example.com"], (5, 30))))),
                "the certificate in the Secret blog-tls expired 2d12h ago",
            ),
            (
                Tls::read(Some(&secret(&pem(&["example.com", "*.example.org"], (12, 31))))),
                "the certificate in the Secret blog-tls is for example.com, *.example.org, not for blog.example.com",
            ),
        ] {
            let text = text(&blog(1, Some("blog-tls")), &with_tls(tls), &RenderOptions::default());
            assert!(text.contains(&format!("why:  {said}\nnext: kubectl ")), "{text}");
            assert!(text.contains("\n✖ └─Secret/blog-tls "), "{text}");
        }
    }

    #[test]
    fn certificate_that_expires_soon_is_a_warning() {
        let tls = Tls::read(Some(&secret(&pem(&["*.example.com"], (6, 9)))));
        let text = text(&blog(1, Some("blog-tls")), &with_tls(tls), &RenderOptions::default());
        assert!(
            text.contains("note: the certificate in the Secret blog-tls expires in 7d12h\nnext: "),
            "{text}"
        );
        assert!(!text.contains('✖') && !text.contains("why:"), "{text}");
    }

    #[test]
    fn failure_is_printed_before_what_is_about_to_fail() {
        let tls = Tls::read(Some(&secret(&pem(&["blog.example.com"], (6, 9)))));
        let mut children = with_tls(tls);
        children.slices = Ok(vec![]);
        let text = text(&blog(1, Some("blog-tls")), &children, &RenderOptions::default());
        assert!(
            text.contains("why:  1 pod is ready, but the Service has no endpoints: ")
                && text.contains("\n✖ Service/blog "),
            "{text}"
        );
    }

    #[test]
    fn failure_is_printed_also_without_an_operator() {
        let absent = PathContext {
            absence: Some((
                "the operator does not run".to_owned(),
                "kubectl appdeploy install".into(),
            )),
            ..PathContext::default()
        };
        let text = asked(
            &blog(1, Some("blog-tls")),
            &with_tls(Tls::Missing),
            &absent,
            &RenderOptions::default(),
        );
        assert!(
            text.contains("why:  the operator does not run\nnext: kubectl appdeploy install\n")
                && text.contains("note: the TLS Secret blog-tls does not exist")
                && text.contains("\n✖ └─Secret/blog-tls "),
            "{text}"
        );
    }

    #[test]
    fn secret_that_may_not_be_read_is_not_a_fault() {
        let text = text(
            &blog(1, Some("blog-tls")),
            &with_tls(Tls::Unknown("n/a (forbidden)".to_owned())),
            &narrow(),
        );
        assert!(
            text.contains("└─Secret/blog-tls               -       TLS n/a (forbidden) "),
            "{text}"
        );
        assert!(!text.contains('✖') && !text.contains("why:"), "{text}");
    }

    #[test]
    fn service_without_endpoints_is_marked() {
        let mut children = served(vec![
            pod("blog-5d4f8c7b6d-x2x9k", None),
            pod("blog-5d4f8c7b6d-zz4ws", None),
        ]);
        children.slices = Ok(vec![]);
        insta::assert_snapshot!(text(&blog(2, None), &children, &narrow()), @r"
        NAME   READY   PODS   REASON      URL                        AGE
        blog   True    2/2    Available   http://blog.example.com/   12h

        why:  2 pods are ready, but the Service has no endpoints: it selects
              appdeploy.dev/app=blog, which they do not have
        next: kubectl get service blog -n default -o yaml

        NAME                              READY   STATUS                      AGE
          Ingress/blog                    -       class traefik at 10.0.0.7   2m
        ✖ Service/blog                    0/0     10.96.0.12:80               2m
          Deployment/blog-uid             2/2     up to date                  2m
          └─ReplicaSet/blog-5d4f8c7b6d    2/2     revision 2                  2m
            ├─Pod/blog-5d4f8c7b6d-x2x9k   1/1     Running                     2m
            └─Pod/blog-5d4f8c7b6d-zz4ws   1/1     Running                     2m
        ");
        for pod in children.pods.as_mut().unwrap() {
            pod.metadata.labels = Some([("appdeploy.dev/app".to_owned(), "blog".to_owned())].into());
        }
        let text = text(&blog(2, None), &children, &RenderOptions::default());
        assert!(text.contains("kube-controller-manager has not added them yet\nnext: kubectl get endpointslices -n default -l kubernetes.io/service-name=blog\n"), "{text}");
    }

    #[test]
    fn service_with_an_unknown_target_port_is_marked() {
        let mut children = served(vec![pod("blog-5d4f8c7b6d-x2x9k", None)]);
        let (_, services) = &mut children.owned[1];
        services.as_mut().unwrap()[0].data["spec"]["ports"][0]["targetPort"] = json!("web");
        let text = text(&blog(1, None), &children, &RenderOptions::default());
        assert!(
            text.contains("why:  the Service sends requests to the port web, which no container of the pods has\n"),
            "{text}"
        );
        assert!(text.contains("\n✖ Service/blog "), "{text}");
    }

    #[test]
    fn app_scaled_to_zero_has_no_problem() {
        insta::assert_snapshot!(text(&blog(0, None), &served(vec![]), &narrow()), @r"
        NAME   READY   PODS   REASON         URL                        AGE
        blog   True    0/0    ScaledToZero   http://blog.example.com/   12h

        NAME                  READY   STATUS                      NODE   AGE
        Ingress/blog          -       class traefik at 10.0.0.7   -      2m
        Service/blog          0/0     10.96.0.12:80               -      2m
        Deployment/blog-uid   0/0     up to date                  -      2m
        ");
    }

    #[test]
    fn child_of_another_kind_has_a_row() {
        static CONFIG: ChildKind = ChildKind::new(["", "v1", "ConfigMap", "configmaps"], |_| Vec::new());
        let mut children = served(vec![]);
        let config = read(json!({"metadata": meta("blog-files", "blog")}));
        children.owned.insert(0, (&CONFIG, Ok(vec![config])));
        let page = text(&blog(0, None), &children, &narrow());
        assert!(page.contains("\nConfigMap/blog-files   -       -  "), "{page}");
    }

    #[test]
    fn missing_child_has_a_row() {
        let mut children = served(vec![]);
        children.owned[2].1 = Ok(vec![]);
        let taken = |kind| {
            let failure = model::Failure::NameConflict {
                kind,
                name: "blog".to_owned(),
                owner: None,
            };
            let status = json!({"observedGeneration": 1, "conditions": [cond("Ready", "False", "NameConflict", "")],
                "cause": {"reason": "NameConflict", "message": failure.to_string(), "next": "kubectl appdeploy adopt blog"}});
            text(
                &app("blog", &json!({"image": "nginx", "port": 80}), &status),
                &children,
                &narrow(),
            )
        };
        let page = taken("Ingress");
        assert!(page.contains("\n✖ Ingress               -       foreign "), "{page}");
        let page = taken("Service");
        assert!(page.contains(" Ingress               -       missing "), "{page}");
    }

    #[test]
    fn queues_of_an_app_are_shown_with_their_depth() {
        let context = PathContext {
            queues: used::tests::sample(),
            ..PathContext::default()
        };
        let page = asked(&healthy(), &children(vec![]), &context, &RenderOptions::default());
        let url = "http://sqs.example:9324/000000000000/default_orders";
        assert!(
            page.contains(&format!("\norders   True      12          Available         {url}"))
                && page.contains("\nmails    Unknown   <unknown>   missing "),
            "{page}"
        );
    }

    #[test]
    fn last_log_line_of_a_crash_is_printed_after_its_cause() {
        let crashing = app(
            "blog",
            &json!({"image": "nginx"}),
            &json!({"observedGeneration": 1, "conditions": [cond("Ready", "False", "CrashLoop", "")],
                "cause": {"reason": "CrashLoop", "message": "the application ends by itself, with exit code 1", "next": "kubectl appdeploy logs blog --previous"}}),
        );
        let asked_for = PathContext {
            last_words: Some("no such table: users".to_owned()),
            ..PathContext::default()
        };
        let text = asked(&crashing, &children(vec![]), &asked_for, &RenderOptions::default());
        assert!(
            text.contains(
                "why:  the application ends by itself, with exit code 1; its last words: \"no such table: users\"\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn page_of_a_broken_app_shows_why_and_where() {
        let children = children(vec![
            pod("blog-5d4f8c7b6d-x2x9k", Some("ImagePullBackOff")),
            pod("blog-5d4f8c7b6d-zz4ws", Some("ErrImagePull")),
        ]);
        insta::assert_snapshot!(text(&broken(), &children, &narrow()), @r"
        NAME   READY   PODS   REASON          URL                   AGE
        blog   False   0/2    ImageNotFound   http://blog.default   12h

        why:  image nginx:1.99 does not exist
        next: kubectl edit appdeploy blog

        NAME                              READY   STATUS                          AGE
          Ingress/blog                    -       class traefik, no address yet   2m
          Service/blog                    0/2     10.96.0.12:80                   2m
          Deployment/blog-uid             0/2     not ready                       2m
          └─ReplicaSet/blog-5d4f8c7b6d    0/2     revision 2                      2m
        ✖   ├─Pod/blog-5d4f8c7b6d-x2x9k   0/1     ImagePullBackOff                2m
        ✖   └─Pod/blog-5d4f8c7b6d-zz4ws   0/1     ErrImagePull                    2m
        ");
    }

    #[test]
    fn forbidden_list_does_not_affect_the_rest_of_the_page() {
        let mut children = children(vec![]);
        let no = || "n/a (forbidden)".to_owned();
        (children.owned[2].1, children.replica_sets, children.pods) = (Err(no()), Err(no()), Err(no()));
        children.slices = Err(no());
        insta::assert_snapshot!(text(&broken(), &children, &narrow()), @r"
        NAME   READY   PODS   REASON          URL                   AGE
        blog   False   0/2    ImageNotFound   http://blog.default   12h

        why:  image nginx:1.99 does not exist
        next: kubectl edit appdeploy blog

        NAME                  READY   STATUS            NODE   AGE
        Ingress               -       n/a (forbidden)   -      -
        Service/blog          n/a     10.96.0.12:80     -      2m
        Deployment/blog-uid   0/0     up to date        -      2m
        ├─ReplicaSet          -       n/a (forbidden)   -      -
        └─Pod                 -       n/a (forbidden)   -      -
        ");
    }

    #[test]
    fn many_pods_are_counted_and_those_in_trouble_shown() {
        let mut pods: Vec<Value> = (0..30).map(|n| pod(&format!("blog-5d4f8c7b6d-{n:02}"), None)).collect();
        pods.push(pod("blog-5d4f8c7b6d-zz", Some("CrashLoopBackOff")));
        let text = text(&broken(), &children(pods), &narrow());
        assert!(text.contains("blog-5d4f8c7b6d-zz"), "{text}");
        assert!(text.contains("…and 21 more"), "{text}");
    }

    #[test]
    fn ready_app_that_is_not_reachable_from_outside_has_a_note() {
        let app = app(
            "shop",
            &json!({"image": "nginx", "port": 80, "replicas": 1}),
            &json!({"observedGeneration": 1, "readyReplicas": 1,
            "conditions": [cond("Ready", "True", "Ready", ""), cond("Exposed", "False", "NoIngressClass", "no IngressClass applies: the app is reached inside the cluster only")]}),
        );
        let said = text(&app, &children(vec![]), &narrow());
        assert!(said.contains("note: no IngressClass applies"), "{said}");
        assert!(!text(&healthy(), &children(vec![]), &narrow()).contains("why:"));
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
    fn page_of_a_pod_set_shows_replacements() {
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
        insta::assert_snapshot!(text(&workers(), &children, &narrow()), @r"
        NAME      READY   PODS   REASON        AGE
        workers   False   3/3    Progressing   12h

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
    fn pod_problem_is_printed_once_unless_it_is_the_reason() {
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
        insta::assert_snapshot!(text(&batch(), &children, &narrow()), @r"
        NAME    READY   PODS   REASON          AGE
        batch   False   6/8    ImageNotFound   12h

        why:  image ghcr.io/acme/batch:1.99 was not found
        next: kubectl edit podset batch -n default

        NAME              READY   STATUS                       NODE     AGE
          PodSet/batch    6/8     updating 2/8                 -        12h
        ✖ ├─Pod/batch-0   0/1     ErrImagePull                 node-1   2m
        ✖ ├─Pod/batch-1   0/1     CreateContainerConfigError   node-1   2m
        ✖ ├─Pod/batch-2   0/1     CreateContainerConfigError   node-1   2m
          └─Pod/batch-3   1/1     Running                      node-1   2m

        batch-1, batch-2: Secret db does not exist
        ");
    }

    #[test]
    fn cause_that_names_the_placement_is_not_repeated() {
        let mut set = batch();
        let Workload::PodSet(crd::PodSet { spec, status, .. }) = &mut set else {
            panic!("it is a pod set")
        };
        let placement = json!({"nodeSelector": {"disktype": "ssd"}});
        spec.template.as_mut().unwrap().placement = Some(serde_json::from_value(placement).unwrap());
        let why = "no node can take the pods: the one node lacks the labels of placement.nodeSelector (disktype=ssd)";
        let cause = json!({"reason": "Unschedulable", "message": why});
        status.as_mut().unwrap().cause = Some(serde_json::from_value(cause).unwrap());
        let mut pod = pod_of("batch", "batch-0", None, &json!({}));
        let kube = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": kube});
        pod["status"] = json!({"phase": "Pending", "conditions": [condition]});
        let page = text(&set, &of_pods(vec![pod]), &RenderOptions::default());
        assert_eq!(page.matches("no node can take the pods").count(), 1, "{page}");
    }

    #[test]
    fn pod_set_is_shown_without_the_right_to_list_pods() {
        let children = Children::of_pods(Err("n/a (forbidden)".to_owned()));
        insta::assert_snapshot!(text(&workers(), &children, &narrow()), @r"
        NAME      READY   PODS   REASON        AGE
        workers   False   3/3    Progressing   12h

        why:  replacing workers-0: workers-3 is starting

        NAME             READY   STATUS            NODE   AGE
        PodSet/workers   3/3     up to date        -      12h
        └─Pod            -       n/a (forbidden)   -      -
        ");
        let none = Children::of_pods(Ok(vec![]));
        assert!(!text(&workers(), &none, &narrow()).contains("PodSet/"));
    }
}
