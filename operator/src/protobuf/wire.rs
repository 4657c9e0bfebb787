//! The encoding of protobuf: numbered fields, each with a value whose end is known without its type.

use std::fmt::Display;

/// Why a message can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It ends in the middle of a field, or is not protobuf.
    #[error("the message is not protobuf")]
    Malformed,
    /// Kubernetes writes the fields of a message, which has this type, in the order of their numbers.
    #[error("the fields of {0} are not in the order of their numbers, at {1}")]
    Order(&'static str, u32),
    /// A text is not UTF-8. In JSON, the API server replaces what is not.
    #[error("a text is not UTF-8")]
    Text,
    /// A newer Kubernetes may have added fields to this type.
    #[error("{0} has an unknown field, number {1}")]
    UnknownField(&'static str, u32),
    /// It does not have the type that was asked for.
    #[error("{0}")]
    Type(String),
}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self::Type(message.to_string())
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Result<u64, Error> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(Error::Malformed),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(Error::Malformed),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::Text)
    }

    /// Whether it is zero or empty.
    pub(super) const fn is_zero(self) -> bool {
        match self {
            Self::Number(number) => number == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

/// Takes the next field of a message: its number and its value.
pub(super) fn next<'a>(message: &mut &'a [u8]) -> Result<(u32, Value<'a>), Error> {
    let key = varint(message)?;
    let number = u32::try_from(key >> 3).map_err(|_| Error::Malformed)?;
    let value = match key & 7 {
        0 => Value::Number(varint(message)?),
        2 => {
            let length = usize::try_from(varint(message)?).map_err(|_| Error::Malformed)?;
            let (bytes, rest) = message.split_at_checked(length).ok_or(Error::Malformed)?;
            *message = rest;
            Value::Bytes(bytes)
        }
        // Numbers of a fixed length, which no message of Kubernetes has.
        _ => return Err(Error::Malformed),
    };
    Ok((number, value))
}

/// Calls `each` with the number and the value of each field.
pub(super) fn each<'a>(
    mut message: &'a [u8],
    mut each: impl FnMut(u32, Value<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    while !message.is_empty() {
        let (number, value) = next(&mut message)?;
        each(number, value)?;
    }
    Ok(())
}

/// Takes a number, which has seven bits in each byte, the lowest first.
fn varint(message: &mut &[u8]) -> Result<u64, Error> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first().ok_or(Error::Malformed)?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Error::Malformed)
}
