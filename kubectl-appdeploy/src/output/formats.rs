//! `-o` and `--dry-run`: what a command gives back, and whether it does anything.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::output::yaml;
use crate::terminal::ui::{Ui, tolerate_closed};

/// How a changed object is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The object as JSON.
    Json,
    /// The object as YAML.
    Yaml,
    /// Only `kind.group/name`.
    Name,
}

/// Whether a change is sent and stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// It is made.
    #[default]
    None,
    /// Nothing is sent that could change anything.
    Client,
    /// The server checks it and forgets it.
    Server,
}

impl DryRun {
    /// Whether anything is kept.
    pub const fn is_real(self) -> bool {
        matches!(self, Self::None)
    }

    /// The text after the verb of a result, as in kubectl.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// The flags of every verb that changes something.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ChangeArgs {
    /// none, client (print the change and send nothing), or server (the API server validates the change without storing it)
    #[arg(
        long,
        value_name = "MODE",
        default_value = "none",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub dry_run: DryRun,
    /// Print the changed objects as json, yaml or name
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    pub output: Option<Format>,
}

impl ChangeArgs {
    /// Prints the result for one object: a line as in kubectl, or the format of `-o`. An error while printing does not skip waits
    /// and warnings.
    pub fn print_result(self, ui: &mut Ui, title: &str, done: &str, object: &Value) -> Result<()> {
        let text = match self.output {
            None => format!("{title} {done}{}", self.dry_run.suffix()),
            Some(format) => one(format, title, object)?,
        };
        tolerate_closed(ui.print(&text))
    }

    /// Prints the outcome for several objects. Structured output is one document for all of them.
    pub fn print_results(self, ui: &mut Ui, done: &[Done]) -> Result<()> {
        match (self.output, done) {
            (None | Some(Format::Name), _) | (_, [_]) => done
                .iter()
                .try_for_each(|one| self.print_result(ui, &one.title, one.word, &one.object)),
            (_, []) => Ok(()),
            (Some(format), _) => {
                let all = list(done.iter().map(|one| one.object.clone()).collect());
                tolerate_closed(ui.print(&one(format, "", &all)?))
            }
        }
    }
}

/// One object that was changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// `kind.group/name`.
    pub title: String,
    /// `created`, `scaled`, …
    pub word: &'static str,
    /// Whether the object is paused and the change waits for a `resume`.
    pub is_held: bool,
    /// The object as the server has it.
    pub object: Value,
}

impl Done {
    /// Returns only the name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

fn one(format: Format, title: &str, object: &Value) -> Result<String> {
    match format {
        Format::Name => Ok(title.to_owned()),
        Format::Json => json(object),
        Format::Yaml => yaml::write(object),
    }
}

/// Returns an object as JSON with line breaks.
pub fn json(object: &Value) -> Result<String> {
    serde_json::to_string_pretty(object).map_err(|source| Error::failed(format!("cannot write JSON: {source}")))
}

/// Returns several objects as one, as `kubectl get -o json` does.
pub fn list(items: Vec<Value>) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
}

/// Returns an object for display: without its managed fields.
pub fn presentable(object: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    value
}

/// Returns all of them as a list in a sentence: `a, b and c`.
pub fn enumerate(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// Names the first few of many.
pub fn some(names: &[String]) -> String {
    some_of(names, names.len())
}

/// How many names [`some`] lists.
pub const NAMED: usize = 5;

/// Lists the first of `count` names, and the number of the rest.
pub fn some_of(first: &[String], count: usize) -> String {
    let shown = first.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match count.checked_sub(NAMED) {
        Some(rest @ 1..) => format!("{shown} and {rest} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_in_a_sentence_ends_with_and() {
        let all = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(enumerate(&all), "a, b and c");
        assert_eq!(enumerate(&all[..2]), "a and b");
        assert_eq!(enumerate(&all[..1]), "a");
    }
}
