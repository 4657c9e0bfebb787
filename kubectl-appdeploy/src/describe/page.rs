//! The page of `describe`: head, spec, conditions, children, events.

use std::fmt::Write as _;

use crd::{AppDeploy, EnvVar, Expose, SecurityProfile};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;

use super::events;
use crate::age::age;
use crate::children::{Children, Section};
use crate::table::{Cell, Table};
use crate::ui::{Look, Style, clean};
use crate::{app, tree};

/// The width of the labels.
const LABEL: usize = 14;

struct Page<'a> {
    text: String,
    look: &'a Look,
}

impl Page<'_> {
    fn line(&mut self, label: &str, value: &str) {
        let padded = format!("{:LABEL$}", format!("{label}:"));
        let _ = writeln!(self.text, "{}{}", self.look.label(&padded), clean(value));
    }

    fn list(&mut self, label: &str, values: &[String]) {
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
    app: &AppDeploy,
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
    head(&mut page, app, now);
    spec(&mut page, app);
    state(&mut page, app, absence);
    conditions(&mut page, app, now);
    let tree = tree::table(children, now);
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

fn head(page: &mut Page<'_>, app: &AppDeploy, now: Timestamp) {
    page.line("Name", &app.name_any());
    page.line("Namespace", &app.namespace().unwrap_or_default());
    let labels: Vec<String> = app
        .labels()
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !labels.is_empty() {
        page.list("Labels", &labels);
    }
    let created = app.metadata.creation_timestamp.as_ref();
    page.line("Age", &age(created, now));
    if let Some(created) = created {
        page.line("Created", &created.0.to_string());
    }
}

fn spec(page: &mut Page<'_>, app: &AppDeploy) {
    let spec = &app.spec;
    let pod = &spec.pod;
    page.line("Image", &pod.image);
    match pod.port {
        Some(port) => page.line("Port", &port.to_string()),
        None => page.line("Port", "<none> (a worker: no Service, no Ingress)"),
    }
    if pod.port.is_some() && spec.expose == Expose::Service {
        page.line("Expose", "Service (inside the cluster only)");
    }
    let optional = [
        ("Path", spec.path.clone()),
        ("IngressClass", spec.ingress_class_name.clone()),
        ("TLS Secret", spec.tls.as_ref().map(|tls| tls.secret_name.clone())),
        ("Command", (!pod.command.is_empty()).then(|| words(&pod.command))),
        ("Args", (!pod.args.is_empty()).then(|| words(&pod.args))),
        (
            "Pull Policy",
            pod.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        ),
        (
            "Security",
            (pod.security_profile == SecurityProfile::Restricted).then(|| "restricted".to_owned()),
        ),
    ];
    for (label, value) in optional {
        if let Some(value) = value {
            page.line(label, &value);
        }
    }
    if let Some(resources) = &pod.resources {
        let amounts = |map: &std::collections::BTreeMap<String, crd::Quantity>| {
            map.iter()
                .map(|(name, amount)| format!("{name}={amount}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if !resources.requests.is_empty() {
            page.line("Requests", &amounts(&resources.requests));
        }
        if !resources.limits.is_empty() {
            page.line("Limits", &amounts(&resources.limits));
        }
    }
    if let Some(check) = &pod.health_check {
        let port = check.port.or(pod.port).unwrap_or_default();
        page.line(
            "Health Check",
            &check.path.as_ref().map_or_else(
                || format!("TCP on port {port}"),
                |path| format!("GET {path} on port {port}"),
            ),
        );
    }
    if !pod.env.is_empty() {
        page.list("Environment", &pod.env.iter().map(variable).collect::<Vec<_>>());
    }
}

fn words(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"$\\".contains(c));
        if plain { word.clone() } else { format!("{word:?}") }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn variable(variable: &EnvVar) -> String {
    let name = &variable.name;
    let Some(source) = &variable.value_from else {
        return format!("{name}={}", variable.value.as_deref().unwrap_or_default());
    };
    let (kind, key) = match (&source.secret_key_ref, &source.config_map_key_ref) {
        (Some(key), _) => ("Secret", key),
        (None, Some(key)) => ("ConfigMap", key),
        (None, None) => return format!("{name}=<unset>"),
    };
    format!("{name} from {kind} {}, key {}", key.name, key.key)
}

fn state(page: &mut Page<'_>, app: &AppDeploy, absence: Option<(String, String)>) {
    let status = app.status.clone().unwrap_or_default();
    let count = |n: Option<i32>| n.unwrap_or(0);
    page.line(
        "Replicas",
        &format!(
            "{} wanted, {} exist, {} up to date, {} ready",
            app.spec.replicas,
            count(status.replicas),
            count(status.updated_replicas),
            count(status.ready_replicas)
        ),
    );
    page.line("URL", &app::url(app));
    if let Some(address) = &status.address {
        page.line("Address", address);
    }
    page.line(
        "Ready",
        &format!(
            "{} ({})",
            if app::mood(app) == Style::Good { "yes" } else { "no" },
            app::reason(app)
        ),
    );
    let explanation = absence
        .map(|(why, next)| (why, Some(next)))
        .or_else(|| app::explanation(app));
    if let Some((why, next)) = explanation {
        page.line("  why", &why);
        if let Some(next) = next {
            let next = page.look.command(&next);
            page.line("  next", &next);
        }
    }
}

fn conditions(page: &mut Page<'_>, app: &AppDeploy, now: Timestamp) {
    let conditions = app
        .status
        .as_ref()
        .map(|status| status.conditions.clone())
        .unwrap_or_default();
    if conditions.is_empty() {
        page.line("Conditions", "<none>");
        return;
    }
    let mut table = Table::new(vec!["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for condition in conditions {
        table.row(vec![
            condition.type_.into(),
            condition.status.into(),
            condition.reason.into(),
            age(Some(&condition.last_transition_time), now).into(),
            Cell::from(condition.message),
        ]);
    }
    page.section("Conditions", &table.text(page.look.color));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::list::tests::{app, cond, noon};
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
        let none = Children {
            ingresses: Ok(vec![]),
            services: Ok(vec![]),
            deployments: Ok(vec![]),
            replica_sets: Ok(vec![]),
            pods: Ok(vec![]),
        };
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
}
