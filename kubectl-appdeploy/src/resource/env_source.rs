//! A Secret or ConfigMap that variables come from, as in `secret/db`.

use std::fmt;

use crd::{EnvFromReference, EnvFromSource};

/// A Secret or ConfigMap in the namespace of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvSource {
    /// Whether it is a Secret.
    pub is_secret: bool,
    /// Its name.
    pub name: String,
}

impl EnvSource {
    /// Reads the value of a flag.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "write it like secret/db or configmap/settings".to_owned();
        let (kind, name) = text.split_once('/').ok_or_else(wrong)?;
        let is_secret = match kind {
            "secret" | "secrets" => true,
            "configmap" | "configmaps" | "cm" => false,
            _ => return Err(wrong()),
        };
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            is_secret,
            name: name.to_owned(),
        })
    }

    /// Returns the name of its kind, in lower case.
    pub const fn word(&self) -> &'static str {
        if self.is_secret { "secret" } else { "configmap" }
    }

    /// Returns the object of an entry of `envFrom`.
    pub fn of(entry: &EnvFromSource) -> Option<Self> {
        let of = |is_secret: bool, object: &Option<EnvFromReference>| {
            let name = object.as_ref()?.name.clone();
            Some(Self { is_secret, name })
        };
        of(true, &entry.secret_ref).or_else(|| of(false, &entry.config_map_ref))
    }

    /// Returns the entry of `envFrom` that sets a variable for each of its keys.
    pub fn all_keys(&self) -> EnvFromSource {
        let object = Some(EnvFromReference {
            name: self.name.clone(),
            optional: None,
        });
        if self.is_secret {
            EnvFromSource {
                secret_ref: object,
                ..EnvFromSource::default()
            }
        } else {
            EnvFromSource {
                config_map_ref: object,
                ..EnvFromSource::default()
            }
        }
    }
}

/// Formats it as the value of a flag.
impl fmt::Display for EnvSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.word(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_of_all_keys_is_read_back() {
        for (text, read) in [("secrets/db", "secret/db"), ("cm/look", "configmap/look")] {
            let source = EnvSource::parse(text).unwrap();
            assert_eq!(source.to_string(), read);
            assert_eq!(EnvSource::of(&source.all_keys()), Some(source));
        }
        for wrong in ["db", "pod/db", "secret/"] {
            assert!(EnvSource::parse(wrong).is_err(), "{wrong}");
        }
    }
}
