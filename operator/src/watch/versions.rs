//! The names and versions of the objects of a list, which the API server sends as protobuf.
//!
//! Of each message, only the fields that are read are declared; others are skipped. The numbers of the fields are those of
//! `k8s.io/apimachinery` (`runtime/generated.proto`, `meta/v1/generated.proto`), which never change.

use hyper::body::Bytes;
use prost::Message;

use super::error::Error;
use crate::key::Key;

/// What a client sends to get it.
pub(super) const ACCEPT: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The start of each answer in protobuf.
const MAGIC: &[u8] = b"k8s\0";

/// A page of a list.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionPage {
    #[prost(message, optional, tag = "1")]
    meta: Option<PageMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<Object>,
}

#[derive(Clone, PartialEq, Message)]
struct PageMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    /// The token of the next page.
    #[prost(string, tag = "3")]
    token: String,
}

#[derive(Clone, PartialEq, Message)]
struct Object {
    #[prost(message, optional, tag = "1")]
    meta: Option<ObjectMeta>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "6")]
    resource_version: String,
}

/// Wraps each answer.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

impl VersionPage {
    /// Parses an answer.
    ///
    /// # Errors
    /// When it is not protobuf, or the page has no version.
    pub(super) fn parse(mut answer: Bytes) -> Result<Self, Error> {
        if !answer.starts_with(MAGIC) {
            return Err(Error::new("the answer is not protobuf"));
        }
        let page = Envelope::decode(answer.split_off(MAGIC.len())).and_then(|envelope| Self::decode(envelope.raw));
        let page = page.map_err(|error| Error::of(&error))?;
        if page.version().is_empty() {
            return Err(Error::new("the list has no version"));
        }
        Ok(page)
    }

    /// Returns the version of the list, which is that of all its pages.
    pub(super) fn version(&self) -> &str {
        self.meta.as_ref().map_or("", |meta| &meta.resource_version)
    }

    /// Returns the token of the next page.
    pub(super) fn next(&self) -> Option<&str> {
        let token = self.meta.as_ref().map(|meta| &*meta.token);
        token.filter(|token| !token.is_empty())
    }

    /// Returns the objects and their versions.
    pub(super) fn objects(&self) -> impl Iterator<Item = (Key, &str)> {
        let metas = self.items.iter().filter_map(|object| object.meta.as_ref());
        metas.map(|meta| (Key::new(&meta.namespace, &meta.name), &*meta.resource_version))
    }
}

#[cfg(test)]
impl VersionPage {
    /// Returns an answer of an API server.
    pub(super) fn answer(version: u64, token: &str, objects: &[(&str, u64)]) -> Vec<u8> {
        let item = |(name, version): &(&str, u64)| Object {
            meta: Some(ObjectMeta {
                name: (*name).to_owned(),
                namespace: "shop".to_owned(),
                resource_version: version.to_string(),
            }),
        };
        let page = Self {
            meta: Some(PageMeta {
                resource_version: if version == 0 {
                    String::new()
                } else {
                    version.to_string()
                },
                token: token.to_owned(),
            }),
            items: objects.iter().map(item).collect(),
        };
        let raw = page.encode_to_vec().into();
        [MAGIC, &Envelope { raw }.encode_to_vec()].concat()
    }
}
