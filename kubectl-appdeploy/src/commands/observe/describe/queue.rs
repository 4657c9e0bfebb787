//! The description of a queue: its settings, why it is not ready, conditions and events.

use crd::{AdoptionPolicy, AppQueue, DeletionPolicy};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use model::NextCommand;
use model::queue::config_map_name;

use crate::diagnosis::events;
use crate::output::description::Page;
use crate::resource::children::Section;
use crate::resource::queue::{self, Outside, depth, outside, summary, type_of, url};
use crate::terminal::ui::{RenderOptions, Style};

/// Returns the page.
pub fn text(
    queue: &AppQueue,
    events: &Section<Event>,
    absence: Option<(String, NextCommand)>,
    now: Timestamp,
    render: &RenderOptions,
) -> String {
    let mut page = Page {
        text: String::new(),
        render,
    };
    page.head(&queue.metadata, now);
    spec(&mut page, queue);
    page.line("URL", url(queue).unwrap_or("<pending>"));
    if let Some(arn) = queue.status.as_ref().and_then(|status| status.arn.as_deref()) {
        page.line("ARN", arn);
    }
    let depth = match depth(queue) {
        None => "<unknown>".to_owned(),
        Some(1) => "about 1 message".to_owned(),
        Some(depth) => format!("about {depth} messages"),
    };
    page.line("Depth", &depth);
    page.line("ConfigMap", &config_map_name(queue::name(queue)));
    let summary = summary(queue);
    let is_ready = if summary.mood() == Style::Good { "yes" } else { "no" };
    page.line("Ready", &format!("{is_ready} ({})", summary.reason()));
    let why = absence.map(|(why, next)| (why, Some(next)));
    if let Some((why, next)) = why.or_else(|| summary.explanation()) {
        page.line("  why", &why);
        if let Some(next) = next {
            page.command("  next", &next);
        }
    }
    page.conditions(summary.conditions, now);
    page.events(events, |events| events::table::table(events, now));
    page.text.truncate(page.text.trim_end().len());
    page.text
}

fn spec(page: &mut Page<'_>, queue: &AppQueue) {
    let sqs = &queue.spec.sqs;
    page.line("Provider", "SQS");
    page.line("Region", &sqs.region);
    page.line("Endpoint", sqs.endpoint.as_deref().unwrap_or("Amazon SQS"));
    page.line("Type", type_of(queue));
    if let Some(name) = &sqs.queue_name {
        page.line("Queue Name", name);
    }
    let numbers = [
        ("Visibility", sqs.visibility_timeout_seconds, "s"),
        ("Retention", sqs.message_retention_seconds, "s"),
        ("Delay", sqs.delay_seconds, "s"),
        ("Receive Wait", sqs.receive_wait_seconds, "s"),
        ("Max Message", sqs.max_message_bytes, " bytes"),
    ];
    for (label, value, unit) in numbers {
        if let Some(value) = value {
            page.line(label, &format!("{value}{unit}"));
        }
    }
    if let Some(dead_letter) = &sqs.dead_letter {
        let (name, count) = (&dead_letter.queue_ref.name, dead_letter.max_receive_count);
        page.line("Dead Letter", &format!("{name}, after {count} deliveries"));
    }
    let tags: Vec<String> = sqs.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if !tags.is_empty() {
        page.list("Tags", &tags);
    }
    match &queue.spec.credentials {
        Some(from) => page.line("Credentials", &format!("Secret {}", from.secret_ref.name)),
        None => page.line("Credentials", "those of the operator"),
    }
    if queue.spec.adoption_policy == Some(AdoptionPolicy::IfExists) {
        page.line("Adoption", "IfExists: manages an existing queue with this name");
    }
    let policy = match queue.spec.deletion_policy {
        Some(DeletionPolicy::Delete) => "Delete: ",
        Some(DeletionPolicy::Retain) => "Retain: ",
        None => "",
    };
    let effect = match outside(queue) {
        Outside::Deleted => "deletes the queue with its messages",
        Outside::Kept => "keeps the queue",
        Outside::Absent => "no queue was created",
    };
    page.line("On Deletion", &format!("{policy}{effect}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::queue::tests::{broken, queue};
    use serde_json::json;

    #[test]
    fn page_shows_the_spec_the_cause_and_the_fate_of_the_queue() {
        let spec = json!({"sqs": {"region": "us-east-1", "endpoint": "http://sqs.example:9324", "visibilityTimeoutSeconds": 45,
            "deadLetter": {"queueRef": {"name": "failed"}, "maxReceiveCount": 5}, "tags": {"team": "shop"}},
            "credentials": {"secretRef": {"name": "sqs"}}, "adoptionPolicy": "IfExists"});
        let next = "kubectl appdeploy queue create orders -n default --grant-only";
        let status = broken("CredentialsForbidden", "the operator may not get the Secret sqs", next);
        let queue = queue("orders", &spec, &status);
        let now = "2026-06-01T12:00:00Z".parse().unwrap();
        let text = text(&queue, &Ok(Vec::new()), None, now, &RenderOptions::default());
        insta::assert_snapshot!(text, @r"
        Name:            orders
        Namespace:       default
        Age:             12h
        Created:         2026-06-01T00:00:00Z
        Provider:        SQS
        Region:          us-east-1
        Endpoint:        http://sqs.example:9324
        Type:            Standard
        Visibility:      45s
        Dead Letter:     failed, after 5 deliveries
        Tags:            team=shop
        Credentials:     Secret sqs
        Adoption:        IfExists: manages an existing queue with this name
        On Deletion:     deletes the queue with its messages
        URL:             <pending>
        Depth:           <unknown>
        ConfigMap:       orders-queue
        Ready:           no (CredentialsForbidden)
          why:           the operator may not get the Secret sqs
          next:          kubectl appdeploy queue create orders -n default --grant-only
        Conditions:
          TYPE    STATUS   REASON                 SINCE   MESSAGE
          Ready   False    CredentialsForbidden   2m      the operator may not get the Secret sqs
        Events:          <none>
        ");
    }
}
