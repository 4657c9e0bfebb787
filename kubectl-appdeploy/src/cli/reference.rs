//! `docs/reference`: a page for each verb, from the same tree that reads the command line. `make reference` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};

/// If set, the pages are written instead of compared.
const WRITE: &str = "APPDEPLOY_WRITE_REFERENCE";

/// Returns all pages by their file name.
fn pages() -> BTreeMap<String, String> {
    let mut command = crate::cli::command();
    command.build();
    let mut pages = BTreeMap::new();
    let mut index = String::from(
        "# Reference\n\nAll commands and flags of `kubectl appdeploy`. `make reference` generates these pages from the plugin.\n\n| Verb | |\n|---|---|\n",
    );
    walk(&command, &mut Vec::new(), &mut pages, &mut index);
    let _ = write!(
        index,
        "\n[Cluster options](cluster-options.md) can be given before or after every verb.\n\n\
         Exit codes: 0 success, 1 error, 2 invalid usage, 3 will not become ready without a change, 4 timeout, 130 Ctrl-C.\n"
    );
    pages.insert("README.md".to_owned(), index);
    let shared = options(command.get_arguments().filter(|arg| arg.is_global_set()));
    let text = format!(
        "# Cluster options\n\nFlags that select the cluster and the user, named as in kubectl. They can be given before or after \
         every verb, but not before `appdeploy`: kubectl rejects them there.\n\n{shared}"
    );
    pages.insert("cluster-options.md".to_owned(), text);
    pages
}

fn walk(command: &Command, path: &mut Vec<String>, pages: &mut BTreeMap<String, String>, index: &mut String) {
    let verbs = command.get_subcommands();
    for verb in verbs.filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        path.push(verb.get_name().to_owned());
        if verb.has_subcommands() {
            walk(verb, path, pages, index);
        } else {
            let file = format!("{}.md", path.join("-"));
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(index, "| [`{}`]({file}) | {} |", path.join(" "), cell(&about));
            pages.insert(file, page(verb, &about));
        }
        path.pop();
    }
}

fn page(verb: &Command, about: &str) -> String {
    let mut verb = verb.clone();
    let usage = verb.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim_end();
    let name = verb.get_bin_name().unwrap_or_default();
    let mut text = format!("# {name}\n\n{about}.\n\n```text\n{usage}\n```\n");
    if let Some(after) = verb.get_after_help() {
        let after = after.to_string();
        let examples = after.strip_prefix("Examples:\n").unwrap_or(&after);
        let lines = examples.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
        let _ = write!(text, "\n```sh\n{}\n```\n", lines.collect::<Vec<_>>().join("\n"));
    }
    let own: Vec<&Arg> = verb
        .get_arguments()
        .filter(|arg| {
            !arg.is_global_set() && !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
        })
        .collect();
    if !own.is_empty() {
        let _ = write!(text, "\n{}", options(own.into_iter()));
    }
    text.push_str("\n[Cluster options](cluster-options.md) · [All verbs](README.md)\n");
    text
}

/// Returns a table of arguments.
fn options<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let mut text = String::from("| Flag | Meaning |\n|---|---|\n");
    for arg in args {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<String> = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy().into_owned())
            .filter(|_| arg.get_action().takes_values() && !arg.is_hide_default_value_set())
            .collect();
        let default = if defaults.is_empty() {
            String::new()
        } else {
            format!("; default: {}", defaults.join(","))
        };
        let _ = writeln!(text, "| `{}` | {}{default} |", cell(&flag(arg)), cell(&help));
    }
    text
}

fn flag(arg: &Arg) -> String {
    let (_, value) = crate::commands::completion::named(arg);
    let Some(long) = arg.get_long() else {
        return value;
    };
    let short = arg.get_short().map_or_else(String::new, |short| format!("-{short}, "));
    if !arg.get_action().takes_values() {
        return format!("{short}--{long}");
    }
    let optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    if optional {
        format!("{short}--{long}[={value}]")
    } else {
        format!("{short}--{long}={value}")
    }
}

/// Escapes a text for a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn reference_matches_the_command_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    let pages = pages();
    if std::env::var_os(WRITE).is_some() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in &pages {
            std::fs::write(folder.join(file), text).unwrap();
        }
    }
    let mut written = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        written.insert(name, std::fs::read_to_string(&path).unwrap());
    }
    let names = |pages: &BTreeMap<String, String>| pages.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&written),
        names(&pages),
        "`make reference` updates docs/reference"
    );
    for (file, text) in &pages {
        assert_eq!(
            &written[file], text,
            "docs/reference/{file}: `make reference` updates it"
        );
    }
}
