//! The explanations below a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::NextCommand;

use super::table::View;
use crate::output::formats::{NAMED, some_of};
use crate::resource::custom_resource::CustomResource;
use crate::terminal::ui::RenderOptions;

/// How many objects are explained one by one.
const EXPLAINED: usize = 10;

/// The namespace and the name of an object. The order of the table.
type Key = (String, String);
/// Why an object is not ready, and the next command.
type Explanation = (String, Option<NextCommand>);

/// The explanations of the rows, collected page by page. Its size does not depend on the number of rows.
#[derive(Debug)]
pub struct Notes {
    view: View,
    /// Objects that are not ready.
    unready: First<Explanation>,
    /// Objects that no operator has seen. If there is no operator, one sentence explains all of them.
    unseen: First<Explanation>,
    /// Objects that are ready, but not reachable from outside, by reason.
    hidden: BTreeMap<String, First<()>>,
}

impl Notes {
    /// Returns the explanations of a table without rows.
    pub const fn new(view: View) -> Self {
        Self {
            view,
            unready: First::new(EXPLAINED),
            unseen: First::new(EXPLAINED),
            hidden: BTreeMap::new(),
        }
    }

    /// Adds rows.
    pub fn add(&mut self, all: &[CustomResource]) {
        for one in all {
            let summary = one.summary();
            if let Some(explanation) = summary.explanation() {
                let explained = match summary.observed {
                    Some(_) => &mut self.unready,
                    None => &mut self.unseen,
                };
                explained.add(one, explanation);
            }
            if let CustomResource::Workload(workload) = one
                && let Some(why) = workload.hidden()
            {
                let same = self.hidden.entry(why.to_owned());
                same.or_insert_with(|| First::new(NAMED)).add(one, ());
            }
        }
    }

    /// Returns the text, below an empty line; nothing where everything is fine. `absence` is why no operator manages the
    /// objects.
    pub fn text(&self, absence: Option<(String, NextCommand)>, render: &RenderOptions) -> String {
        let mut parts = Vec::new();
        let explained = self.explained(absence.is_some(), render);
        if !explained.is_empty() {
            parts.push(explained.join("\n"));
        }
        for (why, hidden) in &self.hidden {
            let names: Vec<String> = hidden.kept.keys().map(|key| self.name(key)).collect();
            let note = format!("{}: {why}", some_of(&names, hidden.count));
            parts.push(render.sentence("", "note:", &note));
        }
        if let Some((why, next)) = absence {
            let why = render.sentence("", "why: ", &why);
            parts.push(format!("{why}\n{}", render.next("", &next)));
        }
        if parts.is_empty() {
            return String::new();
        }
        format!("\n{}", parts.join("\n\n"))
    }

    /// Returns the explanation of each object that is not ready.
    fn explained(&self, absence: bool, render: &RenderOptions) -> Vec<String> {
        let both = [Some(&self.unready), Some(&self.unseen).filter(|_| !absence)];
        let all: BTreeMap<&Key, &Explanation> = both.iter().flatten().flat_map(|some| &some.kept).collect();
        let mut notes: Vec<String> = all
            .into_iter()
            .take(EXPLAINED)
            .map(|one| self.note(one, render))
            .collect();
        let count: usize = both.iter().flatten().map(|some| some.count).sum();
        let rest = count - notes.len();
        if rest > 0 {
            notes.push(format!("…and {rest} more that are not ready"));
        }
        notes
    }

    fn note(&self, (key, (why, next)): (&Key, &Explanation), render: &RenderOptions) -> String {
        let mut note = render.sentence("", &format!("{}:", self.name(key)), why);
        if let Some(next) = next {
            let _ = write!(note, "\n{}", render.next("  ", next));
        }
        note
    }

    /// Returns a name, with its namespace if several are listed.
    fn name(&self, (namespace, name): &Key) -> String {
        if self.view.namespaces && !namespace.is_empty() {
            format!("{namespace}/{name}")
        } else {
            name.clone()
        }
    }
}

/// The first objects in the order of the table, and the number of all.
#[derive(Debug)]
struct First<T> {
    most: usize,
    kept: BTreeMap<Key, T>,
    count: usize,
}

impl<T> First<T> {
    const fn new(most: usize) -> Self {
        Self {
            most,
            kept: BTreeMap::new(),
            count: 0,
        }
    }

    fn add(&mut self, one: &CustomResource, what: T) {
        self.count += 1;
        self.kept
            .insert((one.namespace().to_owned(), one.name().to_owned()), what);
        if self.kept.len() > self.most {
            self.kept.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::list::tests::{app, cond};
    use super::*;

    const VIEW: View = View {
        namespaces: false,
        wide: false,
        headers: true,
    };

    fn broken(number: usize) -> CustomResource {
        let conditions = json!([cond("Ready", "False", "Progressing", "no pod is ready")]);
        let status = json!({"observedGeneration": 1, "conditions": conditions});
        app(&format!("app-{number:04}"), &json!({"image": "nginx"}), &status).into()
    }

    fn text(pages: &[Vec<CustomResource>], absence: Option<(String, NextCommand)>) -> (String, usize) {
        let mut notes = Notes::new(VIEW);
        for page in pages {
            notes.add(page);
        }
        let kept = notes.unready.kept.len() + notes.unseen.kept.len();
        (notes.text(absence, &RenderOptions::default()), kept)
    }

    #[test]
    fn first_objects_of_all_pages_are_explained_and_the_others_are_counted() {
        let pages: Vec<Vec<CustomResource>> = (0..4)
            .rev()
            .map(|page| (0..500).map(|number| broken(page * 500 + number)).collect())
            .collect();
        let (text, kept) = text(&pages, None);
        assert_eq!(kept, EXPLAINED, "the others are not kept");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "app-0000: no pod is ready");
        assert_eq!(lines[10], "app-0009: no pod is ready");
        assert_eq!(lines[11..], ["…and 1990 more that are not ready"]);
    }

    #[test]
    fn unseen_objects_are_explained_one_by_one_only_if_there_is_an_operator() {
        let unseen = |name: &str| app(name, &json!({"image": "nginx"}), &json!({})).into();
        let page = || vec![unseen("a"), broken(1), unseen("b")];
        insta::assert_snapshot!(text(&[page()], None).0, @r"

        a: no operator has seen it yet
        app-0001: no pod is ready
        b: no operator has seen it yet
        ");
        let absence = Some((
            "no operator is installed".to_owned(),
            "kubectl appdeploy install".into(),
        ));
        insta::assert_snapshot!(text(&[page()], absence).0, @r"

        app-0001: no pod is ready

        why:  no operator is installed
        next: kubectl appdeploy install
        ");
    }
}
