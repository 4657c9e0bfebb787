//! Compares the documentation with the code: every reason, every flag, every link.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use testcluster::checkout::root;

fn read(name: &str) -> Result<String> {
    std::fs::read_to_string(root().join(name)).with_context(|| format!("failed to read {name}"))
}

/// Returns the first words of the rows of the Markdown tables in `text`, without backticks.
fn rows(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|row| row.split('`').next())
        .collect()
}

#[test]
fn every_reason_is_explained() -> Result<()> {
    let code = read("model/src/reason.rs")?;
    let guide = read("docs/operations.md")?;
    let words = code.split("\nreasons! {\n").nth(1).context("there are no reasons")?;
    let words = words.split("\n}").next().unwrap_or_default();
    let reasons: Vec<&str> = words
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|word| !word.starts_with("///"))
        .collect();
    assert!(reasons.contains(&"ImageNotFound"), "{reasons:?}");
    for reason in reasons {
        assert!(
            rows(&guide).contains(&reason),
            "docs/operations.md does not explain {reason}"
        );
    }
    Ok(())
}

#[test]
fn every_flag_of_the_operator_is_listed() -> Result<()> {
    let code = read("operator/src/settings.rs")?;
    let guide = read("docs/operations.md")?;
    let settings = code
        .split("pub struct Settings {")
        .nth(1)
        .context("there are no settings")?;
    let settings = settings.split("\n}").next().unwrap_or_default();
    let fields = settings.lines().filter_map(|line| line.trim().strip_prefix("pub "));
    let mut count = 0;
    for field in fields.filter_map(|line| line.split(':').next()) {
        count += 1;
        let flag = format!("--{}", field.replace('_', "-"));
        assert!(rows(&guide).contains(&flag.as_str()), "docs/operations.md lacks {flag}");
        let variable = format!("`APPDEPLOY_{}`", field.to_uppercase());
        assert!(guide.contains(&variable), "docs/operations.md lacks {variable}");
    }
    assert!(count > 5, "only {count} settings were found");
    Ok(())
}

#[test]
fn links_have_existing_targets() -> Result<()> {
    let mut pages: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    for folder in ["docs", "docs/adr", "docs/guide", "docs/reference"] {
        for entry in std::fs::read_dir(root().join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    for page in pages {
        let text = std::fs::read_to_string(&page)?;
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap_or(Path::new("")).join(file)
            };
            assert!(file.exists(), "{target} in {}", page.display());
            if !anchor.is_empty() {
                let headings = std::fs::read_to_string(&file)?;
                let found = headings
                    .lines()
                    .filter_map(|line| line.strip_prefix('#'))
                    .any(|line| slug(line) == anchor);
                assert!(found, "{target} in {}", page.display());
            }
        }
    }
    Ok(())
}

#[test]
fn tests_of_features_exist() -> Result<()> {
    let page = read("docs/features.md")?;
    let named = page.split('`').filter(|word| word.contains(".rs::"));
    let mut count = 0;
    for test in named {
        let (file, name) = test.split_once("::").context("a test has a file")?;
        let code = read(file)?;
        assert!(code.contains(&format!("fn {name}(")), "docs/features.md names {test}");
        count += 1;
    }
    assert!(count > 30, "only {count} tests were found");
    Ok(())
}

/// Returns the anchor that a heading gets.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Returns all Rust files of the workspace.
fn sources(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns all code of the workspace.
fn all_code() -> Result<String> {
    let mut files = Vec::new();
    sources(root(), &mut files)?;
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display())))
        .collect()
}

/// Returns the names of tests in a cell of a table.
fn tests_in(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2).filter(|name| is_test(name))
}

fn is_test(name: &str) -> bool {
    name.contains('_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn every_convention_has_a_test_or_a_reason() -> Result<()> {
    let code = all_code()?;
    let table = read("docs/conventions.md")?;
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Expected"));
    let mut count = 0;
    for row in rows {
        let held = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        assert!(
            tests_in(held).next().is_some() || held.contains("no test"),
            "neither a test nor a reason: {row}"
        );
        for test in tests_in(held) {
            assert!(code.contains(&format!("fn {test}()")), "{test} is not a test");
        }
        count += 1;
    }
    assert!(count > 30, "only {count} conventions were found");
    Ok(())
}

/// The number of faults of each letter.
const FAULTS: [(char, usize); 12] = [
    ('A', 9),
    ('B', 18),
    ('C', 7),
    ('D', 7),
    ('E', 11),
    ('F', 16),
    ('G', 9),
    ('H', 5),
    ('I', 3),
    ('J', 5),
    ('K', 6),
    ('L', 13),
];

#[test]
fn every_fault_has_a_test_or_a_reason() -> Result<()> {
    let code = all_code()?;
    let table = read("docs/faults.md")?;
    let numbered = FAULTS
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |number| format!("{letter}{number}")));
    for id in numbered {
        let mut rows = table
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("| {id} | ")));
        let row = rows.next().with_context(|| format!("{id} has no row"))?;
        assert_eq!(rows.next(), None, "{id} has two rows");
        let cells: Vec<&str> = row.split(" | ").collect();
        let [_, then, shown] = cells[..] else {
            anyhow::bail!("{id} has other columns than the table: {row}")
        };
        assert!(
            tests_in(shown).next().is_some() != then.starts_with("not tested"),
            "{id} has neither a test nor a reason, or both"
        );
        for test in tests_in(shown) {
            // End-to-end tests have a parameter, and macros generate other tests.
            let there = [format!("fn {test}("), format!("{test}:")]
                .iter()
                .any(|way| code.contains(way));
            assert!(there, "{id} names {test}, which is not a test");
        }
    }
    Ok(())
}
