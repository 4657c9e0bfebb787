//! Parses the events of a watch and the objects of a list, except for the specs and the statuses of the objects.

use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::key::Key;
use crate::reduced::Parts;

/// One event of a watch.
#[derive(Debug)]
pub enum Event<'a> {
    /// An object was created or changed.
    Changed(Object<'a>),
    /// An object was deleted, or has left the selection of the watch.
    Deleted(Object<'a>),
    /// The watch has reported everything up to this version.
    Bookmark(String),
    /// The watch ends with an error.
    Failed(Box<Status>),
}

/// An object of which only the metadata is parsed.
#[derive(Debug)]
pub struct Object<'a> {
    /// Its name.
    pub key: Key,
    /// Its `resourceVersion`.
    pub version: String,
    /// The object.
    pub parts: Parts<'a>,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub struct Page<'a> {
    /// Its metadata.
    pub metadata: PageMeta,
    /// Its objects.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// The metadata of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageMeta {
    /// The version of the list, which is that of all its pages.
    #[serde(default)]
    pub resource_version: String,
    /// The token of the next page.
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

impl Event<'_> {
    /// Parses a line of a watch.
    ///
    /// # Errors
    /// When it is not an event.
    pub fn parse(line: &[u8]) -> Result<Event<'_>, serde_json::Error> {
        let envelope: Envelope<'_> = serde_json::from_slice(line)?;
        let Some((kind, object)) = envelope.kind.zip(envelope.object) else {
            return not_an_event(line);
        };
        Ok(match &*kind {
            "ADDED" | "MODIFIED" => Event::Changed(Object::parse(object)?),
            "DELETED" => Event::Deleted(Object::parse(object)?),
            "BOOKMARK" => {
                let Head { metadata } = serde_json::from_str(object.get())?;
                Event::Bookmark(metadata.resource_version.unwrap_or_default())
            }
            _ => Event::Failed(serde_json::from_str(object.get())?),
        })
    }
}

impl<'a> Object<'a> {
    /// Reads the metadata of an object.
    ///
    /// # Errors
    /// When it is not an object of the API.
    pub fn parse(text: &'a RawValue) -> Result<Self, serde_json::Error> {
        let parts = Parts::parse(text)?;
        if parts.meta.name.is_none() {
            return Err(serde::de::Error::missing_field("name"));
        }
        Ok(Self {
            key: Key::of(&parts.meta),
            version: parts.meta.resource_version.clone().unwrap_or_default(),
            parts,
        })
    }
}

impl<'a> Page<'a> {
    /// Returns its objects.
    pub fn objects(&self) -> impl Iterator<Item = Result<Object<'a>, serde_json::Error>> {
        self.items.iter().flatten().map(|text| Object::parse(text))
    }

    /// Returns the token of the next page.
    pub fn next(&self) -> Option<&str> {
        self.metadata.token.as_deref().filter(|token| !token.is_empty())
    }
}

/// A proxy or an aggregated server may send a Status without the envelope of an event.
fn not_an_event(line: &[u8]) -> Result<Event<'_>, serde_json::Error> {
    let Bare { kind } = serde_json::from_slice(line)?;
    if kind == "Status" {
        return Ok(Event::Failed(serde_json::from_slice(line)?));
    }
    Err(serde::de::Error::custom(format_args!(
        "not an event of a watch, but a {kind}"
    )))
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Bare {
    kind: String,
}

#[derive(Deserialize)]
struct Head {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(line: &str) -> String {
        match Event::parse(line.as_bytes()) {
            Ok(Event::Changed(object)) => format!("changed {} {}", object.key, object.version),
            Ok(Event::Deleted(object)) => format!("deleted {} {}", object.key, object.version),
            Ok(Event::Bookmark(version)) => format!("bookmark {version}"),
            Ok(Event::Failed(status)) => format!("failed {} {}", status.code, status.message),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn events_are_parsed_by_type() {
        let object = json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"}});
        let of = |kind: &str| json!({"type": kind, "object": object}).to_string();
        assert_eq!(parsed(&of("ADDED")), "changed shop/web 7");
        assert_eq!(parsed(&of("MODIFIED")), "changed shop/web 7");
        assert_eq!(parsed(&of("DELETED")), "deleted shop/web 7");
        let class = json!({"type": "ADDED", "object": {"metadata": {"name": "nginx", "resourceVersion": "7"}}});
        assert_eq!(parsed(&class.to_string()), "changed /nginx 7");
        let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}});
        assert_eq!(parsed(&bookmark.to_string()), "bookmark 9");
    }

    #[test]
    fn status_is_an_error_with_and_without_an_envelope() {
        let status = json!({"kind": "Status", "status": "Failure", "code": 410, "message": "too old"});
        assert_eq!(parsed(&status.to_string()), "failed 410 too old");
        let event = json!({"type": "ERROR", "object": status});
        assert_eq!(parsed(&event.to_string()), "failed 410 too old");
    }

    #[test]
    fn other_lines_are_errors() {
        for line in [
            "",
            "<html>502</html>",
            "{}",
            r#"{"kind": "Pod"}"#,
            r#"{"type": "ADDED", "object": {}}"#,
            "[]",
        ] {
            assert!(parsed(line).starts_with("error: "), "{line}: {}", parsed(line));
        }
    }

    #[test]
    fn page_has_objects_and_the_token_of_the_next_page() {
        let page =
            |items, token| json!({"metadata": {"resourceVersion": "9", "continue": token}, "items": items}).to_string();
        let text = page(
            json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]),
            "more",
        );
        let first: Page<'_> = serde_json::from_str(&text).unwrap();
        let names: Vec<String> = first.objects().map(|object| object.unwrap().key.name.into()).collect();
        assert_eq!(
            (names, first.next()),
            (vec!["a".to_owned(), "b".to_owned()], Some("more"))
        );
        assert_eq!(first.metadata.resource_version, "9");
        let text = page(json!(null), "");
        let last: Page<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!((last.objects().count(), last.next()), (0, None));
    }
}
