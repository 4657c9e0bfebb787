//! The difference between two revisions, in few words.

use serde_json::Value;

use super::Revision;

/// Names the fields in which two revisions differ.
pub fn between(before: &Revision, after: &Revision) -> String {
    let fields = |revision: &Revision| match serde_json::to_value(&revision.pod) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (fields(before), fields(after));
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let changed = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    let mut words: Vec<String> = changed
        .map(|name| match name.as_str() {
            "env" => format!("env {}", variables(old.get("env"), new.get("env"))),
            name => name.to_owned(),
        })
        .collect();
    // The image comes first, because most users look for it.
    words.sort_by_key(|word| word != "image");
    if before.restarted != after.restarted && after.restarted.is_some() {
        words.push("restart".to_owned());
    }
    if words.is_empty() {
        // An operator of another version makes other pods of the same fields.
        return "none of its fields".to_owned();
    }
    words.join(", ")
}

/// Names the variables that differ.
fn variables(old: Option<&Value>, new: Option<&Value>) -> String {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let (old, new) = (list(old), list(new));
    let only = |these: &[Value], those: &[Value]| -> Vec<String> {
        let others = these.iter().filter(|one| !those.contains(one));
        others
            .filter_map(|one| one["name"].as_str().map(str::to_owned))
            .collect()
    };
    let mut names = only(&old, &new);
    names.extend(only(&new, &old));
    names.sort();
    names.dedup();
    if names.is_empty() {
        "in another order".to_owned()
    } else {
        names.join(" ")
    }
}
