//! The owner of a queue, according to its tags.

use std::collections::BTreeMap;

use crd::tag;

/// The relation between a queue and an AppQueue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    /// The AppQueue has created the queue.
    Created,
    /// The AppQueue has adopted the queue.
    Adopted,
    /// The queue belongs to the AppQueue with this UID.
    Other(String),
    /// No AppQueue has created or adopted the queue.
    None,
}

impl Claim {
    /// Reads the tags of a queue. An adoption takes precedence over the creation.
    #[must_use]
    pub fn of(tags: &BTreeMap<String, String>, uid: &str) -> Self {
        let adopter = tags.get(tag::ADOPTED_BY);
        match adopter.or_else(|| tags.get(tag::OWNER)) {
            None => Self::None,
            Some(owner) if owner != uid => Self::Other(owner.clone()),
            Some(_) if adopter.is_some() => Self::Adopted,
            Some(_) => Self::Created,
        }
    }

    /// Whether the queue may be changed.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Created | Self::Adopted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adoption_takes_precedence_over_creation() {
        let claim = |tags: &[(&str, &str)]| {
            let tags = tags.iter().map(|(key, value)| ((*key).into(), (*value).into()));
            Claim::of(&tags.collect(), "me")
        };
        let other = || Claim::Other("other".into());
        assert_eq!(claim(&[("team", "me")]), Claim::None);
        assert_eq!(claim(&[(tag::OWNER, "me")]), Claim::Created);
        assert_eq!(claim(&[(tag::OWNER, "other")]), other());
        assert_eq!(claim(&[(tag::ADOPTED_BY, "me"), (tag::OWNER, "other")]), Claim::Adopted);
        assert_eq!(claim(&[(tag::ADOPTED_BY, "other"), (tag::OWNER, "me")]), other());
    }
}
