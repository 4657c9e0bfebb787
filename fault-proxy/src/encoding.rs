//! The encodings of the events of a watch.

use serde_json::Value;

/// What rules select events by.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The type of the event.
    pub(crate) kind: String,
    /// The name of the object.
    pub(crate) name: String,
}

/// How the events of a watch are encoded.
#[derive(Clone, Copy)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// Returns how many bytes the first event has, with its line end or its length, if all of it has arrived.
    pub(crate) fn find(self, pending: &[u8]) -> Option<usize> {
        match self {
            Self::Json => Some(pending.iter().position(|byte| *byte == b'\n')? + 1),
            Self::Protobuf => {
                let (length, rest) = pending.split_first_chunk::<4>()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                (rest.len() >= length).then_some(4 + length)
            }
        }
    }

    /// Reads such an event. One that can't be read has no type and no name.
    pub(crate) fn head(self, event: &[u8]) -> Head {
        match self {
            Self::Json => {
                let event: Value = serde_json::from_slice(event).unwrap_or_default();
                let text = |pointer: &str| {
                    event
                        .pointer(pointer)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned()
                };
                Head {
                    kind: text("/type"),
                    name: text("/object/metadata/name"),
                }
            }
            Self::Protobuf => message::head(event.get(4..).unwrap_or_default()).unwrap_or_default(),
        }
    }
}

/// The messages of `k8s.io/apimachinery` that an event consists of, with the fields that are read.
mod message {
    use hyper::body::Bytes;
    use prost::{DecodeError, Message};

    use super::Head;

    /// `WatchEvent` of `meta/v1`.
    #[derive(Clone, PartialEq, Message)]
    struct Event {
        #[prost(string, tag = "1")]
        kind: String,
        #[prost(message, optional, tag = "2")]
        object: Option<Raw>,
    }

    /// `RawExtension` of `runtime`: an envelope after the four bytes with which each begins.
    #[derive(Clone, PartialEq, Message)]
    struct Raw {
        #[prost(bytes = "bytes", tag = "1")]
        envelope: Bytes,
    }

    /// `Unknown` of `runtime`.
    #[derive(Clone, PartialEq, Message)]
    struct Envelope {
        #[prost(bytes = "bytes", tag = "2")]
        object: Bytes,
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
    }

    pub(super) fn head(event: &[u8]) -> Result<Head, DecodeError> {
        let event = Event::decode(event)?;
        let mut head = Head {
            kind: event.kind,
            name: String::new(),
        };
        // An error is a Status, whose metadata has no name.
        if head.kind != "ERROR" {
            let raw = event.object.unwrap_or_default().envelope;
            let envelope = Envelope::decode(raw.get(4..).unwrap_or_default())?;
            head.name = Object::decode(envelope.object)?.meta.unwrap_or_default().name;
        }
        Ok(head)
    }
}
