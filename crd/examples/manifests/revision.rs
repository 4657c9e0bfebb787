//! The revision of the schema: a number that increases with each change. An admission policy uses it to distinguish older
//! from newer definitions. `crd/revision` records it with a hash of the schema.

use std::fmt;
use std::str::FromStr;

use anyhow::Context as _;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

/// A revision number and the hash of its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision {
    pub number: u32,
    hash: u64,
}

impl Revision {
    /// Returns the revision of these definitions: this one, or the next if the schema has changed.
    #[must_use]
    pub fn of(self, definitions: &[Value]) -> Self {
        let mut text = String::new();
        for definition in definitions {
            write(&definition["spec"]["versions"], &mut text);
        }
        let hash = xxh3_64(text.as_bytes());
        let number = self.number + u32::from(hash != self.hash);
        Self { number, hash }
    }
}

impl FromStr for Revision {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (number, hash) = text.trim().split_once(' ').context("no number and hash")?;
        Ok(Self {
            number: number.parse()?,
            hash: u64::from_str_radix(hash, 16)?,
        })
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} {:016x}", self.number, self.hash)
    }
}

/// Writes a value independently of the order of its keys.
fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in entries {
                out.push_str(&Value::from(key.as_str()).to_string());
                write(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write(item, out);
                out.push(',');
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}
