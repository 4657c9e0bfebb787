//! The table of events.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::diagnosis::events::last_seen;
use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::terminal::ui::Style;

/// Returns the events as kubectl shows them, with the object they are about.
pub fn table(events: &[Event], now: Timestamp) -> Table {
    let mut table = Table::new(vec!["LAST", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    for event in events {
        let kind = event.type_.clone().unwrap_or_default();
        let style = if kind == "Warning" { Style::Bad } else { Style::Good };
        let object = &event.involved_object;
        let count = event
            .series
            .as_ref()
            .and_then(|series| series.count)
            .or(event.count)
            .unwrap_or(1);
        let last = last_seen(event).map(Time);
        let last = age(last.as_ref(), now);
        table.row(vec![
            if count > 1 { format!("{last} (x{count})") } else { last }.into(),
            Cell::styled(kind, style),
            event.reason.clone().unwrap_or_default().into(),
            format!(
                "{}/{}",
                object.kind.clone().unwrap_or_default(),
                object.name.clone().unwrap_or_default()
            )
            .into(),
            event.message.clone().unwrap_or_default().trim().to_owned().into(),
        ]);
    }
    table
}
