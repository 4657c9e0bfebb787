//! The structure of objects, as the API server merges and stores them. [`Digest`](crate::Digest) and
//! [`merged`](crate::merge::merged) follow it, so that an object lacks something exactly if a merge changes it.

use serde_json::{Map, Value};

use crate::quantity;

/// The fields of the metadata that users and managers own.
pub(crate) const METADATA: [&str; 3] = ["labels", "annotations", "ownerReferences"];

/// A value in an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    /// Null or an empty text: the API server does not store it.
    Nothing,
    /// A flag, a number or a text.
    Leaf(&'a Value),
    /// An amount of a resource, as the API server writes it: `0.5` comes back as `500m`.
    Quantity(String),
    /// Fields, each of which has its own owner.
    Fields(&'a Map<String, Value>),
    /// Fields that belong to one owner as a whole. A Service with one more label in its selector selects nothing, and a pod with
    /// one more label in its node selector has no node.
    Whole(&'a Map<String, Value>),
    /// A list that Kubernetes merges by a key. Each entry has its own owner, such as the sidecar of a mesh.
    Entries(Vec<(String, &'a Value)>),
    /// A list that belongs to one owner as a whole.
    List(&'a [Value]),
}

impl<'a> Node<'a> {
    /// Returns what the value at a path is.
    pub(crate) fn of(path: &str, value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Nothing,
            Value::String(text) if text.is_empty() => Self::Nothing,
            // A text that does not begin like a number is not an amount. To check this is faster than to search the path.
            Value::String(text) if text.starts_with(begins_number) && is_quantity(path) => {
                Self::Quantity(quantity::canonical(text))
            }
            Value::Number(number) if is_quantity(path) => Self::Quantity(quantity::canonical(&number.to_string())),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Self::Leaf(value),
            Value::Object(fields) if path == "spec.selector" || path.ends_with(".spec.nodeSelector") => {
                Self::Whole(fields)
            }
            Value::Object(fields) => Self::Fields(fields),
            Value::Array(items) => {
                let entries = items.iter().map(|item| Some((merge_key(item)?, item)));
                entries.collect::<Option<_>>().map_or(Self::List(items), Self::Entries)
            }
        }
    }
}

/// Returns the top-level fields that an owner sets, such as `spec`, or `data` of a ConfigMap.
pub(crate) fn content(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    const OTHERS: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| (name.as_str(), value));
    fields.filter(|(name, _)| !OTHERS.contains(name))
}

/// Returns the key by which Kubernetes merges the entries of a list. The key of a port is its number, and its
/// protocol if it is not TCP, but not its name: a port with a new number is a new entry, and the old one must be removed. In
/// the same way, the key of a mount is its path.
pub(crate) fn merge_key(item: &Value) -> Option<String> {
    let text = |key: &str| item.get(key)?.as_str().map(str::to_owned);
    let protocol = item
        .get("protocol")
        .and_then(Value::as_str)
        .filter(|protocol| *protocol != "TCP");
    let number = |key: &str| {
        let number = item.get(key)?.as_i64()?;
        Some(protocol.map_or_else(|| number.to_string(), |protocol| format!("{number}/{protocol}")))
    };
    text("uid")
        .or_else(|| text("mountPath"))
        .or_else(|| number("containerPort"))
        .or_else(|| number("port"))
        .or_else(|| text("name"))
}

/// Whether these are the fields of an environment variable without a value. The API server stores the empty value as no value.
pub(crate) fn is_empty_variable(path: &str, fields: &Map<String, Value>) -> bool {
    let is_variable = path.ends_with(']') && path.contains("].env[");
    is_variable && !fields.contains_key("valueFrom") && fields.get("value").is_none_or(|value| value == "")
}

/// Whether the order of the entries of a list matters although Kubernetes merges them by a key: init containers start in their
/// order.
pub(crate) fn is_ordered(path: &str) -> bool {
    path.ends_with("spec.initContainers")
}

/// Whether this is an `emptyDir`, whose presence matters even if it has no fields: a volume has only one source.
pub(crate) fn is_empty_dir(path: &str) -> bool {
    path.ends_with("].emptyDir")
}

/// Whether a value is empty. The API server does not store it, or adds it.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

const fn begins_number(first: char) -> bool {
    first.is_ascii_digit() || first == '.'
}

fn is_quantity(path: &str) -> bool {
    let is_metadata = || METADATA.iter().any(|field| path.starts_with(field));
    let is_amount = path.contains(".resources.limits.") || path.contains(".resources.requests.");
    (is_amount || path.ends_with("].emptyDir.sizeLimit")) && !is_metadata()
}
