//! Reads objects of Kubernetes as protobuf, which the API server encodes in less time than JSON, and which is parsed in less.
//!
//! The types of k8s-openapi have no protobuf. So this reads a message by the table of its fields in [`fields`] and presents it to
//! serde as the JSON that the API server would have sent: whatever is read from JSON is read from protobuf, too. An object with a
//! field that the table does not have, of a newer Kubernetes, is an error: it is then requested as JSON.

mod fields;
mod message;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};

use kube::core::Status;
use tracing::warn;

pub use message::{Descriptor, Message};
pub(crate) use wire::Error;
use wire::Value;

/// The start of the content type of an answer.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The header `Accept`: protobuf, or JSON from a server that does not send it.
pub(crate) const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json";

/// The start of each answer in protobuf.
const MAGIC: &[u8] = b"k8s\0";

/// Returns the descriptor of a kind that is read as protobuf; `None` for others.
#[must_use]
pub fn descriptor(group: &str, kind: &str) -> Option<&'static Descriptor> {
    match (group, kind) {
        ("apps", "Deployment") => Some(&fields::DEPLOYMENT),
        ("networking.k8s.io", "Ingress") => Some(&fields::INGRESS),
        ("", "Service") => Some(&fields::SERVICE),
        ("", "ServiceAccount") => Some(&fields::SERVICE_ACCOUNT),
        _ => None,
    }
}

/// Returns the descriptor of an object of which the API server sends only the metadata.
pub(crate) const fn metadata_descriptor() -> &'static Descriptor {
    &fields::PARTIAL_OBJECT_METADATA
}

/// How the objects of a kind are requested: as protobuf, until one can't be read.
#[derive(Debug, Default)]
pub struct Encoding {
    is_json: AtomicBool,
}

impl Encoding {
    /// Returns the descriptor that it was given, unless JSON is to be requested.
    pub(crate) fn descriptor(&self, of: Option<&'static Descriptor>) -> Option<&'static Descriptor> {
        of.filter(|_| !self.is_json.load(Ordering::Relaxed))
    }

    /// Requests JSON from now on, since an object can't be read as protobuf.
    pub(crate) fn fall_back(&self, resource: &'static str, error: &Error) {
        if !self.is_json.swap(true, Ordering::Relaxed) {
            let error = error.to_string();
            warn!(
                resource,
                error, "an object can't be read as protobuf; requesting JSON from now on"
            );
        }
    }
}

/// An answer in protobuf, without its envelope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    /// The kind that it names.
    pub(crate) kind: &'a str,
    raw: &'a [u8],
}

/// Reads an event of a watch, the message `WatchEvent` of `k8s.io/apimachinery/pkg/apis/meta/v1`: its type and its object.
pub(crate) fn event(event: &[u8]) -> Result<(&str, Answer<'_>), Error> {
    let (mut kind, mut object) = ("", &[][..]);
    wire::each(event, |number, value| {
        match number {
            1 => kind = value.text()?,
            2 => wire::each(value.bytes()?, |_, value| value.bytes().map(|raw| object = raw))?,
            _ => return Err(Error::UnknownField("WatchEvent", number)),
        }
        Ok(())
    })?;
    let object = Answer::of(object).ok_or(Error::Malformed)??;
    Ok((kind, object))
}

impl<'a> Answer<'a> {
    /// Reads the envelope of an answer; `None` if it is not protobuf.
    pub(crate) fn of(answer: &'a [u8]) -> Option<Result<Self, Error>> {
        Some(Self::open(answer.strip_prefix(MAGIC)?))
    }

    /// Reads an envelope, the message `Unknown` of `k8s.io/apimachinery/pkg/runtime`.
    fn open(envelope: &'a [u8]) -> Result<Self, Error> {
        let mut answer = Self { kind: "", raw: &[] };
        wire::each(envelope, |number, value| {
            match number {
                1 => wire::each(value.bytes()?, |number, value| {
                    if number == 2 {
                        answer.kind = value.text()?;
                    }
                    Ok(())
                })?,
                2 => answer.raw = value.bytes()?,
                // The encoding and the content type, which are empty.
                _ => {}
            }
            Ok(())
        })?;
        Ok(answer)
    }

    /// Returns the object.
    pub(crate) const fn object(self, descriptor: &'static Descriptor) -> Message<'a> {
        Message::new(self.raw, descriptor)
    }

    /// Reads a list. `begin` receives its metadata, and `each` one object after the other.
    pub(crate) fn list(
        self,
        descriptor: &'static Descriptor,
        mut begin: impl FnMut(Message<'a>) -> Result<(), Error>,
        mut each: impl FnMut(Message<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        wire::each(self.raw, |number, value| match (number, value) {
            (1, Value::Bytes(meta)) => begin(Message::new(meta, &fields::LIST_META).known()),
            (2, Value::Bytes(object)) => each(Message::new(object, descriptor)),
            _ => Err(Error::UnknownField("the list", number)),
        })
    }

    /// Reads the Status of an error. Nothing is written because of a field that a newer Kubernetes may have added.
    pub(crate) fn status(self) -> Result<Status, Error> {
        self.object(&fields::STATUS).known().read()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::api::apps::v1::Deployment;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, from_value, json};

    use super::*;

    /// An object as Kubernetes writes it.
    #[derive(serde::Deserialize)]
    pub(crate) struct Example {
        pub(crate) kind: String,
        protobuf: ByteString,
        pub(crate) json: Value,
    }

    impl Example {
        pub(crate) fn message(&self) -> Message<'_> {
            Message::new(&self.protobuf.0, descriptor_of(&self.kind))
        }
    }

    /// Encodes a field whose value is bytes, at most 127.
    pub(crate) fn field(number: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
        let value = value.as_ref();
        [&[number << 3 | 2, u8::try_from(value.len()).unwrap()], value].concat()
    }

    /// Encodes an answer.
    pub(crate) fn answer_of(object: &[u8]) -> Vec<u8> {
        [MAGIC, &field(2, object)].concat()
    }

    /// A field that no message has.
    pub(crate) const UNKNOWN_FIELD: [u8; 3] = [0xf8, 0x07, 1];

    pub(crate) fn examples() -> Vec<Example> {
        serde_json::from_str(include_str!("protobuf/examples.json")).unwrap()
    }

    fn descriptor_of(kind: &str) -> &'static Descriptor {
        let groups = ["", "apps", "networking.k8s.io"];
        match kind {
            "Status" => &fields::STATUS,
            "PartialObjectMetadata" => metadata_descriptor(),
            _ => groups.iter().find_map(|group| descriptor(group, kind)).unwrap(),
        }
    }

    /// Removes what is not read.
    fn trim(value: &mut Value) {
        match value {
            Value::Object(all) => {
                all.remove("fieldsV1");
                all.retain(|_, value| !value.is_null());
                all.values_mut().for_each(trim);
            }
            Value::Array(all) => all.iter_mut().for_each(trim),
            _ => {}
        }
    }

    fn decoded<T: DeserializeOwned>(example: &Example) -> Result<T, Error> {
        example.message().read()
    }

    #[test]
    fn every_field_is_read_as_from_json() {
        let mut kinds = Vec::new();
        for mut example in examples() {
            trim(&mut example.json);
            let read: Value = decoded(&example).unwrap();
            assert_eq!(read, example.json, "{}", example.kind);
            kinds.push(example.kind);
        }
        kinds.dedup();
        let all = [
            "Deployment",
            "Service",
            "ServiceAccount",
            "Ingress",
            "Status",
            "PartialObjectMetadata",
        ];
        assert_eq!(kinds, all);
    }

    #[test]
    fn types_of_the_api_are_read_as_from_json() {
        for mut example in examples().into_iter().filter(|example| example.kind == "Deployment") {
            trim(&mut example.json);
            let from_json: Deployment = from_value(example.json.clone()).unwrap();
            assert_eq!(decoded::<Deployment>(&example).unwrap(), from_json);
        }
    }

    /// Whatever is cut, added or changed in a message, it is read or refused.
    #[test]
    fn broken_message_is_refused() {
        let whole = examples().into_iter().max_by_key(|one| one.protobuf.0.len()).unwrap();
        let mut refused = 0;
        for at in 0..whole.protobuf.0.len() {
            let mut broken = whole.protobuf.0.clone();
            if at % 2 == 0 {
                broken.truncate(at);
            } else {
                broken[at] ^= 0xff;
            }
            let example = Example {
                protobuf: ByteString(broken),
                kind: whole.kind.clone(),
                json: Value::Null,
            };
            refused += u32::from(decoded::<Deployment>(&example).is_err());
        }
        assert!(refused > 5000, "{refused}");
    }

    fn service(bytes: &[u8]) -> Result<Value, Error> {
        Message::new(bytes, descriptor_of("Service")).read()
    }

    #[test]
    fn message_of_a_newer_kubernetes_is_refused() {
        let (metadata, spec) = (field(1, ""), field(2, ""));
        assert_eq!(service(&spec).unwrap(), json!({"spec": {}}));
        let error = service(&field(2, UNKNOWN_FIELD)).unwrap_err();
        assert!(matches!(error, Error::UnknownField("ServiceSpec", 127)), "{error}");
        let error = service(&[&spec[..], &metadata].concat()).unwrap_err();
        assert!(matches!(error, Error::Order("Service", 1)), "{error}");
        let error = service(&[&spec[..], &spec].concat()).unwrap_err();
        assert!(matches!(error, Error::Order("Service", 2)), "{error}");
    }

    #[test]
    fn error_is_read_from_its_envelope() {
        let code = [6 << 3, 0x99, 3].to_vec();
        let status = [field(2, "Failure"), field(3, "taken"), field(4, "AlreadyExists"), code].concat();
        let kind = field(1, field(2, "Status"));
        let answer = [MAGIC, &kind, &field(2, status)].concat();
        let answer = Answer::of(&answer).unwrap().unwrap();
        assert_eq!(answer.kind, "Status");
        let status = answer.status().unwrap();
        assert_eq!((&*status.message, status.code), ("taken", 409));
        assert!(status.is_failure() && status.is_already_exists());
        let newer = answer_of(&[&field(3, "taken")[..], &UNKNOWN_FIELD].concat());
        let status = Answer::of(&newer).unwrap().unwrap().status().unwrap();
        assert_eq!(status.message, "taken", "an unknown field is skipped");
        assert!(Answer::of(b"{}").is_none());
        assert!(Answer::of(b"k8s\0\x0a\xff").unwrap().is_err());
    }

    #[test]
    fn kind_falls_back_to_json() {
        let encoding = Encoding::default();
        let service = descriptor("", "Service");
        assert!(encoding.descriptor(service).is_some());
        encoding.fall_back("services", &Error::UnknownField("ServiceSpec", 99));
        assert!(encoding.descriptor(service).is_none());
    }
}
