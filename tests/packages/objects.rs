//! Objects by kind and name, and the additions of each package.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::Value;

/// Objects, by `Kind namespace/name`.
pub type Objects = BTreeMap<String, Value>;

/// Parses documents of YAML. A duplicate object is an error.
pub fn read(yaml: &str) -> Objects {
    let mut objects = Objects::new();
    for document in serde_yaml::Deserializer::from_str(yaml) {
        let object = Value::deserialize(document).expect("a document of YAML");
        if object.is_null() {
            continue;
        }
        let name = name(&object);
        assert!(objects.insert(name.clone(), object).is_none(), "{name} is there twice");
    }
    objects
}

pub fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!(
        "{} {}/{}",
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

/// Removes entries from `metadata.labels` or `metadata.annotations`, all of which must exist.
#[track_caller]
pub fn take(object: &mut Value, map: &str, keys: &[&str]) {
    let name = name(object);
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    let entries = metadata
        .get_mut(map)
        .and_then(Value::as_object_mut)
        .unwrap_or_else(|| panic!("{name} has no {map}"));
    for key in keys {
        assert!(entries.remove(*key).is_some(), "{name} has no {key}");
    }
    if entries.is_empty() {
        metadata.remove(map);
    }
}

/// Compares two sets object by object, so that a failure shows the difference.
#[track_caller]
pub fn assert_same(found: &Objects, wanted: &Objects) {
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(wanted));
    for (name, object) in wanted {
        assert_eq!(&found[name], object, "{name}");
    }
}
