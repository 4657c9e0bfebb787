//! Parses the events of a watch and the objects of a list, except for the specs and the statuses of the objects.

use std::fmt;

use kube::core::Status;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::key::Key;
use crate::protobuf::{self, Answer, Descriptor};
use crate::reduced::{Name, Parts};

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

impl PageMeta {
    /// Returns the token of the next page.
    pub fn next(&self) -> Option<&str> {
        self.token.as_deref().filter(|token| !token.is_empty())
    }
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

impl<'a> Event<'a> {
    /// Parses an event in protobuf.
    ///
    /// # Errors
    /// When it is not an event, or has an object that can't be read.
    pub fn parse_message(event: &'a [u8], descriptor: &'static Descriptor) -> Result<Self, protobuf::Error> {
        let (kind, object) = protobuf::event(event)?;
        let parts = || Parts::of_message(object.object(descriptor));
        Ok(match kind {
            "ADDED" | "MODIFIED" => Event::Changed(Object::of(parts()?)?),
            "DELETED" => Event::Deleted(Object::of(parts()?)?),
            "BOOKMARK" => Event::Bookmark(parts()?.meta.resource_version.unwrap_or_default()),
            _ => Event::Failed(Box::new(object.status()?)),
        })
    }
}

impl<'a> Object<'a> {
    /// Reads the metadata of an object.
    ///
    /// # Errors
    /// When it is not an object of the API.
    pub fn parse(text: &'a RawValue) -> Result<Self, serde_json::Error> {
        Self::of(Parts::parse(text)?)
    }

    fn of<E: serde::de::Error>(parts: Parts<'a>) -> Result<Self, E> {
        if parts.meta.name.is_none() {
            return Err(E::missing_field("name"));
        }
        Ok(Self {
            key: Key::of(&parts.meta),
            version: parts.meta.resource_version.clone().unwrap_or_default(),
            parts,
        })
    }
}

/// Parses a page of a list, and returns its metadata. `begin` receives the metadata, and `each` one object after the other: an API
/// server sends the metadata first, and no object has to be kept until the end of the page.
///
/// # Errors
/// When the text is not a list. Some of its objects may have been received.
pub fn read_page(
    text: &[u8],
    begin: impl FnMut(&PageMeta),
    each: impl FnMut(Object<'_>),
) -> Result<PageMeta, serde_json::Error> {
    let mut text = serde_json::Deserializer::from_slice(text);
    let meta = text.deserialize_map(PageVisitor { begin, each })?;
    text.end()?;
    Ok(meta)
}

/// Parses a page of a list in protobuf, like [`read_page`].
///
/// # Errors
/// When it is not a list, or has an object that can't be read.
pub fn read_message_page(
    page: Answer<'_>,
    descriptor: &'static Descriptor,
    mut begin: impl FnMut(&PageMeta),
    mut each: impl FnMut(Object<'_>),
) -> Result<PageMeta, protobuf::Error> {
    let mut meta = None;
    page.list(
        descriptor,
        |list| {
            begin(meta.insert(list.read()?));
            Ok(())
        },
        |object| {
            each(Object::of(Parts::of_message(object)?)?);
            Ok(())
        },
    )?;
    meta.ok_or_else(|| protobuf::Error::missing_field("metadata"))
}

struct PageVisitor<B, E> {
    begin: B,
    each: E,
}

impl<'de, B: FnMut(&PageMeta), E: FnMut(Object<'de>)> Visitor<'de> for PageVisitor<B, E> {
    type Value = PageMeta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<PageMeta, A::Error> {
        let mut meta = None;
        while let Some(Name(name)) = fields.next_key()? {
            match &*name {
                "metadata" => (self.begin)(meta.insert(fields.next_value()?)),
                "items" => fields.next_value_seed(Items(&mut self.each))?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        meta.ok_or_else(|| A::Error::missing_field("metadata"))
    }
}

/// The objects of a page, or null if there are none.
struct Items<'a, E>(&'a mut E);

impl<'de, E: FnMut(Object<'de>)> DeserializeSeed<'de> for Items<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_any(self)
    }
}

impl<'de, E: FnMut(Object<'de>)> Visitor<'de> for Items<'_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<X>(self) -> Result<(), X> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(parts) = items.next_element()? {
            (self.0)(Object::of(parts)?);
        }
        Ok(())
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
    use crate::protobuf::tests::{UNKNOWN_FIELD, answer_of, field};

    fn parsed(line: &str) -> String {
        shown(Event::parse(line.as_bytes()))
    }

    fn shown<E: fmt::Display>(event: Result<Event<'_>, E>) -> String {
        match event {
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
    fn events_in_protobuf_are_parsed_by_type() {
        let meta = [field(1, "web"), field(3, "shop"), field(6, "7")].concat();
        let object = [field(1, meta), field(2, "")].concat();
        let status = [field(2, "Failure"), field(3, "too old"), vec![6 << 3, 0x9a, 3]].concat();
        let event = |kind: &str, object: &[u8]| [field(1, kind), field(2, field(1, answer_of(object)))].concat();
        let service = protobuf::descriptor("", "Service").unwrap();
        let parsed = |event: &[u8]| shown(Event::parse_message(event, service));
        assert_eq!(parsed(&event("ADDED", &object)), "changed shop/web 7");
        assert_eq!(parsed(&event("MODIFIED", &object)), "changed shop/web 7");
        assert_eq!(parsed(&event("DELETED", &object)), "deleted shop/web 7");
        assert_eq!(parsed(&event("BOOKMARK", &field(1, field(6, "9")))), "bookmark 9");
        assert_eq!(parsed(&event("ERROR", &status)), "failed 410 too old");
        for broken in [&b""[..], b"{}", &event("ADDED", b""), &event("ADDED", &UNKNOWN_FIELD)] {
            assert!(parsed(broken).starts_with("error: "), "{broken:?}: {}", parsed(broken));
        }
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
        let read = |text: &str| {
            let (mut names, mut tokens) = (Vec::new(), Vec::new());
            let page = read_page(
                text.as_bytes(),
                |page| tokens.push(page.next().map(ToOwned::to_owned)),
                |object| names.push(object.key.name.to_string()),
            );
            (names, tokens, page.map(|page| page.resource_version).ok())
        };
        let version = Some("9".to_owned());
        let (names, tokens) = (vec!["a".to_owned(), "b".to_owned()], vec![Some("more".to_owned())]);
        assert_eq!(read(&text), (names, tokens, version.clone()));
        assert_eq!(read(&page(json!(null), "")), (Vec::new(), vec![None], version));
        for broken in ["{}", "[]", &text[..text.len() - 1], &page(json!([{}]), "")] {
            assert_eq!(read(broken).2, None, "{broken}");
        }
    }
}
