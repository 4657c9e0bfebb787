//! The table of a kind: one row each, and below it a line for each that is not ready.

use jiff::Timestamp;
use model::NextCommand;

use super::notes::Notes;
use super::table::{View, table};
use crate::resource::custom_resource::CustomResource;
use crate::terminal::ui::RenderOptions;

/// Returns the table with its explanations.
pub fn text(
    all: &[CustomResource],
    view: View,
    absence: Option<(String, NextCommand)>,
    now: Timestamp,
    render: &RenderOptions,
) -> String {
    let rows = rows(all, view, now, render, &mut Vec::new());
    if !view.headers {
        return rows;
    }
    let mut notes = Notes::new(view);
    notes.add(all);
    let notes = notes.text(absence, render);
    if notes.is_empty() {
        rows
    } else {
        format!("{rows}\n{notes}")
    }
}

/// Returns the rows, below others of these widths.
pub fn rows(
    all: &[CustomResource],
    view: View,
    now: Timestamp,
    render: &RenderOptions,
    widths: &mut Vec<usize>,
) -> String {
    let mut table = table(&sorted(all), view, now).below(widths);
    if !view.wide {
        table = table.fit_or_omit("URL", render.width);
    }
    if !view.headers {
        table = table.without_header();
    }
    table.text(render.color)
}

fn sorted(all: &[CustomResource]) -> Vec<&CustomResource> {
    let mut all: Vec<&CustomResource> = all.iter().collect();
    all.sort_by_key(|one| (one.namespace(), one.name()));
    all
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::resource::queue::tests as queue;
    use crate::resource::workload::Workload;
    use serde_json::{Value, json};

    /// Noon of the day on which all apps of the tests were created at midnight.
    pub fn noon() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().unwrap()
    }

    pub fn app(name: &str, spec: &Value, status: &Value) -> Workload {
        let app = serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": name, "namespace": "default", "generation": 1, "uid": name, "creationTimestamp": "2026-06-01T00:00:00Z"},
            "spec": spec, "status": status,
        }));
        Workload::App(app.unwrap())
    }

    pub fn cond(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-06-01T11:58:00Z"})
    }

    pub fn healthy() -> Workload {
        app(
            "shop",
            &json!({"image": "ghcr.io/acme/shop:1.4", "port": 8080, "replicas": 3}),
            &json!({
                "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
                "url": "http://shop.default", "addresses": [{"type": "IPAddress", "value": "10.0.0.7"}], "conditions": [cond("Ready", "True", "Ready", "")],
            }),
        )
    }

    pub fn broken() -> Workload {
        app(
            "blog",
            &json!({"image": "nginx:1.99", "port": 80, "replicas": 2}),
            &json!({
                "observedGeneration": 1, "replicas": 2, "readyReplicas": 0, "updatedReplicas": 2, "url": "http://blog.default",
                "conditions": [cond("Ready", "False", "ImageNotFound", "image nginx:1.99 does not exist"), cond("Stalled", "True", "ImageNotFound", "")],
                "cause": {"reason": "ImageNotFound", "message": "image nginx:1.99 does not exist", "next": "kubectl edit appdeploy blog"},
            }),
        )
    }

    fn worker() -> Workload {
        app(
            "worker",
            &json!({"image": "busybox"}),
            &json!({
                "observedGeneration": 1, "replicas": 1, "readyReplicas": 0,
                "conditions": [cond("Ready", "False", "Progressing", "0 of 1 pods are ready"), cond("Reconciling", "True", "Progressing", "")],
            }),
        )
    }

    pub fn set(name: &str, spec: &Value, status: &Value) -> Workload {
        let set = serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
            "metadata": {"name": name, "namespace": "default", "generation": 1, "uid": name, "creationTimestamp": "2026-06-01T00:00:00Z"},
            "spec": spec, "status": status,
        }));
        Workload::PodSet(set.unwrap())
    }

    pub fn workers() -> Workload {
        set(
            "workers",
            &json!({"replicas": 3, "template": {"image": "busybox"}, "replacePods": [{"name": "workers-0", "uid": "workers-0"}]}),
            &json!({
                "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "terminatingReplicas": 1,
                "podNames": ["workers-0", "workers-1", "workers-2", "workers-3"],
                "conditions": [cond("Ready", "False", "Progressing", "replacing workers-0: workers-3 is starting"), cond("Reconciling", "True", "Progressing", "")],
            }),
        )
    }

    pub fn batch() -> Workload {
        set(
            "batch",
            &json!({"replicas": 8, "template": {"image": "ghcr.io/acme/batch:1.99"}, "maxUnavailable": "25%", "minReadySeconds": 10}),
            &json!({
                "observedGeneration": 1, "replicas": 8, "readyReplicas": 6, "updatedReplicas": 2,
                "podNames": (0..8).map(|n| format!("batch-{n}")).collect::<Vec<_>>(),
                "conditions": [cond("Ready", "False", "ImageNotFound", "image ghcr.io/acme/batch:1.99 was not found"), cond("Stalled", "True", "ImageNotFound", "")],
                "cause": {"reason": "ImageNotFound", "message": "image ghcr.io/acme/batch:1.99 was not found", "next": "kubectl edit podset batch -n default"},
            }),
        )
    }

    /// Returns objects as a list shows them.
    pub fn listed<const N: usize>(all: [Workload; N]) -> Vec<CustomResource> {
        all.map(CustomResource::from).into()
    }

    fn queues() -> Vec<CustomResource> {
        let ready = json!({"observedGeneration": 1, "url": "http://sqs.example:9324/000000000000/default_orders",
            "approximateDepth": 12, "conditions": [cond("Ready", "True", "Available", "")]});
        let next = "kubectl appdeploy queue adopt invoices -n default";
        let taken = queue::broken("QueueConflict", "a queue with this name exists", next);
        let fifo = json!({"sqs": {"region": "eu-west-1", "type": "FIFO"}});
        let all = [
            queue::queue("orders", &json!({}), &ready),
            queue::queue("invoices", &json!({}), &taken),
            queue::queue("mails", &fifo, &json!({})),
        ];
        all.map(CustomResource::Queue).into()
    }

    const PLAIN: View = View {
        namespaces: false,
        wide: false,
        headers: true,
    };

    #[test]
    fn list_shows_each_app_and_explains_those_that_are_not_ready() {
        let apps = listed([worker(), healthy(), broken()]);
        insta::assert_snapshot!(text(&apps, PLAIN, None, noon(), &RenderOptions::default()), @r"
        NAME     READY   PODS   REASON          URL                   AGE
        blog     False   0/2    ImageNotFound   http://blog.default   12h
        shop     True    3/3    Ready           http://shop.default   12h
        worker   False   0/1    Progressing     <none>                12h

        blog: image nginx:1.99 does not exist
          next: kubectl edit appdeploy blog
        worker: 0 of 1 pods are ready
        ");
    }

    #[test]
    fn all_namespaces_and_wide_add_columns() {
        let view = View {
            namespaces: true,
            wide: true,
            headers: true,
        };
        insta::assert_snapshot!(text(&listed([healthy(), broken()]), view, None, noon(), &RenderOptions { width: Some(80), ..RenderOptions::default() }), @r"
        NAMESPACE   NAME   READY   PODS   REASON          URL                   ADDRESS    IMAGE                   AGE
        default     blog   False   0/2    ImageNotFound   http://blog.default   <none>     nginx:1.99              12h
        default     shop   True    3/3    Ready           http://shop.default   10.0.0.7   ghcr.io/acme/shop:1.4   12h

        default/blog: image nginx:1.99 does not exist
          next: kubectl edit appdeploy blog
        ");
    }

    #[test]
    fn pod_sets_have_their_own_columns() {
        let sets = listed([workers(), batch()]);
        insta::assert_snapshot!(text(&sets, PLAIN, None, noon(), &RenderOptions { width: Some(80), ..RenderOptions::default() }), @r"
        NAME      READY   PODS   REASON          AGE
        batch     False   6/8    ImageNotFound   12h
        workers   False   3/3    Progressing     12h

        batch: image ghcr.io/acme/batch:1.99 was not found
          next: kubectl edit podset batch -n default
        workers: replacing workers-0: workers-3 is starting
        ");
        let wide = View { wide: true, ..PLAIN };
        insta::assert_snapshot!(table(&sets.iter().collect::<Vec<_>>(), wide, noon()).text(false), @r"
        NAME      READY   PODS   REASON          UPDATED   IMAGE                     NAMES                                        AGE
        workers   False   3/3    Progressing     3         busybox                   workers-0,workers-1,workers-2,workers-3      12h
        batch     False   6/8    ImageNotFound   2         ghcr.io/acme/batch:1.99   batch-0,batch-1,batch-2,batch-3,batch-4,+3   12h
        ");
    }

    #[test]
    fn queues_have_a_depth() {
        let absence = Some((
            "no operator is installed in this cluster".to_owned(),
            "kubectl appdeploy install".into(),
        ));
        let narrow = RenderOptions {
            width: Some(80),
            ..RenderOptions::default()
        };
        insta::assert_snapshot!(text(&queues(), PLAIN, absence, noon(), &narrow), @r"
        NAME       READY     DEPTH       REASON          URL                         AGE
        invoices   False     <unknown>   QueueConflict   <pending>                   12h
        mails      Unknown   <unknown>   Pending         <pending>                   12h
        orders     True      12          Available       http://sqs.example:9324/…   12h

        invoices: a queue with this name exists
          next: kubectl appdeploy queue adopt invoices -n default

        why:  no operator is installed in this cluster
        next: kubectl appdeploy install
        ");
        let wide = View { wide: true, ..PLAIN };
        insta::assert_snapshot!(table(&queues().iter().collect::<Vec<_>>(), wide, noon()).text(false), @r"
        NAME       READY     DEPTH       REASON          URL                                                   REGION      TYPE       AGE
        orders     True      12          Available       http://sqs.example:9324/000000000000/default_orders   us-east-1   Standard   12h
        invoices   False     <unknown>   QueueConflict   <pending>                                             us-east-1   Standard   12h
        mails      Unknown   <unknown>   Pending         <pending>                                             eu-west-1   FIFO       12h
        ");
    }

    #[test]
    fn header_can_be_omitted() {
        let view = View {
            headers: false,
            ..PLAIN
        };
        insta::assert_snapshot!(text(&listed([healthy(), broken()]), view, None, noon(), &RenderOptions::default()), @r"
        blog   False   0/2    ImageNotFound   http://blog.default   12h
        shop   True    3/3    Ready           http://shop.default   12h
        ");
    }

    #[test]
    fn unmanaged_app_is_reported_once() {
        let absence = Some((
            "no operator is installed in this cluster".to_owned(),
            "kubectl appdeploy install".into(),
        ));
        let apps = listed([
            app("a", &json!({"image": "nginx", "port": 80}), &json!({})),
            app("b", &json!({"image": "nginx"}), &json!({})),
        ]);
        insta::assert_snapshot!(text(&apps, PLAIN, absence, noon(), &RenderOptions::default()), @r"
        NAME   READY     PODS   REASON    URL         AGE
        a      Unknown   0/1    Pending   <pending>   12h
        b      Unknown   0/1    Pending   <none>      12h

        why:  no operator is installed in this cluster
        next: kubectl appdeploy install
        ");
    }

    #[test]
    fn list_fits_into_eighty_columns() {
        let long = app(
            &"x".repeat(35),
            &json!({"image": "nginx", "port": 80}),
            &json!({
                "observedGeneration": 1, "readyReplicas": 1, "url": format!("https://{}.example.com", "x".repeat(50)),
                "conditions": [cond("Ready", "True", "Ready", "")],
            }),
        );
        let text = text(
            &listed([long]),
            PLAIN,
            None,
            noon(),
            &RenderOptions {
                width: Some(80),
                ..RenderOptions::default()
            },
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
