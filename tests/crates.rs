//! Checks the dependencies between the crates.
//!
//! ```text
//! crd  <-  model  <-  operator
//!                 <-  kubectl-appdeploy
//! sqs  <-  operator
//! crd, model, operator, testcluster <-  bench
//! crd, fault-proxy, sqs, testcluster <-  faults <-  the tests of operator and kubectl-appdeploy
//! testcluster     <-  fault-proxy
//!                 <-  demo
//!                 <-  the tests of all others
//! terminal        <-  the tests of kubectl-appdeploy, and of tests
//! packages        <-  the tests of tests
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testcluster::checkout::root;

/// Which crates of the workspace each crate may depend on, without its tests.
const ARROWS: [(&str, &[&str]); 13] = [
    ("bench", &["crd", "model", "operator", "testcluster"]),
    ("crd", &[]),
    ("demo", &["testcluster"]),
    ("fault-proxy", &["testcluster"]),
    ("faults", &["crd", "fault-proxy", "sqs", "testcluster"]),
    ("model", &["crd"]),
    ("operator", &["crd", "model", "sqs"]),
    ("kubectl-appdeploy", &["crd", "model"]),
    ("packages", &[]),
    ("sqs", &[]),
    ("terminal", &[]),
    ("testcluster", &[]),
    ("tests", &[]),
];

/// Crates that a crate without I/O may not depend on directly.
const EFFECTS: [&str; 9] = [
    "tokio",
    "hyper",
    "hyper-util",
    "axum",
    "reqwest",
    "http",
    "futures",
    "tower",
    "tracing",
];

/// Names that such a crate may not use, although a dependency that it needs for types has them.
const WORDS: [&str; 7] = [
    "kube::Client",
    "kube::Api",
    "kube::client",
    "kube::runtime",
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
];

/// The folders of the plugin, each of which imports only those before it.
const ROOMS: [&str; 9] = [
    "error",
    "terminal",
    "output",
    "cluster",
    "resource",
    "installation",
    "diagnosis",
    "commands",
    "cli",
];

/// Returns the direct dependencies of each crate of the workspace, without those of its tests.
fn dependencies() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().context("there are no packages")?;
    let found = packages.iter().map(|package| {
        let all = package["dependencies"].as_array().into_iter().flatten();
        let shipped = all.filter(|dependency| dependency["kind"] != "dev");
        (name(package), shipped.map(name).collect())
    });
    Ok(found.collect())
}

/// Returns the Rust files of a crate, without examples and tests.
fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("failed to read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

#[test]
fn crates_depend_on_each_other_only_along_the_arrows() -> Result<()> {
    let found = dependencies()?;
    let members: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    let drawn: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    assert_eq!(members, drawn, "a new crate wants its place in the architecture");
    for (name, allowed) in ARROWS {
        let used = found[name].iter().map(String::as_str);
        let beyond: Vec<&str> = used
            .filter(|used| members.contains(used) && !allowed.contains(used))
            .collect();
        assert!(
            beyond.is_empty(),
            "{name} may use {allowed:?}, and also uses {beyond:?}"
        );
    }
    Ok(())
}

#[test]
fn every_crate_is_in_the_context_of_the_image() -> Result<()> {
    let root = root();
    let context = std::fs::read_to_string(root.join(".dockerignore"))?;
    for name in dependencies()?.keys() {
        let line = format!("!{name}");
        assert!(context.lines().any(|known| known == line), ".dockerignore lacks {line}");
    }
    Ok(())
}

#[test]
fn pure_crates_use_no_client_runtime_or_clock() -> Result<()> {
    let found = dependencies()?;
    for name in ["crd", "model"] {
        let effects: Vec<_> = EFFECTS.iter().filter(|effect| found[name].contains(**effect)).collect();
        assert!(effects.is_empty(), "{name} depends on {effects:?}");
        let files = sources(&root().join(name).join("src"))?;
        assert!(!files.is_empty(), "{name} has no source");
        for file in files {
            let text = std::fs::read_to_string(&file)?;
            let word = WORDS.iter().find(|word| text.contains(**word));
            assert_eq!(word, None, "in {}", file.display());
        }
    }
    Ok(())
}

/// Returns the modules that a file declares, with or without a `#[path]`.
fn declared(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    let named = |line: &str| Some(line.strip_suffix(';')?.rsplit_once("mod ")?.1.to_owned());
    Ok(text
        .lines()
        .filter(|line| line.starts_with("mod ") || line.starts_with("pub mod "))
        .filter_map(named)
        .collect())
}

#[test]
fn every_file_of_a_test_program_is_part_of_it() -> Result<()> {
    // Cargo builds each file in `tests` as a program, unless `autotests` is off; then a file that is not a module is
    // never compiled, and its tests never run.
    for (folder, main) in [("operator/tests", "main.rs"), ("kubectl-appdeploy/tests/it", "main.rs")] {
        let folder = root().join(folder);
        let main = folder.join(main);
        for file in sources(&folder)?.iter().filter(|file| **file != main) {
            let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let dir = file.parent().context("no folder")?;
            // The harness has its file in its own folder, because a benchmark uses it too.
            let own = dir.join("harness.rs");
            let parent = if dir == folder || *file == own {
                main.clone()
            } else if own.is_file() {
                own
            } else {
                dir.with_extension("rs")
            };
            let known = declared(&parent)?.iter().any(|module| module == name);
            assert!(known, "{} is not a module of {}", file.display(), parent.display());
        }
    }
    Ok(())
}

/// Returns the paths of a `use`, with each group expanded: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.trim().to_owned()];
    };
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(expand)
        .map(|part| format!("{}{part}", prefix.trim()))
        .collect()
}

/// Returns the paths that a file imports at its top level; its tests are not part of it.
fn imports(text: &str) -> Vec<String> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = code;
    while let Some((at, word)) = ["\nuse ", "\npub use ", "\npub(crate) use ", "\npub(super) use "]
        .iter()
        .filter_map(|word| Some((rest.find(word)?, *word)))
        .min()
    {
        rest = &rest[at + word.len()..];
        let end = rest.find(';').unwrap_or(rest.len());
        found.extend(expand(&rest[..end].replace('\n', " ")));
    }
    found
}

/// Returns the path of the module in a file, relative to `src`.
fn module(file: &Path, src: &Path) -> Vec<String> {
    let path = file.strip_prefix(src).unwrap_or(file).with_extension("");
    let mut path: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(path.last().map(String::as_str), Some("lib" | "main" | "mod")) {
        path.pop();
    }
    path
}

/// Returns the file modules that each file module of a crate imports, except its own ancestors and descendants: a module and
/// its parts may know each other.
fn imported(src: &Path) -> Result<BTreeMap<Vec<String>, BTreeSet<Vec<String>>>> {
    let files = sources(src)?;
    let modules: BTreeSet<Vec<String>> = files.iter().map(|file| module(file, src)).collect();
    let mut graph = BTreeMap::<_, BTreeSet<_>>::new();
    for file in files {
        let from = module(&file, src);
        for path in imports(&std::fs::read_to_string(&file)?) {
            let mut words: Vec<&str> = path.split("::").collect();
            let mut to = match words[0] {
                "crate" => Vec::new(),
                "self" | "super" => from.clone(),
                // Another crate, or a part of the module itself.
                _ => continue,
            };
            while words.first() == Some(&"super") {
                to.pop();
                words.remove(0);
            }
            let words = words.into_iter().filter(|word| !matches!(*word, "crate" | "self"));
            for word in words {
                let next = [to.clone(), vec![word.to_owned()]].concat();
                if !modules.contains(&next) {
                    break;
                }
                to = next;
            }
            if !from.starts_with(&to) && !to.starts_with(&from) {
                graph.entry(from.clone()).or_default().insert(to);
            }
        }
    }
    Ok(graph)
}

#[test]
fn no_two_files_import_each_other() -> Result<()> {
    let mut circles = Vec::new();
    for (name, _) in ARROWS {
        let graph = imported(&root().join(name).join("src"))?;
        for (from, imports) in &graph {
            let back = imports
                .iter()
                .filter(|to| graph.get(*to).is_some_and(|back| back.contains(from)));
            circles.extend(
                back.filter(|to| from < *to)
                    .map(|to| format!("{name}: {} and {}", from.join("::"), to.join("::"))),
            );
        }
    }
    assert!(circles.is_empty(), "these import each other:\n{}", circles.join("\n"));
    Ok(())
}

#[test]
fn imports_are_read_with_their_groups() {
    let text = "//! use crate::a;\n\nuse crate::b::{C, d::{E, self}};\npub use super::f;\n\n#[cfg(test)]\nmod tests {\n    use crate::g;\n}\n";
    assert_eq!(
        imports(text),
        ["crate::b::C", "crate::b::d::E", "crate::b::d::self", "super::f"]
    );
    let file = Path::new("src/a/b.rs");
    assert_eq!(module(file, Path::new("src")), ["a", "b"]);
}

#[test]
fn folders_of_the_plugin_import_only_those_below() -> Result<()> {
    let room = |path: &[String]| {
        ROOMS
            .iter()
            .position(|room| path.first().is_some_and(|name| name == room))
    };
    let folder = |path: &[String]| path.get(1).filter(|_| path[0] == "commands").cloned();
    let (mut broken, mut seen) = (Vec::new(), BTreeSet::new());
    let src = root().join("kubectl-appdeploy/src");
    for (file, imports) in imported(&src)? {
        for other in imports {
            let (Some(from), Some(to)) = (room(&file), room(&other)) else {
                continue;
            };
            seen.extend([from, to]);
            // All folders may use the frame of commands that change objects.
            let crosses = match (folder(&file), folder(&other)) {
                (Some(one), Some(two)) => one != two && two != "change",
                _ => false,
            };
            if from < to || crosses {
                broken.push(format!("{} imports {}", file.join("::"), other.join("::")));
            }
        }
    }
    assert_eq!(seen.len(), ROOMS.len(), "a folder was renamed");
    assert!(broken.is_empty(), "{broken:#?}");
    Ok(())
}
