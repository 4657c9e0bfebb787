//! UIDs, as small as possible: each child has its own and that of its controller.

use std::fmt;

use uuid::Uuid;

/// A UID. Kubernetes makes UUIDs (RFC 9562), which take 16 bytes here instead of 36. Any other text is kept unchanged.
#[derive(Clone, PartialEq, Eq)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq)]
enum Form {
    Uuid(Uuid),
    Other(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        // A UUID can be written in several ways. UIDs are compared as texts.
        let same = |uuid: &Uuid| *uuid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text;
        let uuid = Uuid::try_parse(text).ok().filter(same);
        Self(uuid.map_or_else(|| Form::Other(text.into()), Form::Uuid))
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(Form::Other(Box::default()))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Uuid(uuid) => uuid.as_hyphenated().fmt(f),
            Form::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_ways_to_write_a_uuid_are_other_uids() {
        let uid = Uid::from("67e55044-10b1-426f-9247-bb680e5fe0c8");
        for text in [
            "67E55044-10B1-426F-9247-BB680E5FE0C8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "",
        ] {
            assert_ne!(uid, text.into());
            assert_eq!(Uid::from(text).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn text_is_kept(text in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[a-z0-9-]{0,40}") {
            prop_assert_eq!(Uid::from(&*text).to_string(), text);
        }
    }
}
