//! Renders the files of a report from the collected data.

use std::fmt::Write as _;

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;

use super::archive::Entry;
use super::collect::Collected;
use crate::error::{Error, Result};
use crate::installation::check::page;
use crate::installation::operator::{self, Operator};
use crate::installation::version::PLUGIN;
use crate::output::redactor::{MASK, Redactor};
use crate::output::{formats, yaml};
use crate::terminal::ui::RenderOptions;

/// The file that describes the others.
const README: &str = "README.txt";

/// The files of the archive, and the omitted parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The files. The first one explains the others.
    pub entries: Vec<Entry>,
    /// The omitted parts, each with the reason.
    pub left_out: Vec<String>,
}

/// Returns the files. `scope` describes the namespaces of the apps.
pub fn contents(collected: &Collected, scope: &str, now: Timestamp) -> Result<Contents> {
    let mask = mask(collected);
    let mut contents = Contents::default();
    contents.add("versions.yaml", &yaml::write(&versions(collected))?);
    contents.add(
        "checks.txt",
        &mask.text(&page::text(&collected.findings, &RenderOptions::default())),
    );
    contents.add(
        "checks.json",
        &mask.text(&formats::json(&page::value(&collected.findings))?),
    );
    for section in &collected.sections {
        match &section.objects {
            Err(error) => contents.lack(&section.file, error),
            Ok(objects) if objects.is_empty() => {}
            Ok(objects) => {
                let values = objects.iter().map(|object| {
                    let value = serde_json::to_value(object).unwrap_or_default();
                    mask.object(&value, section.owner)
                });
                contents.add(&section.file, &yaml::write_all(&values.collect::<Vec<_>>())?);
            }
        }
        if section.is_cut {
            contents.left_out.push(format!(
                "{}: not all objects are included; use -n for one namespace",
                section.file
            ));
        }
    }
    for log in &collected.logs {
        match &log.text {
            Ok(text) => contents.add(&log.file, &mask.text(text)),
            Err(error) => contents.lack(&log.file, error),
        }
    }
    let readme = contents.readme(scope, now);
    contents.entries.insert(
        0,
        Entry {
            name: README.to_owned(),
            content: readme,
        },
    );
    Ok(contents)
}

/// Returns a mask that knows all that is secret anywhere.
fn mask(collected: &Collected) -> Redactor {
    let mut mask = Redactor::default();
    let objects = || {
        let sections = collected.sections.iter();
        sections.flat_map(|section| section.objects.iter().flatten().map(|object| (section.owner, object)))
    };
    for (owner, object) in objects() {
        mask.add(&serde_json::to_value(object).unwrap_or_default(), owner);
    }
    for (_, object) in objects() {
        mask.forget(&object.name_any());
        mask.forget(&object.namespace().unwrap_or_default());
    }
    mask
}

fn versions(collected: &Collected) -> serde_json::Value {
    let kubernetes = collected
        .kubernetes
        .as_ref()
        .map_or_else(|error| error.sentence().to_owned(), Clone::clone);
    let operator = match &collected.operator {
        Operator::Installed(deployment, _) => operator::image(deployment).unwrap_or("<unknown>").to_owned(),
        Operator::Absent => "not installed".to_owned(),
        Operator::Unknown(error) => error.sentence().to_owned(),
    };
    json!({"plugin": PLUGIN, "kubernetes": kubernetes, "operatorImage": operator,
        "os": std::env::consts::OS, "architecture": std::env::consts::ARCH})
}

impl Contents {
    fn add(&mut self, name: &str, content: &str) {
        self.entries.push(Entry {
            name: name.to_owned(),
            content: content.to_owned(),
        });
    }

    fn lack(&mut self, name: &str, error: &Error) {
        let why = if error.is_forbidden() {
            "n/a (forbidden)"
        } else {
            error.sentence()
        };
        self.left_out.push(format!("{name}: {why}"));
    }

    fn readme(&self, scope: &str, now: Timestamp) -> String {
        let mut text = format!(
            "A report on AppDeploy, made by kubectl appdeploy report {PLUGIN} at {now:.0}.\n\
             Apps, pod sets and queues are those of {scope}.\n\n\
             Secrets and ConfigMaps were not read. Values of environment variables and arguments,\n\
             third-party annotations, and what looks like a password or a token are replaced by\n\
             {MASK}. Names of objects, images, hosts and namespaces are included.\n\
             Check the content before you send it.\n\nFiles:\n"
        );
        for entry in &self.entries {
            let _ = writeln!(text, "  {}  ({} bytes)", entry.name, entry.content.len());
        }
        if !self.left_out.is_empty() {
            text.push_str("\nLeft out:\n");
        }
        for line in &self.left_out {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::cluster::report::collect::{Log, Section};
    use crate::installation::check::code::Code;
    use crate::installation::check::finding::Finding;
    use crate::output::redactor::Owner;

    #[test]
    fn report_lists_its_content_and_what_was_left_out() {
        let app = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "metadata": {"name": "shop", "namespace": "default"},
            "spec": {"image": "nginx", "env": [{"name": "KEY", "value": "hunter22"}]}});
        let section = |file: &str, owner, objects| Section {
            file: file.to_owned(),
            owner,
            objects,
            is_cut: false,
        };
        let forbidden = || Error::failed("Error from server (Forbidden): pods is forbidden");
        let collected = Collected {
            kubernetes: Ok("v1.36.3".to_owned()),
            operator: Operator::Absent,
            findings: vec![Finding::ok(Code::Reachable, "the API server answers")],
            sections: vec![
                Section {
                    is_cut: true,
                    ..section(
                        "apps/appdeploys.yaml",
                        Owner::Person,
                        Ok(vec![serde_json::from_value(app).unwrap()]),
                    )
                },
                section("apps/services.yaml", Owner::Person, Ok(vec![])),
                section("operator/pods.yaml", Owner::Operator, Err(forbidden())),
            ],
            logs: vec![
                Log {
                    file: "operator/logs/a.log".to_owned(),
                    text: Ok("the key is hunter22".to_owned()),
                },
                Log {
                    file: "operator/logs/b.log".to_owned(),
                    text: Err(Error::failed("cannot reach the cluster")),
                },
            ],
        };
        let contents = contents(&collected, "all namespaces", "2026-01-01T12:00:00Z".parse().unwrap()).unwrap();
        insta::assert_snapshot!(contents.entries[0].content, @r"
        A report on AppDeploy, made by kubectl appdeploy report v0.1.0 at 2026-01-01T12:00:00Z.
        Apps, pod sets and queues are those of all namespaces.

        Secrets and ConfigMaps were not read. Values of environment variables and arguments,
        third-party annotations, and what looks like a password or a token are replaced by
        <redacted>. Names of objects, images, hosts and namespaces are included.
        Check the content before you send it.

        Files:
          versions.yaml  (95 bytes)
          checks.txt  (69 bytes)
          checks.json  (352 bytes)
          apps/appdeploys.yaml  (159 bytes)
          operator/logs/a.log  (21 bytes)

        Left out:
          apps/appdeploys.yaml: not all objects are included; use -n for one namespace
          operator/pods.yaml: n/a (forbidden)
          operator/logs/b.log: cannot reach the cluster
        ");
        let all: String = contents.entries.iter().map(|entry| entry.content.as_str()).collect();
        assert!(
            !all.contains("hunter22") && all.contains("the key is <redacted>"),
            "{all}"
        );
    }
}
