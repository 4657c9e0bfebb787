//! The history of one run: every version of every object that the observer received.

use std::collections::BTreeMap;

use serde_json::Value;

/// One version of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectVersion {
    /// The resource, in the plural, such as `services`.
    pub resource: &'static str,
    /// The object.
    pub object: Value,
    /// Whether this is the last version, before the deletion.
    pub deleted: bool,
}

impl ObjectVersion {
    /// Returns the object's UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        text(&self.object, "/metadata/uid")
    }

    /// Returns the object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        text(&self.object, "/metadata/name")
    }

    /// Returns a title that is the same in every run: the prefix of the name, if the API server generated it.
    #[must_use]
    pub fn title(&self) -> String {
        let made_from = text(&self.object, "/metadata/generateName");
        match made_from {
            "" => format!("{}/{}", self.resource, self.name()),
            prefix => format!("{}/{prefix}*", self.resource),
        }
    }

    /// Returns the resource version as a number: etcd orders the versions of all objects.
    #[must_use]
    pub fn version(&self) -> u64 {
        version(&self.object)
    }

    /// Returns the references to controllers, of which there should be at most one.
    #[must_use]
    pub fn controllers(&self) -> Vec<&Value> {
        let references = self
            .object
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let references = references.into_iter().flatten();
        references.filter(|reference| reference["controller"] == true).collect()
    }
}

/// Returns the string at a JSON pointer, empty if there is none.
#[must_use]
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the resource version of an object as a number.
#[must_use]
pub fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}

/// Returns the newest version of each existing object, by UID.
#[must_use]
pub fn existing(history: &[ObjectVersion]) -> BTreeMap<&str, &ObjectVersion> {
    let mut existing = BTreeMap::new();
    for seen in history {
        if seen.deleted {
            existing.remove(seen.uid());
        } else {
            existing.insert(seen.uid(), seen);
        }
    }
    existing
}

/// How often objects with a title were created and deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Churn {
    /// Number of objects.
    pub created: usize,
    /// Number of deleted objects.
    pub deleted: usize,
}

/// Returns how often objects were created and deleted, by their titles.
#[must_use]
pub fn churn(history: &[ObjectVersion]) -> BTreeMap<String, Churn> {
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    let mut churn: BTreeMap<String, Churn> = BTreeMap::new();
    for seen in history {
        let of_title = churn.entry(seen.title()).or_default();
        let was_deleted = known.insert(seen.uid(), seen.deleted);
        of_title.created += usize::from(was_deleted.is_none());
        of_title.deleted += usize::from(seen.deleted && was_deleted != Some(true));
    }
    churn
}
