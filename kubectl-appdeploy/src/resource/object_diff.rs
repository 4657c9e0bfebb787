//! Two versions of objects side by side, as `kubectl diff` shows them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use model::command;
use model::{ChildKind, export};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::live_children::resource;
use crate::error::{Error, Result, system_error};
use crate::output::yaml;
use crate::terminal::ui::{RenderOptions, Style, Ui, paint};

/// The variable that names another program, as kubectl has it.
const EXTERNAL: &str = "KUBECTL_EXTERNAL_DIFF";

/// An object before and after a change; `None` if it does not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// `group.version.Kind.namespace.name`, the name of the file.
    name: String,
    live: Option<Value>,
    merged: Option<Value>,
}

impl Pair {
    /// Returns the two versions of a child, without what the API server and the operator note in them.
    pub fn of(kind: &ChildKind, namespace: &str, name: &str, live: Option<&Value>, merged: Option<&Value>) -> Self {
        let resource = resource(kind);
        let group = if resource.group.is_empty() {
            resource.version
        } else {
            format!("{}.{}", resource.group, resource.version)
        };
        Self {
            name: format!("{group}.{kind}.{namespace}.{name}"),
            live: live.map(export::comparable),
            merged: merged.map(export::comparable),
        }
    }

    /// Whether there is anything to show.
    pub fn differs(&self) -> bool {
        self.live != self.merged
    }

    fn texts(&self) -> Result<(String, String)> {
        let text = |object: &Option<Value>| object.as_ref().map_or_else(|| Ok(String::new()), yaml::write);
        Ok((text(&self.live)?, text(&self.merged)?))
    }
}

/// Prints pairs that differ, with the program that the person has chosen, if any.
pub fn show(pairs: &[Pair], ui: &mut Ui) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let chosen = std::env::var(EXTERNAL).ok();
    if let Some(command) = chosen.filter(|command| !command.trim().is_empty()) {
        return external(&command, pairs, ui);
    }
    let render = ui.render_options();
    for pair in pairs {
        ui.print(&unified(pair, &render)?)?;
    }
    Ok(())
}

/// Returns one pair as a unified diff.
pub fn unified(pair: &Pair, render: &RenderOptions) -> Result<String> {
    let (live, merged) = pair.texts()?;
    let name = &pair.name;
    let mut text = format!("diff -u -N LIVE/{name} MERGED/{name}\n--- LIVE/{name}\n+++ MERGED/{name}\n");
    let diff = TextDiff::from_lines(&live, &merged);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        let _ = writeln!(text, "{}", hunk.header());
        for change in hunk.iter_changes() {
            // The content of objects is not trusted.
            let words = crate::terminal::ui::clean(change.value().trim_end_matches('\n'));
            let shown = match change.tag() {
                ChangeTag::Delete => paint(render.color, Style::Bad, &format!("-{words}")),
                ChangeTag::Insert => paint(render.color, Style::Good, &format!("+{words}")),
                ChangeTag::Equal => format!(" {words}"),
            };
            let _ = writeln!(text, "{shown}");
        }
    }
    Ok(text)
}

/// Writes both versions into folders and lets another program compare them.
fn external(command: &str, pairs: &[Pair], ui: &mut Ui) -> Result<()> {
    let failed =
        |source: std::io::Error| Error::failed(format!("cannot compare with {command}: {}", system_error(&source)));
    let folder = tempfile::Builder::new()
        .prefix("appdeploy-diff-")
        .tempdir()
        .map_err(failed)?;
    let (live, merged) = (folder.path().join("LIVE"), folder.path().join("MERGED"));
    for side in [&live, &merged] {
        std::fs::create_dir(side).map_err(failed)?;
    }
    let write = |side: &Path, name: &str, text: &str| {
        if text.is_empty() {
            return Ok(());
        }
        std::fs::write(side.join(name), text)
    };
    for pair in pairs {
        let (before, after) = pair.texts()?;
        write(&live, &pair.name, &before).map_err(failed)?;
        write(&merged, &pair.name, &after).map_err(failed)?;
    }
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or("diff");
    let ran = Command::new(program)
        .args(words)
        .arg(&live)
        .arg(&merged)
        .output()
        .map_err(failed)?;
    ui.print(&String::from_utf8_lossy(&ran.stdout))?;
    match ran.status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(Error::failed(format!("{command} did not compare: {}", ran.status))
            .why(String::from_utf8_lossy(&ran.stderr).trim().to_owned())
            .next(command!("set another program in {}, or unset it", EXTERNAL))),
    }
}

#[cfg(test)]
mod tests {
    use model::children::DEPLOYMENT;
    use serde_json::json;

    use super::*;

    #[test]
    fn pair_is_shown_like_kubectl_diff() {
        let object = |image: &str| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "shop", "namespace": "a", "resourceVersion": image},
                "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "app", "image": image}]}}}})
        };
        let pair = |live: Option<Value>, merged: Option<Value>| {
            Pair::of(&DEPLOYMENT, "a", "shop", live.as_ref(), merged.as_ref())
        };
        let changed = pair(Some(object("nginx:1")), Some(object("nginx:2\u{1b}[2J")));
        insta::assert_snapshot!(unified(&changed, &RenderOptions::default()).unwrap());
        let created = pair(None, Some(object("nginx")));
        insta::assert_snapshot!(unified(&created, &RenderOptions::default()).unwrap());
        assert!(!pair(Some(object("nginx")), Some(object("nginx"))).differs());
    }
}
