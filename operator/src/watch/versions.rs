//! The names and versions of the objects of a list, which the API server sends as protobuf, also of custom resources.

use serde::Deserialize;

use super::error::Error;
use super::event::PageMeta;
use crate::key::Key;
use crate::protobuf::{Answer, Message, metadata_descriptor};

/// What a client sends to get it.
pub(super) const ACCEPT: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A page of a list.
pub(super) struct VersionPage {
    pub(super) meta: PageMeta,
    /// The objects and their versions.
    pub(super) objects: Vec<(Key, String)>,
}

/// The part of the metadata that is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    name: &'a str,
    #[serde(default)]
    namespace: &'a str,
    resource_version: &'a str,
}

impl VersionPage {
    /// Parses an answer.
    ///
    /// # Errors
    /// When it is not protobuf, or the page has no version.
    pub(super) fn parse(answer: &[u8]) -> Result<Self, Error> {
        let answer = Answer::of(answer).ok_or_else(|| Error::new("the answer is not protobuf"))??;
        let (mut meta, mut objects) = (None::<PageMeta>, Vec::new());
        let read_meta = |page: Message<'_>| {
            meta = Some(page.read()?);
            Ok(())
        };
        answer.list(metadata_descriptor(), read_meta, |object| {
            object.messages(|_, metadata| {
                let head: Head<'_> = metadata.known().read()?;
                let key = Key::new(head.namespace, head.name);
                objects.push((key, head.resource_version.to_owned()));
                Ok(())
            })
        })?;
        let meta = meta.filter(|meta| !meta.resource_version.is_empty());
        let meta = meta.ok_or_else(|| Error::new("the list has no version"))?;
        Ok(Self { meta, objects })
    }
}

#[cfg(test)]
impl VersionPage {
    /// Returns an answer of an API server. No part of it may have more than 127 bytes.
    pub(super) fn answer(version: u64, token: &str, objects: &[(&str, u64)]) -> Vec<u8> {
        use crate::protobuf::tests::{answer_of, field};

        let number = |number: u64| if number == 0 { String::new() } else { number.to_string() };
        let meta = [field(2, number(version)), field(3, token)].concat();
        let item = |(name, version): &(&str, u64)| {
            let fields = [field(1, name), field(3, "shop"), field(6, number(*version))];
            field(2, field(1, fields.concat()))
        };
        let items = objects.iter().flat_map(item);
        answer_of(&field(1, meta).into_iter().chain(items).collect::<Vec<u8>>())
    }
}
