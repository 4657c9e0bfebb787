//! The table of apps: one row each, and below it a line for each app that is not ready.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crd::AppDeploy;
use crd::status::condition;
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::age::age;
use crate::app;
use crate::output::some;
use crate::table::{Cell, Table};
use crate::ui::Look;

/// What the table shows.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// A column for the namespace.
    pub namespaces: bool,
    /// More columns, nothing shortened.
    pub wide: bool,
    /// A header, and explanations below.
    pub headers: bool,
}

/// Returns the table with its explanations.
pub fn text(apps: &[AppDeploy], view: View, absence: Option<(String, String)>, now: Timestamp, look: &Look) -> String {
    let mut apps: Vec<&AppDeploy> = apps.iter().collect();
    apps.sort_by_key(|app| (app.namespace(), app.name_any()));
    let mut table = table(&apps, view, now);
    if !view.wide {
        table = table.fit("URL", look.width);
    }
    if !view.headers {
        return table.without_header().text(look.color);
    }
    let mut text = table.text(look.color);
    let notes = notes(&apps, view, absence.is_some(), look);
    if !notes.is_empty() {
        let _ = write!(text, "\n\n{}", notes.join("\n"));
    }
    for (why, names) in hidden(&apps, view) {
        let note = format!("{}: {why}", some(&names));
        let _ = write!(text, "\n\n{}", look.sentence("", "note:", &note));
    }
    if let Some((why, next)) = absence {
        let _ = write!(
            text,
            "\n\n{}\n{} {}",
            look.sentence("", "why: ", &why),
            look.label("next:"),
            look.command(&next)
        );
    }
    text
}

/// Returns the rows.
pub fn table(apps: &[&AppDeploy], view: View, now: Timestamp) -> Table {
    let mut header = vec!["NAME", "READY", "REASON", "URL"];
    if view.namespaces {
        header.insert(0, "NAMESPACE");
    }
    if view.wide {
        header.extend(["ADDRESS", "IMAGE"]);
    }
    header.push("AGE");
    let mut table = Table::new(header);
    for app in apps {
        table.row(row(app, view, now));
    }
    table
}

fn row(app: &AppDeploy, view: View, now: Timestamp) -> Vec<Cell> {
    let mood = app::mood(app);
    let mut row: Vec<Cell> = Vec::new();
    if view.namespaces {
        row.push(app.namespace().unwrap_or_default().into());
    }
    row.push(app.name_any().into());
    row.push(Cell::styled(app::ready(app), mood));
    row.push(Cell::styled(app::reason(app), mood));
    row.push(app::url(app).into());
    if view.wide {
        let address = app.status.as_ref().and_then(|status| status.address.clone());
        row.push(address.unwrap_or_default().into());
        row.push(app.spec.pod.image.clone().into());
    }
    row.push(age(app.metadata.creation_timestamp.as_ref(), now).into());
    row
}

/// How many apps are explained one by one.
const EXPLAINED: usize = 10;

fn notes(apps: &[&AppDeploy], view: View, absence: bool, look: &Look) -> Vec<String> {
    let said = apps.iter().filter_map(|app| {
        // One sentence at the end says it for all of these.
        if absence
            && app
                .status
                .as_ref()
                .and_then(|status| status.observed_generation)
                .is_none()
        {
            return None;
        }
        let (why, next) = app::explanation(app)?;
        let name = name(app, view);
        let mut note = look.sentence("", &format!("{name}:"), &why);
        if let Some(next) = next {
            let _ = write!(note, "\n  {} {}", look.label("next:"), look.command(&next));
        }
        Some(note)
    });
    let mut notes: Vec<String> = said.collect();
    if notes.len() > EXPLAINED {
        let rest = notes.len() - EXPLAINED;
        notes.truncate(EXPLAINED);
        notes.push(format!("…and {rest} more that are not ready"));
    }
    notes
}

/// Returns the apps that serve, but are reached by nobody from outside, by the reason for it.
fn hidden(apps: &[&AppDeploy], view: View) -> BTreeMap<String, Vec<String>> {
    let mut hidden: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for app in apps {
        let exposed = app::condition(app, condition::EXPOSED).filter(|exposed| exposed.status == "False");
        if let Some(exposed) = exposed.filter(|_| app::is_true(app, condition::READY)) {
            hidden.entry(exposed.message.clone()).or_default().push(name(app, view));
        }
    }
    hidden
}

/// Returns the name of an app, with its namespace where there are several.
fn name(app: &AppDeploy, view: View) -> String {
    match app.namespace() {
        Some(namespace) if view.namespaces => format!("{namespace}/{}", app.name_any()),
        _ => app.name_any(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Noon of the day on which all apps of the tests were created at midnight.
    pub fn noon() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().unwrap()
    }

    pub fn app(name: &str, spec: &Value, status: &Value) -> AppDeploy {
        serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": name, "namespace": "default", "generation": 1, "uid": name, "creationTimestamp": "2026-06-01T00:00:00Z"},
            "spec": spec, "status": status,
        }))
        .unwrap()
    }

    pub fn cond(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-06-01T11:58:00Z"})
    }

    pub fn healthy() -> AppDeploy {
        app(
            "shop",
            &json!({"image": "ghcr.io/acme/shop:1.4", "port": 8080, "replicas": 3}),
            &json!({
                "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
                "url": "http://shop.default", "address": "10.0.0.7", "conditions": [cond("Ready", "True", "Ready", "")],
            }),
        )
    }

    pub fn broken() -> AppDeploy {
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

    fn worker() -> AppDeploy {
        app(
            "worker",
            &json!({"image": "busybox"}),
            &json!({
                "observedGeneration": 1, "replicas": 1, "readyReplicas": 0,
                "conditions": [cond("Ready", "False", "Progressing", "0 of 1 pods are ready"), cond("Reconciling", "True", "Progressing", "")],
            }),
        )
    }

    const PLAIN: View = View {
        namespaces: false,
        wide: false,
        headers: true,
    };

    #[test]
    fn a_list_shows_each_app_and_explains_what_is_not_ready() {
        let apps = [worker(), healthy(), broken()];
        insta::assert_snapshot!(text(&apps, PLAIN, None, noon(), &Look::default()), @r"
        NAME     READY   REASON          URL                   AGE
        blog     0/2     ImageNotFound   http://blog.default   12h
        shop     3/3     Ready           http://shop.default   12h
        worker   0/1     Progressing     <none>                12h

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
        insta::assert_snapshot!(text(&[healthy(), broken()], view, None, noon(), &Look { width: Some(80), ..Look::default() }), @r"
        NAMESPACE   NAME   READY   REASON          URL                   ADDRESS    IMAGE                   AGE
        default     blog   0/2     ImageNotFound   http://blog.default   <none>     nginx:1.99              12h
        default     shop   3/3     Ready           http://shop.default   10.0.0.7   ghcr.io/acme/shop:1.4   12h

        default/blog: image nginx:1.99 does not exist
          next: kubectl edit appdeploy blog
        ");
    }

    #[test]
    fn a_script_gets_rows_alone() {
        let view = View {
            headers: false,
            ..PLAIN
        };
        insta::assert_snapshot!(text(&[healthy(), broken()], view, None, noon(), &Look::default()), @r"
        blog   0/2   ImageNotFound   http://blog.default   12h
        shop   3/3   Ready           http://shop.default   12h
        ");
    }

    #[test]
    fn an_app_that_no_operator_sees_says_so_once() {
        let absence = Some((
            "no operator is installed in this cluster".to_owned(),
            "kubectl appdeploy install".to_owned(),
        ));
        let apps = [
            app("a", &json!({"image": "nginx", "port": 80}), &json!({})),
            app("b", &json!({"image": "nginx"}), &json!({})),
        ];
        insta::assert_snapshot!(text(&apps, PLAIN, absence, noon(), &Look::default()), @r"
        NAME   READY   REASON    URL         AGE
        a      0/1     Pending   <pending>   12h
        b      0/1     Pending   <none>      12h

        why:  no operator is installed in this cluster
        next: kubectl appdeploy install
        ");
    }

    #[test]
    fn a_terminal_of_eighty_columns_is_enough() {
        let long = app(
            &"x".repeat(40),
            &json!({"image": "nginx", "port": 80}),
            &json!({
                "observedGeneration": 1, "readyReplicas": 1, "url": format!("https://{}.example.com", "x".repeat(50)),
                "conditions": [cond("Ready", "True", "Ready", "")],
            }),
        );
        let text = text(
            &[long],
            PLAIN,
            None,
            noon(),
            &Look {
                width: Some(80),
                ..Look::default()
            },
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
