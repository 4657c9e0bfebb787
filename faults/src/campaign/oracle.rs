//! The outcome of a run, with values that are the same in equal runs; and the differences to another outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::history::{Churn, ObjectVersion, churn, existing, text};

/// The outcome of a run: each field of each object, and how often each object was created and deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    fields: BTreeMap<String, String>,
    churn: BTreeMap<String, Churn>,
}

impl Outcome {
    /// Computes it from the history of the run in `namespace`.
    #[must_use]
    pub fn of(history: &[ObjectVersion], namespace: &str) -> Self {
        let mut phrases: BTreeMap<&str, String> = BTreeMap::new();
        for seen in history {
            phrases.insert(seen.uid(), format!("the uid of deleted {}", seen.title()));
        }
        let mut same: BTreeMap<String, usize> = BTreeMap::new();
        let mut alive: Vec<&ObjectVersion> = existing(history).into_values().collect();
        alive.sort_by_key(|seen| seen.name());
        let alive: Vec<(String, &ObjectVersion)> = alive
            .into_iter()
            .map(|seen| {
                let title = seen.title();
                let number = same.entry(title.clone()).or_default();
                *number += 1;
                let title = if *number == 1 {
                    title
                } else {
                    format!("{title} {number}")
                };
                phrases.insert(seen.uid(), format!("the uid of {title}"));
                // The address that a node assigns to a pod depends on other pods. Fault-free runs may common_outcome by chance.
                let address = text(&seen.object, "/status/podIP");
                if !address.is_empty() {
                    phrases.insert(address, format!("the address of {title}"));
                }
                (title, seen)
            })
            .collect();
        let words = Words { namespace, phrases };
        let mut fields = BTreeMap::new();
        for (title, seen) in &alive {
            flatten(&seen.object, title, &words, &mut fields);
        }
        Self {
            fields,
            churn: churn(history),
        }
    }
}

/// Replaces values that differ in each run by fixed words.
struct Words<'a> {
    namespace: &'a str,
    phrases: BTreeMap<&'a str, String>,
}

impl Words<'_> {
    fn say(&self, text: &str) -> String {
        match self.phrases.get(text) {
            Some(phrase) => phrase.clone(),
            None => text.replace(self.namespace, "NAMESPACE"),
        }
    }
}

fn flatten(value: &Value, path: &str, words: &Words<'_>, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let path = format!("{path}.{key}");
                // A record of what the operator has observed: an operator that was down has observed less.
                if !path.ends_with(".status.revisions") {
                    flatten(value, &path, words, fields);
                }
            }
        }
        Value::Array(array) => {
            let mut same: BTreeMap<String, usize> = BTreeMap::new();
            for value in array {
                // The order of a list is ignored if its items have a key.
                let key = key_of(value);
                let number = same.entry(key.clone()).or_default();
                *number += 1;
                let place = format!("{key} {number}");
                flatten(value, &format!("{path}[{}]", place.trim()), words, fields);
            }
        }
        Value::String(text) => {
            fields.insert(path.to_owned(), words.say(text));
        }
        scalar => {
            fields.insert(path.to_owned(), scalar.to_string());
        }
    }
}

/// Returns the key of an item of a list; empty if only its index identifies it.
fn key_of(item: &Value) -> String {
    let keys = ["name", "type", "manager", "operation", "subresource"];
    let words: Vec<&str> = keys.iter().filter_map(|key| item.get(key)?.as_str()).collect();
    words.join(" ")
}

/// The common outcome of fault-free runs.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    outcome: Outcome,
    /// The fields that differ between them, which are ignored.
    varying: BTreeSet<String>,
}

impl Expected {
    /// Compares fault-free runs.
    ///
    /// # Errors
    /// When they differ in how often something was created or deleted: such a scenario can't be compared.
    pub fn of(outcomes: &[Outcome]) -> Result<Self, Vec<Difference>> {
        let Some((first, others)) = outcomes.split_first() else {
            return Ok(Self::default());
        };
        let mut expected = Self {
            outcome: first.clone(),
            varying: BTreeSet::new(),
        };
        for other in others {
            let differences = expected.differences(other);
            let (churn, fields): (Vec<_>, Vec<_>) = differences.into_iter().partition(|difference| difference.is_churn);
            if !churn.is_empty() {
                return Err(churn);
            }
            expected
                .varying
                .extend(fields.into_iter().map(|difference| difference.what));
        }
        Ok(expected)
    }

    /// Returns the differences to an outcome.
    #[must_use]
    pub fn differences(&self, outcome: &Outcome) -> Vec<Difference> {
        let fields = compare(&self.outcome.fields, &outcome.fields, false);
        let fields = fields.filter(|difference| !self.varying.contains(&difference.what));
        fields
            .chain(compare(&self.outcome.churn, &outcome.churn, true))
            .collect()
    }

    /// Returns how many fields are compared, and how many are ignored because they differ between runs.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.outcome.fields.len(), self.varying.len())
    }
}

/// A difference to the fault-free runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The field, or the object.
    pub what: String,
    /// The expected value; `None` if there should be none.
    pub expected: Option<String>,
    /// The actual value.
    pub found: Option<String>,
    /// Whether it is about how often an object was created and deleted.
    is_churn: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let say = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(
            out,
            "{}: expected {}, found {}",
            self.what,
            say(&self.expected),
            say(&self.found)
        )
    }
}

impl fmt::Display for Churn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} created and {} deleted", self.created, self.deleted)
    }
}

fn compare<'a, T: PartialEq + ToString>(
    expected: &'a BTreeMap<String, T>,
    found: &'a BTreeMap<String, T>,
    is_churn: bool,
) -> impl Iterator<Item = Difference> + 'a {
    let all: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let differing = all.into_iter().filter(|key| expected.get(*key) != found.get(*key));
    differing.map(move |key| Difference {
        what: key.clone(),
        expected: expected.get(key).map(ToString::to_string),
        found: found.get(key).map(ToString::to_string),
        is_churn,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(name: &str, uid: &str, spec: Value) -> ObjectVersion {
        ObjectVersion {
            resource: "services",
            object: json!({"metadata": {"name": name, "uid": uid, "namespace": "run-1"}, "spec": spec}),
            deleted: false,
        }
    }

    fn deleted(seen: &ObjectVersion) -> ObjectVersion {
        ObjectVersion {
            deleted: true,
            ..seen.clone()
        }
    }

    fn said(differences: &[Difference]) -> Vec<String> {
        differences.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn runs_that_differ_in_names_are_equal() {
        let one = Outcome::of(&[seen("web", "a", json!({"host": "web.run-1", "owner": "a"}))], "run-1");
        let mut other = seen("web", "b", json!({"host": "web.run-2", "owner": "b"}));
        other.object["metadata"]["namespace"] = json!("run-2");
        assert_eq!(one, Outcome::of(&[other], "run-2"));
    }

    #[test]
    fn pod_addresses_are_compared_by_presence_only() {
        let run = |address: &str, second: &str| {
            let mut pod = seen("web", "a", json!({}));
            pod.object["status"] = json!({"podIP": address, "podIPs": [{"ip": second}]});
            Outcome::of(&[pod], "run-1")
        };
        assert_eq!(run("10.0.0.1", "10.0.0.1"), run("10.0.0.6", "10.0.0.6"));
        assert_ne!(run("10.0.0.1", "10.0.0.1"), run("10.0.0.6", "10.0.0.1"));
    }

    #[test]
    fn fields_that_differ_between_runs_are_ignored() {
        let run = |ip: &str, port: u16| Outcome::of(&[seen("web", "a", json!({"ip": ip, "port": port}))], "run-1");
        let expected = Expected::of(&[run("1", 80), run("2", 80)]).unwrap();
        assert_eq!(said(&expected.differences(&run("3", 80))), [""; 0]);
        assert_eq!(
            said(&expected.differences(&run("3", 81))),
            ["services/web.spec.port: expected 80, found 81"]
        );
        assert_eq!(expected.size(), (5, 1));
    }

    #[test]
    fn object_that_was_created_twice_is_a_difference() {
        let web = seen("web", "a", json!({}));
        let again = seen("web", "b", json!({}));
        let expected = Expected::of(&[Outcome::of(std::slice::from_ref(&web), "run-1")]).unwrap();
        let outcome = Outcome::of(&[web.clone(), deleted(&web), again], "run-1");
        assert_eq!(
            said(&expected.differences(&outcome)),
            ["services/web: expected 1 created and 0 deleted, found 2 created and 1 deleted"]
        );
    }

    #[test]
    fn deleted_owner_differs_from_an_existing_one() {
        let (owner, child) = (seen("web", "a", json!({})), seen("child", "c", json!({"owner": "a"})));
        let expected = Expected::of(&[Outcome::of(&[owner.clone(), child.clone()], "run-1")]).unwrap();
        let again = seen("web", "b", json!({}));
        let outcome = Outcome::of(&[owner.clone(), child, deleted(&owner), again], "run-1");
        assert_eq!(
            said(&expected.differences(&outcome))[0],
            "services/child.spec.owner: expected the uid of services/web, found the uid of deleted services/web"
        );
    }

    #[test]
    fn list_items_are_compared_by_name() {
        let run = |order: [&str; 2]| {
            let conditions = order.map(|kind| json!({"type": kind, "status": "True"}));
            Outcome::of(&[seen("web", "a", json!({"conditions": conditions}))], "run-1")
        };
        assert_eq!(run(["Ready", "Exposed"]), run(["Exposed", "Ready"]));
    }

    #[test]
    fn runs_that_create_different_objects_have_no_common_outcome() {
        let one = Outcome::of(&[seen("web", "a", json!({}))], "run-1");
        let none = Outcome::of(&[], "run-1");
        assert_eq!(
            said(&Expected::of(&[one, none]).unwrap_err()),
            ["services/web: expected 1 created and 0 deleted, found nothing"]
        );
    }
}
