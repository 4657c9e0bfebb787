//! What an observer has seen of one run: every version of every object that it was told of.

use std::collections::BTreeMap;

use serde_json::Value;

/// One version of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The resource, in the plural.
    pub resource: &'static str,
    /// The object.
    pub object: Value,
    /// Whether it is the last there was of it.
    pub gone: bool,
}

impl Seen {
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

    /// Returns what to call the object in every run: by what its name was made from, if the API server made it.
    #[must_use]
    pub fn title(&self) -> String {
        let made_from = text(&self.object, "/metadata/generateName");
        match made_from {
            "" => format!("{}/{}", self.resource, self.name()),
            prefix => format!("{}/{prefix}*", self.resource),
        }
    }

    /// Returns the place of this version among those of all objects: etcd has one order for them.
    #[must_use]
    pub fn version(&self) -> u64 {
        version(&self.object)
    }

    /// Returns the references to controllers, of which there should be one at most.
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

/// Returns the text that a JSON pointer leads to, empty if there is none.
#[must_use]
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the version of an object as a number.
#[must_use]
pub fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}

/// Returns the newest version of each object that is there, by UID.
#[must_use]
pub fn living(history: &[Seen]) -> BTreeMap<&str, &Seen> {
    let mut living = BTreeMap::new();
    for seen in history {
        if seen.gone {
            living.remove(seen.uid());
        } else {
            living.insert(seen.uid(), seen);
        }
    }
    living
}

/// How often an object of a title was created, and how often deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lives {
    /// How many objects there were.
    pub created: usize,
    /// How many of them are gone.
    pub deleted: usize,
}

/// Returns the lives of all objects, by their titles.
#[must_use]
pub fn lives(history: &[Seen]) -> BTreeMap<String, Lives> {
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    let mut lives: BTreeMap<String, Lives> = BTreeMap::new();
    for seen in history {
        let of_title = lives.entry(seen.title()).or_default();
        let was_gone = known.insert(seen.uid(), seen.gone);
        of_title.created += usize::from(was_gone.is_none());
        of_title.deleted += usize::from(seen.gone && was_gone != Some(true));
    }
    lives
}
