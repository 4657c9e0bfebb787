//! The keys of etcd while it runs, read and set back through its JSON gateway.
//!
//! An API server learns of a key that is set back from its watches, as of any other change.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Request, Response};

/// The range of all that an API server stores, up to the character after `/`.
const FIRST: &str = "/registry/";
const BEHIND: &str = "/registry0";

/// Keys that an API server writes by itself at any time.
const SYSTEM: [&str; 5] = [
    "/registry/leases/kube-system/",
    "/registry/masterleases/",
    "/registry/configmaps/kube-system/",
    "/registry/flowschemas/",
    "/registry/prioritylevelconfigurations/",
];

/// How many keys one transaction changes; etcd takes 128.
const BATCH: usize = 100;

/// Keys and values as the gateway encodes them, in Base64.
type Entries = BTreeMap<String, Entry>;

#[derive(Debug)]
struct Entry {
    revision: String,
    value: String,
}

/// What etcd held at some time, without what an API server writes by itself.
#[derive(Debug)]
pub(super) struct Contents {
    port: u16,
    entries: Entries,
}

impl Contents {
    /// Reads what the etcd on this port holds.
    pub(super) fn read(port: u16) -> io::Result<Self> {
        Ok(Self {
            port,
            entries: entries(port, false)?,
        })
    }

    /// Returns whether it has all of these keys.
    pub(super) fn have(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.entries.contains_key(&encode(key)))
    }

    /// Sets etcd back to these contents.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        let now = entries(self.port, true)?;
        let added = now.keys().filter(|key| !self.entries.contains_key(*key));
        let delete = added.map(|key| json!({"requestDeleteRange": {"key": key}}));
        let changed = self.entries.iter().filter(|(key, entry)| {
            let revision = now.get(*key).map(|now| &now.revision);
            revision != Some(&entry.revision)
        });
        let put = changed.map(|(key, entry)| json!({"requestPut": {"key": key, "value": entry.value}}));
        let steps: Vec<Value> = delete.chain(put).collect();
        for batch in steps.chunks(BATCH) {
            call::<Value>(self.port, "txn", &json!({"success": batch}))?;
        }
        for (key, now) in entries(self.port, true)? {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.revision = now.revision;
            }
        }
        Ok(())
    }
}

fn entries(port: u16, keys_only: bool) -> io::Result<Entries> {
    #[derive(Deserialize)]
    struct Range {
        #[serde(default)]
        kvs: Vec<KeyValue>,
    }
    #[derive(Deserialize)]
    struct KeyValue {
        key: String,
        mod_revision: String,
        #[serde(default)]
        value: String,
    }
    let query = json!({"key": encode(FIRST), "range_end": encode(BEHIND), "keys_only": keys_only});
    let range: Range = call(port, "range", &query)?;
    let of_system = |key: &str| {
        let key = BASE64_STANDARD.decode(key).unwrap_or_default();
        SYSTEM.iter().any(|prefix| key.starts_with(prefix.as_bytes()))
    };
    let entries = range.kvs.into_iter().filter(|one| !of_system(&one.key)).map(|one| {
        let entry = Entry {
            revision: one.mod_revision,
            value: one.value,
        };
        (one.key, entry)
    });
    Ok(entries.collect())
}

fn encode(key: &str) -> String {
    BASE64_STANDARD.encode(key)
}

/// Sends a request to the gateway.
fn call<T: serde::de::DeserializeOwned>(port: u16, method: &str, body: &Value) -> io::Result<T> {
    let request = Request {
        method: "POST",
        path: &format!("/v3/kv/{method}"),
        body: &body.to_string(),
        ..Request::default()
    };
    let Response { status, body } = request.send((Ipv4Addr::LOCALHOST, port).into())?;
    if status != 200 {
        return Err(io::Error::other(format!("etcd refused {method}: {body}")));
    }
    Ok(serde_json::from_str(&body)?)
}
