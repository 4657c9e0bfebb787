//! Which files of a crate import which, read from their `use` lines and paths; tests aside.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::sources;

/// The imports of each file of a crate, by their paths below `src`.
pub type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Reads the imports of a crate.
pub fn of_crate(name: &str) -> Result<Imports> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let files: BTreeSet<PathBuf> = sources(&root)?
        .iter()
        .filter_map(|file| file.strip_prefix(&root).ok().map(Path::to_path_buf))
        .collect();
    let mut all = Imports::new();
    for file in &files {
        let text = std::fs::read_to_string(root.join(file)).with_context(|| format!("{}", file.display()))?;
        let module = module(file);
        let found = paths(program(&text)).into_iter().filter_map(|path| {
            let found = resolve(&absolute(&module, &path), &files)?;
            (found != *file).then_some(found)
        });
        all.insert(file.clone(), found.collect());
    }
    Ok(all)
}

/// Returns the pairs of files that import each other. A file and its submodules may.
pub fn circles(imports: &Imports) -> Vec<(&Path, &Path)> {
    let mut circles = Vec::new();
    for (file, imported) in imports {
        for other in imported.iter().filter(|other| *other > file) {
            let is_mutual = imports.get(other).is_some_and(|back| back.contains(file));
            let (one, two) = (module(file), module(other));
            if is_mutual && !one.starts_with(&two) && !two.starts_with(&one) {
                circles.push((file.as_path(), other.as_path()));
            }
        }
    }
    circles
}

/// Returns the text of a file without its unit tests, which are at its end.
fn program(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// Returns the module of a file, as the segments of its path.
fn module(file: &Path) -> Vec<String> {
    let without_end = file.with_extension("");
    let segments: Vec<String> = without_end
        .iter()
        .map(|segment| segment.to_string_lossy().into_owned())
        .collect();
    if ["main", "lib"].iter().any(|root| segments == [*root]) {
        return Vec::new();
    }
    segments
}

/// Returns the paths that a text names: each leaf of its `use` lines, and paths that begin with `crate` or `super`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut rest = String::new();
    let mut statement: Option<String> = None;
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default().trim();
        let begins = code.starts_with("use ") || (code.starts_with("pub") && code.contains(" use "));
        if statement.is_none() && begins {
            statement = Some(String::new());
        }
        match &mut statement {
            Some(tree) => {
                tree.push_str(code);
                if code.ends_with(';') {
                    let tree = statement.take().unwrap_or_default();
                    let tree = tree
                        .trim_end_matches(';')
                        .split_once("use ")
                        .map_or("", |(_, tree)| tree);
                    leaves("", tree, &mut paths);
                }
            }
            None => {
                rest.push_str(code);
                rest.push('\n');
            }
        }
    }
    let words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let inline = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    paths.extend(inline.map(segments));
    paths
}

/// Adds the leaves of a `use` tree, such as `crate::{a, b::{self, C}}`.
fn leaves(prefix: &str, tree: &str, paths: &mut Vec<Vec<String>>) {
    let mut depth = 0;
    let mut items = vec![String::new()];
    for c in tree.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(item) = items.last_mut() {
            item.push(c);
        }
    }
    for item in items.iter().map(|item| item.trim()).filter(|item| !item.is_empty()) {
        match item.split_once('{') {
            Some((head, group)) => leaves(
                &format!("{prefix}{head}"),
                group.strip_suffix('}').unwrap_or(group),
                paths,
            ),
            None => {
                let name = item.split(" as ").next().unwrap_or(item);
                paths.push(segments(&format!("{prefix}{name}")));
            }
        }
    }
}

fn segments(path: &str) -> Vec<String> {
    path.split("::")
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns a path from the root of the crate.
fn absolute(module: &[String], path: &[String]) -> Vec<String> {
    let (mut base, mut rest) = (module.to_vec(), path);
    if rest.first().is_some_and(|first| first == "crate") {
        (base, rest) = (Vec::new(), &rest[1..]);
    }
    while let Some(first) = rest.first() {
        match first.as_str() {
            "super" => {
                base.pop();
            }
            "self" => {}
            _ => break,
        }
        rest = &rest[1..];
    }
    base.extend(rest.iter().filter(|segment| *segment != "self").cloned());
    base
}

/// Returns the file in which the item of a path is.
fn resolve(path: &[String], files: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    (1..=path.len()).rev().find_map(|length| {
        let file = path[..length].iter().collect::<PathBuf>().with_extension("rs");
        files.contains(&file).then_some(file)
    })
}

#[test]
fn imports_are_read_from_use_lines_and_paths() {
    let text = "use crate::a::{self, b::C};\npub use super::d;\n// crate::not\nfn f() { crate::e::g() }\n\
        #[cfg(test)]\nmod tests {\n    use crate::h;\n}\n";
    let all: Vec<String> = paths(program(text)).iter().map(|path| path.join("::")).collect();
    assert_eq!(all, ["crate::a::self", "crate::a::b::C", "super::d", "crate::e::g"]);
    let files = ["a.rs", "a/b.rs", "x.rs", "d.rs"].map(PathBuf::from).into();
    let file = |path: &str| resolve(&absolute(&["x".to_owned()], &segments(path)), &files);
    assert_eq!(file("crate::a::b::C"), Some("a/b.rs".into()));
    assert_eq!(file("crate::a::Item"), Some("a.rs".into()));
    assert_eq!(file("super::d"), Some("d.rs".into()));
    // A path of another crate, or of an item here, names no other file.
    assert_eq!(file("std::fmt"), Some("x.rs".into()));
}

#[test]
fn files_that_import_each_other_are_found() {
    let imports = |pairs: &[(&str, &str)]| -> Imports {
        let mut all = Imports::new();
        for (file, other) in pairs {
            all.entry(file.into()).or_default().insert(other.into());
        }
        all
    };
    assert!(
        circles(&imports(&[
            ("a.rs", "b.rs"),
            ("b.rs", "c.rs"),
            ("a.rs", "a/x.rs"),
            ("a/x.rs", "a.rs")
        ]))
        .is_empty()
    );
    assert_eq!(
        circles(&imports(&[("a.rs", "b/c.rs"), ("b/c.rs", "a.rs")])),
        [(Path::new("a.rs"), Path::new("b/c.rs"))]
    );
}
