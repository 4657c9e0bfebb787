//! Writes the lines of a description: a label and its value, or a section.

use std::fmt::Write as _;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::ObjectMeta;
use model::NextCommand;

use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::terminal::ui::{RenderOptions, clean, wrap};

/// The width of the labels; the longest one is `Service Account:`.
const LABEL: usize = 17;
/// By how much the following lines of a long value of a list are indented.
const CONTINUED: usize = 2;
/// How many events are shown: the youngest.
const EVENTS: usize = 15;

/// A page that is being written.
pub struct Page<'a> {
    pub text: String,
    pub render: &'a RenderOptions,
}

impl Page<'_> {
    /// Writes a label with its value, broken between words where the terminal ends.
    pub fn line(&mut self, label: &str, value: &str) {
        let padded = format!("{:LABEL$}", format!("{label}:"));
        let room = self.render.width.map(|width| width.saturating_sub(LABEL));
        let mut lines = wrap(&clean(value), room).into_iter();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(self.text, "{}{first}", self.render.label(&padded));
        for line in lines {
            let _ = writeln!(self.text, "{:LABEL$}{line}", "");
        }
    }

    /// Writes a command in one piece, so that it can be copied.
    pub fn command(&mut self, label: &str, command: &NextCommand) {
        let padded = format!("{:LABEL$}", format!("{label}:"));
        let _ = writeln!(
            self.text,
            "{}{}",
            self.render.label(&padded),
            self.render.command(command)
        );
    }

    /// Writes a label with several values below each other, each broken between words where the terminal ends.
    pub fn list(&mut self, label: &str, values: &[String]) {
        let room = self.render.width.map(|width| width.saturating_sub(LABEL + CONTINUED));
        let mut label = self.render.label(&format!("{:LABEL$}", format!("{label}:")));
        for value in values {
            let mut indent = 0;
            for line in wrap(&clean(value), room) {
                let _ = writeln!(self.text, "{label}{:indent$}{line}", "");
                label = " ".repeat(LABEL);
                indent = CONTINUED;
            }
        }
    }

    /// Writes a label above lines whose labels are indented.
    pub fn heading(&mut self, label: &str) {
        let _ = writeln!(self.text, "{}", self.render.label(&format!("{label}:")));
    }

    /// Writes name, namespace, labels and age of an object.
    pub fn head(&mut self, meta: &ObjectMeta, now: Timestamp) {
        self.line("Name", meta.name.as_deref().unwrap_or_default());
        self.line("Namespace", meta.namespace.as_deref().unwrap_or_default());
        let labels = meta.labels.iter().flatten();
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        if !labels.is_empty() {
            self.list("Labels", &labels);
        }
        let created = meta.creation_timestamp.as_ref();
        self.line("Age", &age(created, now));
        if let Some(created) = created {
            self.line("Created", &created.0.to_string());
        }
    }

    /// Writes the conditions of a status.
    pub fn conditions(&mut self, conditions: &[Condition], now: Timestamp) {
        if conditions.is_empty() {
            self.line("Conditions", "<none>");
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
        let text = table.wrapped(self.render.color, self.room());
        self.section("Conditions", &text);
    }

    /// Writes the youngest events as a table, or why they are not known.
    pub fn events<E>(&mut self, events: &Result<Vec<E>, String>, table: impl FnOnce(&[E]) -> Table) {
        match events {
            Ok(events) if events.is_empty() => self.line("Events", "<none>"),
            Ok(all) => {
                let table = table(&all[all.len().saturating_sub(EVENTS)..]);
                let text = table.wrapped(self.render.color, self.room());
                self.section("Events", &text);
            }
            Err(why) => self.line("Events", why),
        }
    }

    /// Returns the width of a section's content.
    pub fn room(&self) -> Option<usize> {
        self.render.width.map(|width| width.saturating_sub(2))
    }

    pub fn section(&mut self, title: &str, body: &str) {
        self.heading(title);
        for line in body.lines() {
            let _ = writeln!(self.text, "  {line}");
        }
    }
}
