//! The queues that an app or a pod set uses, for its page.

use futures::future::join_all;
use kube::api::DynamicObject;

use crate::cluster::connection::Cluster;
use crate::cluster::kind_info::QUEUE;
use crate::output::table::{Cell, Table};
use crate::resource::queue::{depth, read, summary, url};
use crate::terminal::ui::Style;

/// The state of a queue that a spec names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedQueue {
    name: String,
    ready: String,
    depth: Option<i64>,
    reason: String,
    url: Option<String>,
    style: Style,
}

/// Reads AppQueues by their names. One that does not exist, or can't be read, has a row that says so.
pub async fn fetch(cluster: &Cluster, namespace: &str, names: &[String]) -> Vec<UsedQueue> {
    let cluster = cluster.clone().about(&QUEUE);
    let api = cluster.objects(Some(namespace));
    let reads = names.iter().map(|name| cluster.call(api.get_opt(name)));
    let found = join_all(reads).await;
    names.iter().zip(found).map(|(name, found)| used(name, found)).collect()
}

fn used(name: &str, found: crate::error::Result<Option<DynamicObject>>) -> UsedQueue {
    let without = |reason: &str, style: Style| UsedQueue {
        name: name.to_owned(),
        ready: "Unknown".to_owned(),
        depth: None,
        reason: reason.to_owned(),
        url: None,
        style,
    };
    let object = match found {
        Ok(Some(object)) => object,
        Ok(None) => return without("missing", Style::Bad),
        Err(error) if error.is_forbidden() => return without("n/a (forbidden)", Style::Busy),
        Err(_) => return without("n/a (not read)", Style::Busy),
    };
    let queue = read(&object);
    let summary = summary(&queue);
    UsedQueue {
        name: name.to_owned(),
        ready: summary.ready_status().to_owned(),
        depth: depth(&queue),
        reason: summary.reason(),
        url: url(&queue).map(str::to_owned),
        style: summary.mood(),
    }
}

/// Returns the rows.
pub fn table(all: &[UsedQueue]) -> Table {
    let mut table = Table::new(vec!["QUEUE", "READY", "DEPTH", "REASON", "URL"]);
    for one in all {
        let depth = one
            .depth
            .map_or_else(|| "<unknown>".to_owned(), |depth| depth.to_string());
        table.row(vec![
            one.name.clone().into(),
            Cell::styled(one.ready.clone(), one.style),
            depth.into(),
            Cell::styled(one.reason.clone(), one.style),
            one.url.clone().unwrap_or_else(|| "<pending>".to_owned()).into(),
        ]);
    }
    table
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::error::Error;
    use serde_json::json;

    /// Returns a queue that is ready, one that does not exist, and one that may not be read.
    pub fn sample() -> Vec<UsedQueue> {
        let orders = json!({"metadata": {"name": "orders", "namespace": "default", "generation": 1},
            "spec": {"sqs": {"region": "us-east-1"}},
            "status": {"observedGeneration": 1, "approximateDepth": 12, "url": "http://sqs.example:9324/000000000000/default_orders",
                "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let forbidden = Error::failed("Error from server (Forbidden): no");
        vec![
            used("orders", Ok(Some(serde_json::from_value(orders).unwrap()))),
            used("mails", Ok(None)),
            used("secret", Err(forbidden)),
        ]
    }

    #[test]
    fn queues_of_an_app_have_a_row_also_if_they_are_missing() {
        let text = table(&sample()).fit("URL", Some(80)).text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("QUEUE    READY     DEPTH       REASON            URL"),
            "{text}"
        );
        assert!(
            lines[1].starts_with("orders   True      12          Available "),
            "{text}"
        );
        assert!(
            lines[2].starts_with("mails    Unknown   <unknown>   missing "),
            "{text}"
        );
        assert!(
            lines[3].starts_with("secret   Unknown   <unknown>   n/a (forbidden) "),
            "{text}"
        );
    }
}
