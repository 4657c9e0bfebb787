//! Messages, and how they are presented to serde.

use jiff::Timestamp;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

use super::wire::{self, Error, Value};

/// The type of a message.
#[derive(Debug)]
pub struct Descriptor {
    /// Its name in the API, such as `PodSpec`.
    name: &'static str,
    /// Its fields, in the order of their numbers.
    fields: &'static [Field],
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    number: u32,
    /// Its name in JSON.
    name: &'static str,
    of: Type,
    is_list: bool,
    /// Whether JSON does not have it if it is empty.
    is_omitted_if_empty: bool,
}

/// The type of a value.
#[derive(Debug)]
pub(super) enum Type {
    Text,
    Bool,
    Int,
    /// An amount: a message with a text.
    Quantity,
    /// A message with a number or a text.
    IntOrString,
    /// A message with seconds and nanoseconds; in JSON a text.
    Time,
    Message(&'static Descriptor),
    /// A message whose fields are fields of the message around it in JSON.
    Inline(&'static Descriptor),
    /// Entries with a text as the key, and this value.
    Map(&'static Type),
    /// What is never read: the fields that a manager owns.
    Skipped,
}

/// A field that is sent if it is set.
pub(super) const fn field(number: u32, name: &'static str, of: Type) -> Field {
    Field {
        number,
        name,
        of,
        is_list: false,
        is_omitted_if_empty: false,
    }
}

/// A field that is always sent, and which JSON does not have if it is empty.
pub(super) const fn omitted(number: u32, name: &'static str, of: Type) -> Field {
    Field {
        is_omitted_if_empty: true,
        ..field(number, name, of)
    }
}

/// A field with any number of values.
pub(super) const fn list(number: u32, name: &'static str, of: Type) -> Field {
    Field {
        is_list: true,
        ..field(number, name, of)
    }
}

/// The type of a message with these fields.
pub(super) const fn message(name: &'static str, fields: &'static [Field]) -> Descriptor {
    Descriptor { name, fields }
}

impl Descriptor {
    fn field(&self, number: u32) -> Result<&'static Field, Error> {
        let found = self.fields.binary_search_by_key(&number, |field| field.number);
        let field = found.ok().and_then(|at| self.fields.get(at));
        field.ok_or(Error::UnknownField(self.name, number))
    }
}

/// An encoded message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    descriptor: &'static Descriptor,
    unknown: Unknown,
}

/// What happens to a field that its type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// It is an error.
    Refused,
    /// It is skipped, as is all that serde ignores.
    Skipped,
}

impl<'a> Message<'a> {
    pub(super) const fn new(bytes: &'a [u8], descriptor: &'static Descriptor) -> Self {
        Self {
            bytes,
            descriptor,
            unknown: Unknown::Refused,
        }
    }

    /// The same with its known fields only.
    pub(crate) const fn known(self) -> Self {
        Self {
            unknown: Unknown::Skipped,
            ..self
        }
    }

    /// Reads it as what JSON is read as.
    pub(crate) fn read<T: Deserialize<'a>>(self) -> Result<T, Error> {
        T::deserialize(Node::Message(self))
    }

    /// Checks that all of it can be read.
    pub(crate) fn check(self) -> Result<(), Error> {
        self.read().map(|IgnoredAny| ())
    }

    /// Returns the number of its bytes.
    pub(crate) const fn bytes(self) -> usize {
        self.bytes.len()
    }

    /// Calls `each` with the name of each field that is a message, and that message. Others are left out.
    pub(crate) fn messages(self, mut each: impl FnMut(&'static str, Self) -> Result<(), Error>) -> Result<(), Error> {
        wire::each(self.bytes, |number, value| {
            let field = self.descriptor.field(number)?;
            match field.of {
                Type::Message(of) if !field.is_list => each(field.name, Self::new(value.bytes()?, of)),
                _ => Ok(()),
            }
        })
    }

    fn fields(self) -> Fields<'a> {
        Fields {
            level: Level::of(self.bytes, self.descriptor),
            outer: Vec::new(),
            unknown: self.unknown,
            current: None,
        }
    }
}

/// What is left of a message.
#[derive(Clone, Copy)]
struct Level<'a> {
    rest: &'a [u8],
    of: &'static Descriptor,
    /// The number of the field that was read last.
    last: u32,
}

impl<'a> Level<'a> {
    const fn of(rest: &'a [u8], of: &'static Descriptor) -> Self {
        Self { rest, of, last: 0 }
    }

    /// Takes another value of the field that was read last.
    fn next_of_list(&mut self) -> Result<Option<Value<'a>>, Error> {
        let mut rest = self.rest;
        if rest.is_empty() {
            return Ok(None);
        }
        let (number, value) = wire::next(&mut rest)?;
        Ok((number == self.last).then(|| {
            self.rest = rest;
            value
        }))
    }
}

/// The fields of a message that JSON has.
struct Fields<'a> {
    level: Level<'a>,
    /// The messages around an inline one.
    outer: Vec<Level<'a>>,
    unknown: Unknown,
    /// The field whose name was read.
    current: Option<(&'static Field, Value<'a>)>,
}

impl<'a> Fields<'a> {
    fn advance(&mut self) -> Result<Option<(&'static Field, Value<'a>)>, Error> {
        loop {
            if self.level.rest.is_empty() {
                match self.outer.pop() {
                    Some(level) => self.level = level,
                    None => return Ok(None),
                }
                continue;
            }
            let (number, value) = wire::next(&mut self.level.rest)?;
            if number <= self.level.last && self.unknown == Unknown::Refused {
                return Err(Error::Order(self.level.of.name, number));
            }
            self.level.last = number;
            let field = match self.level.of.field(number) {
                Err(Error::UnknownField(..)) if self.unknown == Unknown::Skipped => continue,
                field => field?,
            };
            match field.of {
                Type::Inline(of) => {
                    let inner = Level::of(value.bytes()?, of);
                    self.outer.push(std::mem::replace(&mut self.level, inner));
                }
                Type::Skipped => while self.level.next_of_list()?.is_some() {},
                // A time that was not set.
                Type::Time if value.is_zero() => {}
                _ if field.is_omitted_if_empty && value.is_zero() => {}
                _ => return Ok(Some((field, value))),
            }
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.current = self.advance()?;
        let name = self.current.map(|(field, _)| field.name);
        name.map(|name| seed.deserialize(BorrowedStrDeserializer::new(name)))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (field, first) = self.current.take().ok_or(Error::Malformed)?;
        let (level, unknown) = (&mut self.level, self.unknown);
        let next = Some(first);
        seed.deserialize(match &field.of {
            of if field.is_list => Node::List(List {
                level,
                next,
                of,
                unknown,
            }),
            Type::Map(of) => Node::Map(Map {
                entries: List {
                    level,
                    next,
                    of,
                    unknown,
                },
                value: first,
            }),
            of => Node::Value(first, of, unknown),
        })
    }
}

/// The values of a field.
struct List<'f, 'a> {
    level: &'f mut Level<'a>,
    next: Option<Value<'a>>,
    of: &'static Type,
    unknown: Unknown,
}

impl<'a> List<'_, 'a> {
    fn advance(&mut self) -> Result<Option<Value<'a>>, Error> {
        match self.next.take() {
            Some(first) => Ok(Some(first)),
            None => self.level.next_of_list(),
        }
    }
}

impl<'de> SeqAccess<'de> for List<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let next = self.advance()?;
        next.map(|value| seed.deserialize(Node::Value(value, self.of, self.unknown)))
            .transpose()
    }
}

/// The entries of a map, each of which is a message with a key and a value.
struct Map<'f, 'a> {
    entries: List<'f, 'a>,
    /// The value of the entry whose key was read.
    value: Value<'a>,
}

impl<'de> MapAccess<'de> for Map<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(entry) = self.entries.advance()? else {
            return Ok(None);
        };
        let mut key = "";
        self.value = Value::Bytes(&[]);
        wire::each(entry.bytes()?, |number, value| {
            match number {
                1 => key = value.text()?,
                2 => self.value = value,
                _ => return Err(unknown(number)),
            }
            Ok(())
        })?;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(Node::Value(self.value, self.entries.of, self.entries.unknown))
    }
}

/// What is presented to serde.
enum Node<'f, 'a> {
    Message(Message<'a>),
    List(List<'f, 'a>),
    Map(Map<'f, 'a>),
    Value(Value<'a>, &'static Type, Unknown),
}

impl<'de> Deserializer<'de> for Node<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let (value, of, unknown) = match self {
            Self::Message(message) => return visitor.visit_map(message.fields()),
            Self::List(list) => return visitor.visit_seq(list),
            Self::Map(map) => return visitor.visit_map(map),
            Self::Value(value, of, unknown) => (value, of, unknown),
        };
        match of {
            Type::Text => visitor.visit_borrowed_str(value.text()?),
            Type::Bool => visitor.visit_bool(value.number()? != 0),
            Type::Int => visitor.visit_i64(value.number()?.cast_signed()),
            Type::Quantity => visitor.visit_borrowed_str(quantity(value.bytes()?)?),
            Type::IntOrString => match int_or_string(value.bytes()?)? {
                Ok(number) => visitor.visit_i64(number),
                Err(text) => visitor.visit_borrowed_str(text),
            },
            Type::Time => visitor.visit_string(time(value.bytes()?)?.to_string()),
            Type::Message(descriptor) => {
                let message = Message {
                    bytes: value.bytes()?,
                    descriptor,
                    unknown,
                };
                visitor.visit_map(message.fields())
            }
            Type::Inline(_) | Type::Map(_) | Type::Skipped => Err(Error::Malformed),
        }
    }

    /// What is ignored is [checked](Message::check), unless unknown fields are skipped. The values of a list, each of which is a field
    /// of its own, are skipped one by one.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Message(Message { unknown, .. }) | Self::Value(_, _, unknown) if unknown == Unknown::Skipped => {
                visitor.visit_unit()
            }
            // Each manager of an object has one, which is not worth a text.
            Self::Value(value, Type::Time, _) => {
                time(value.bytes()?)?;
                visitor.visit_unit()
            }
            _ => self.deserialize_any(visitor),
        }
    }

    /// A field that was not set does not exist.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Self::Value(value, Type::Text, _) => visitor.visit_enum(BorrowedStrDeserializer::new(value.text()?)),
            _ => Err(Error::Malformed),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier
    }
}

/// Returns the error for a field that an amount, a time, the entry of a map or another message of this file does not have.
const fn unknown(number: u32) -> Error {
    Error::UnknownField("a value", number)
}

/// Reads an amount, which is kept as its text.
fn quantity(message: &[u8]) -> Result<&str, Error> {
    let mut text = "";
    wire::each(message, |number, value| match number {
        1 => value.text().map(|value| text = value),
        _ => Err(unknown(number)),
    })?;
    Ok(text)
}

/// Reads a number, or a text as the error.
fn int_or_string(message: &[u8]) -> Result<Result<i64, &str>, Error> {
    let (mut is_text, mut int, mut text) = (false, 0, "");
    wire::each(message, |number, value| match number {
        1 => value.number().map(|kind| is_text = kind == 1),
        2 => value.number().map(|value| int = value.cast_signed()),
        3 => value.text().map(|value| text = value),
        _ => Err(unknown(number)),
    })?;
    Ok(if is_text { Err(text) } else { Ok(int) })
}

/// Reads a time.
fn time(message: &[u8]) -> Result<Timestamp, Error> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    wire::each(message, |number, value| match number {
        1 => value.number().map(|value| seconds = value.cast_signed()),
        2 => value.number().map(|value| nanoseconds = value.cast_signed()),
        _ => Err(unknown(number)),
    })?;
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| Error::Malformed)?;
    Timestamp::new(seconds, nanoseconds).map_err(|_| Error::Malformed)
}
