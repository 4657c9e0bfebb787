//! The page of `describe`: head, spec, conditions, children, events.

use std::fmt::Write as _;

use crd::PodSetStatus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::{events, spec};
use crate::age::age;
use crate::children::{Children, Section};
use crate::status::table::url;
use crate::table::{Cell, Table};
use crate::tree;
use crate::ui::{Look, Style, clean};
use crate::workload::Workload;

/// The width of the labels.
const LABEL: usize = 14;

/// A page that is being written.
pub struct Page<'a> {
    text: String,
    look: &'a Look,
}

impl Page<'_> {
    /// Writes a label with its value.
    pub fn line(&mut self, label: &str, value: &str) {
        let padded = format!("{:LABEL$}", format!("{label}:"));
        let _ = writeln!(self.text, "{}{}", self.look.label(&padded), clean(value));
    }

    /// Writes a label with several values below each other.
    pub fn list(&mut self, label: &str, values: &[String]) {
        for (index, value) in values.iter().enumerate() {
            if index == 0 {
                self.line(label, value);
            } else {
                let _ = writeln!(self.text, "{:LABEL$}{}", "", clean(value));
            }
        }
    }

    fn section(&mut self, title: &str, body: &str) {
        let _ = writeln!(self.text, "{}", self.look.label(&format!("{title}:")));
        for line in body.lines() {
            let _ = writeln!(self.text, "  {line}");
        }
    }
}

/// Returns the page.
pub fn text(
    workload: &Workload,
    children: &Children,
    events: &Section<Event>,
    absence: Option<(String, String)>,
    now: Timestamp,
    look: &Look,
) -> String {
    let mut page = Page {
        text: String::new(),
        look,
    };
    head(&mut page, workload, now);
    spec::write(&mut page, workload);
    state(&mut page, workload, absence);
    conditions(&mut page, workload, now);
    let tree = tree::table(workload, children, now);
    if tree.is_empty() {
        page.line("Children", "<none>");
    } else {
        page.section("Children", &tree.text(look.color));
    }
    match events {
        Ok(events) if events.is_empty() => page.line("Events", "<none>"),
        Ok(events) => page.section("Events", &events::table(events, now).text(look.color)),
        Err(why) => page.line("Events", why),
    }
    page.text.truncate(page.text.trim_end().len());
    page.text
}

fn head(page: &mut Page<'_>, workload: &Workload, now: Timestamp) {
    page.line("Name", workload.name());
    page.line("Namespace", workload.namespace());
    let labels: Vec<String> = workload
        .meta()
        .labels
        .iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !labels.is_empty() {
        page.list("Labels", &labels);
    }
    let created = workload.meta().creation_timestamp.as_ref();
    page.line("Age", &age(created, now));
    if let Some(created) = created {
        page.line("Created", &created.0.to_string());
    }
}

fn state(page: &mut Page<'_>, workload: &Workload, absence: Option<(String, String)>) {
    let state = workload.state();
    let mut replicas = format!(
        "{} wanted, {} exist, {} up to date, {} ready",
        workload.wanted(),
        state.replicas,
        state.updated,
        state.ready
    );
    match workload {
        Workload::App(app) => {
            page.line("Replicas", &replicas);
            page.line("URL", &url(app));
            if let Some(address) = app.status.as_ref().and_then(|status| status.address.as_ref()) {
                page.line("Address", address);
            }
        }
        Workload::PodSet(set) => {
            let status = set.status.as_ref();
            let count = |n: fn(&PodSetStatus) -> Option<i32>| status.and_then(n).unwrap_or(0);
            let (available, ending) = (count(|s| s.available_replicas), count(|s| s.terminating_replicas));
            let _ = write!(replicas, ", {available} available");
            if ending > 0 {
                let _ = write!(replicas, ", {ending} ending");
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
    let explanation = absence
        .map(|(why, next)| (why, Some(next)))
        .or_else(|| workload.explanation());
    if let Some((why, next)) = explanation {
        page.line("  why", &why);
        if let Some(next) = next {
            let next = page.look.command(&next);
            page.line("  next", &next);
        }
    }
}

fn conditions(page: &mut Page<'_>, workload: &Workload, now: Timestamp) {
    let conditions = workload.state().conditions;
    if conditions.is_empty() {
        page.line("Conditions", "<none>");
        return;
    }
    let mut table = Table::new(vec!["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions {
        table.row(vec![
            condition.type_.clone().into(),
            condition.status.clone().into(),
            condition.reason.clone().into(),
            age(Some(&condition.last_transition_time), now).into(),
            Cell::from(condition.message.clone()),
        ]);
    }
    page.section("Conditions", &table.text(page.look.color));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::list::tests::{app, batch, cond, noon};
    use serde_json::json;

    #[test]
    fn a_description_has_it_all() {
        let app = app(
            "shop",
            &json!({"image": "shop:1", "port": 80, "replicas": 2, "args": ["--greeting", "hello world"],
                "env": [{"name": "A", "value": "1"}, {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}, "healthCheck": {"path": "/healthz"}}),
            &json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "url": "http://shop.default",
                "conditions": [cond("Ready", "False", "CrashLoop", "1 of 2 pods keeps crashing")],
                "cause": {"reason": "CrashLoop", "message": "shop-1: exit code 1: no such table", "next": "kubectl logs shop-1 -p"}}),
        );
        let none = Children::of_pods(Ok(vec![]));
        let event: Event = serde_json::from_value(
            json!({"metadata": {}, "type": "Warning", "reason": "BackOff", "message": "restarting\n", "count": 4,
            "involvedObject": {"kind": "Pod", "name": "shop-1"}, "lastTimestamp": "2026-06-01T11:59:30Z"}),
        )
        .unwrap();
        insta::assert_snapshot!(text(&app, &none, &Ok(vec![event]), None, noon(), &Look::default()), @r#"
        Name:         shop
        Namespace:    default
        Age:          12h
        Created:      2026-06-01T00:00:00Z
        Image:        shop:1
        Port:         80
        Args:         --greeting "hello world"
        Requests:     cpu=100m, memory=64Mi
        Health Check: GET /healthz on port 80
        Environment:  A=1
                      DB from Secret db, key url
        Replicas:     2 wanted, 2 exist, 2 up to date, 1 ready
        URL:          http://shop.default
        Ready:        no (CrashLoop)
          why:        shop-1: exit code 1: no such table
          next:       kubectl logs shop-1 -p
        Conditions:
          TYPE    STATUS   REASON      SINCE   MESSAGE
          Ready   False    CrashLoop   2m      1 of 2 pods keeps crashing
        Children:     <none>
        Events:
          LAST       TYPE      REASON    OBJECT       MESSAGE
          30s (x4)   Warning   BackOff   Pod/shop-1   restarting
        "#);
    }

    #[test]
    fn a_description_of_a_pod_set_has_its_own_lines() {
        let none = Children::of_pods(Ok(vec![]));
        insta::assert_snapshot!(text(&batch(), &none, &Ok(vec![]), None, noon(), &Look::default()), @r"
        Name:         batch
        Namespace:    default
        Age:          12h
        Created:      2026-06-01T00:00:00Z
        Image:        ghcr.io/acme/batch:1.99
        Min Ready:    10s
        Unavailable:  at most 25% during an update
        Replicas:     8 wanted, 8 exist, 2 up to date, 6 ready, 0 available
        Ready:        no (ImageNotFound)
          why:        image ghcr.io/acme/batch:1.99 was not found
          next:       kubectl edit podset batch -n default
        Conditions:
          TYPE      STATUS   REASON          SINCE   MESSAGE
          Ready     False    ImageNotFound   2m      image ghcr.io/acme/batch:1.99 was not found
          Stalled   True     ImageNotFound   2m      <none>
        Children:     <none>
        Events:       <none>
        ");
    }
}
